"""The daemon's configuration: every number that somebody may want to change, with kubelet's value as the default.

Durations are seconds, or texts such as `500ms` and `2m`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

from volmgr.errors import ManifestError
from volmgr.model.duration import parse_duration
from volmgr.model.schema import SchemaError, Unknown, load

if TYPE_CHECKING:
    from pathlib import Path


def _duration(name: str, seconds: float) -> Any:  # noqa: ANN401 - a dataclass field stands for its type
    return field(default=seconds, metadata={"name": name, "duration": True})


def _option(name: str, default: object) -> Any:  # noqa: ANN401 - a dataclass field stands for its type
    return field(default=default, metadata={"name": name})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All options; each field says what it is and where its default comes from."""

    backoff_initial: float = _duration("backoff_initial", 0.5)
    """First back-off of a failed operation; kubelet's initialDurationBeforeRetry, 500 ms."""
    backoff_max: float = _duration("backoff_max", 122.0)
    """Longest back-off; kubelet's maxDurationBeforeRetry, 2 min 2 s."""
    pod_error_limit: int = _option("pod_error_limit", 10)
    """Errors kept per Pod; kubelet's maxPodErrors."""
    operation_deadline: float = _duration("operation_deadline", 120.0)
    """What one operation may take before it is uncertain; kubelet's CSI call timeout, 2 min."""
    quarantine_grace: float = _duration("quarantine_grace", 5.0)
    """How much longer a thread may take to notice its deadline before it is left alone and named."""
    workers: int = _option("workers", 8)
    """Operations at once, not counting stuck ones."""
    endpoint_operations: int = _option("endpoint_operations", 4)
    """Operations at once per endpoint (server, portal, driver)."""
    removal_settle: float = _duration("removal_settle", 1.0)
    """How long a manifest file is missing before it counts as deleted: editors save by rename."""
    rescan_interval: float = _duration("rescan_interval", 30.0)
    """How often the manifests directory is read where inotify is not to be had."""
    mount_table_debounce: float = _duration("mount_table_debounce", 0.25)
    """How long after a change the mount table is read, once for many changes."""
    retain_debounce: float = _duration("retain_debounce", 0.2)
    """How long after a change the set of objects kept on disk is brought up to date."""
    holders_recheck: float = _duration("holders_recheck", 10.0)
    """How often a package that said that a Pod still runs is asked again."""
    reload_delay: float = _duration("reload_delay", 0.1)
    """How long a reload waits for its answer to reach the client."""
    keep_terminated_pod_volumes: bool = _option("keep_terminated_pod_volumes", default=False)
    """Keep the volumes of Pods that have finished; kubelet's old flag of that name."""
    controller_attach: bool = _option("controller_attach", default=False)
    """A controller attaches volumes and says so in the node's status; kubelet's enableControllerAttachDetach."""
    node_name: str = _option("node_name", "")
    """The Node among the manifests that this machine is."""

    def with_node_name(self, name: str) -> Config:
        """Give the configuration of a node of this name."""
        return dataclasses.replace(self, node_name=name)


def load_config(path: Path) -> Config:
    """Read a configuration file; raises ManifestError naming the file, the option and the remedy."""
    import yaml  # only a daemon with a file pays for it

    remedy = "see docs/reference/configuration.md"
    try:
        data: object = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror}", file=str(path), remedy=remedy) from error
    except yaml.YAMLError as error:
        raise ManifestError(f"is no YAML: {error}", file=str(path), remedy=remedy) from error
    if data is None:
        return Config()
    if not isinstance(data, dict):
        raise ManifestError("is no mapping of options", file=str(path), remedy=remedy)
    options = cast("dict[str, object]", data)
    try:
        return load(Config, _with_durations(options, path), unknown=Unknown.REFUSE)
    except SchemaError as error:
        first = error.problems[0]
        raise ManifestError(
            first.problem, file=str(path), field=first.field, remedy=first.remedy or remedy
        ) from error


def _with_durations(options: dict[str, object], path: Path) -> dict[str, object]:
    """Read the durations among the options."""
    read = dict(options)
    for option in fields(Config):
        value = options.get(option.name)
        if not option.metadata.get("duration") or value is None:
            continue
        try:
            read[option.name] = parse_duration(str(value))
        except ValueError as error:
            raise ManifestError(str(error), file=str(path), field=option.name) from error
    return read
