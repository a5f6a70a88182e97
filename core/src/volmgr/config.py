"""The daemon's configuration: every number that somebody may want to change, with kubelet's value as the default.

Durations are seconds, or texts such as `500ms` and `2m`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from volmgr.errors import ManifestError
from volmgr.manifest.documents import documents
from volmgr.model.duration import read_duration
from volmgr.model.kube import KubeSettings, read_kube_settings
from volmgr.model.schema import Problem, SchemaError, Unknown, load
from volmgr.model.tokens import TokenIssuer, read_token_issuer

LIMIT = 1 << 20
"""Bytes; no configuration file is longer."""

_REMEDY = "docs/reference/configuration.md lists the options"


def _duration(name: str, seconds: float) -> float:
    option: float = field(default=seconds, metadata={"name": name, "read": read_duration})
    return option


def _count(name: str, default: int) -> int:
    option: int = field(default=default, metadata={"name": name})
    return option


def _switch(name: str, *, default: bool) -> bool:
    option: bool = field(default=default, metadata={"name": name})
    return option


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All options; each field says what it is and where its default comes from."""

    backoff_initial: float = _duration("backoff_initial", 0.5)
    """First back-off of a failed operation; kubelet's initialDurationBeforeRetry, 500 ms."""
    backoff_max: float = _duration("backoff_max", 122.0)
    """Longest back-off; kubelet's maxDurationBeforeRetry, 2 min 2 s."""
    refresh_backoff_max: float = _duration("refresh_backoff_max", 30.0)
    """Longest back-off of a mount that is due again (an ending token): a quarter of what is left of the shortest."""
    pod_error_limit: int = _count("pod_error_limit", 10)
    """Errors kept per Pod; kubelet's maxPodErrors."""
    operation_deadline: float = _duration("operation_deadline", 120.0)
    """What one operation may take before it is uncertain; kubelet's CSI call timeout, 2 min."""
    look_deadline: float = _duration("look_deadline", 10.0)
    """What the server of a network or FUSE file system may take to answer for a path that is looked at: whether it is
    there, how full it is, a subPath to be bound."""
    quarantine_grace: float = _duration("quarantine_grace", 5.0)
    """How much longer a thread may take to notice its deadline before it is left alone and named."""
    ownership_event_delay: float = _duration("ownership_event_delay", 30.0)
    """How long giving a volume's files to its group takes before an event says so; kubelet's progressReportDuration."""
    ownership_event_interval: float = _duration("ownership_event_interval", 60.0)
    """How often an event says that giving a volume's files to its group goes on; kubelet's, as above."""
    wait_event_after: float = _duration("wait_event_after", 123.0)
    """After how long an event says that a Pod's volumes are not there, and why; kubelet's podAttachAndMountTimeout."""
    workers: int = _count("workers", 8)
    """Operations at once, not counting those that take longer than 250 ms."""
    endpoint_operations: int = _count("endpoint_operations", 4)
    """Operations at once per endpoint (server, portal, driver)."""
    removal_settle: float = _duration("removal_settle", 1.0)
    """How long a manifest file is missing before it counts as deleted: editors save by rename."""
    rescan_interval: float = _duration("rescan_interval", 30.0)
    """How often the manifests directory is read where inotify is not to be had."""
    record_retry: float = _duration("record_retry", 5.0)
    """How long until what a file says and could not be recorded (a full disk) is recorded again."""
    mount_table_debounce: float = _duration("mount_table_debounce", 0.25)
    """How long after a change the mount table is read, once for many changes."""
    health_interval: float = _duration("health_interval", 8.0)
    """How often mounts are looked at for what nobody tells: devices that turned read-only, FUSE servers that died."""
    retain_debounce: float = _duration("retain_debounce", 0.2)
    """How long after a change the set of objects kept on disk is brought up to date."""
    holders_recheck: float = _duration("holders_recheck", 10.0)
    """How often a package that said that a Pod still runs is asked again."""
    reload_delay: float = _duration("reload_delay", 0.1)
    """How long a reload waits for its answer to reach the client."""
    reload_check_deadline: float = _duration("reload_check_deadline", 60.0)
    """What a new set of packages may take to load before a reload is refused."""
    events_kept: int = _count("events_kept", 4096)
    """Events kept in memory, for who asks later; the oldest go first."""
    mount_options: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], metadata={"name": "mount_options"}
    )
    """Further mount options of volumes declared in Pods, by volume type: `kubernetes.io/empty-dir: [nosuid]`."""
    plugins: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], metadata={"name": "plugins"}
    )
    """Settings of volume types, by the names that `volmgr plugins` lists; each package's README says which it has."""
    keep_terminated_pod_volumes: bool = _switch("keep_terminated_pod_volumes", default=False)
    """Keep the volumes of Pods that have finished; kubelet's old flag of that name."""
    selinux_mount: bool = _switch("selinux_mount", default=True)
    """Mount with their SELinux label PersistentVolumes of any access mode, not only of ReadWriteOncePod; kubelet's
    gate SELinuxMount, on since 1.37."""
    required_drivers: tuple[str, ...] = field(default=(), metadata={"name": "required_drivers"})
    """Drivers of `csi` without which the node takes no Pods: until each has registered, `/readyz` answers 503."""
    bind_claims: bool = _switch("bind_claims", default=True)
    """Give PersistentVolumes to claims; off where a controller does."""
    xfs_nouuid: bool = _switch("xfs_nouuid", default=True)
    """Mount xfs with `nouuid`, which clones and snapshots need on the node of their origin."""
    controller_attach: bool | None = field(default=None, metadata={"name": "controller_attach"})
    """A controller attaches volumes and says so in the node's status; kubelet's enableControllerAttachDetach. Without
    it: only in Kubernetes mode."""
    token_issuer: TokenIssuer | None = field(default=None, metadata={"name": "token_issuer", "read": read_token_issuer})
    """In whose name service account tokens are issued, and how; none are without it."""
    kubernetes: KubeSettings = field(
        default_factory=KubeSettings, metadata={"name": "kubernetes", "read": read_kube_settings}
    )
    """How the API server is spoken to, in Kubernetes mode."""
    node_name: str = field(default="", metadata={"name": "node_name"})
    """The Node among the manifests that this machine is."""

    def __post_init__(self) -> None:
        """Refuse numbers that would stop everything."""
        for name in ("workers", "endpoint_operations", "pod_error_limit", "events_kept"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; write 1 or more")
        if not 0 < self.backoff_initial <= self.backoff_max:
            raise ValueError("backoff_initial is 0 or longer than backoff_max; write 500ms and 2m, for example")
        longer = ("operation_deadline", "look_deadline", "wait_event_after", "rescan_interval", "record_retry")
        for name in (*longer, "reload_check_deadline"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is 0; write how long, such as 2m")

    @property
    def controller_attaches(self) -> bool:
        """Say whether a controller attaches volumes."""
        return self.controller_attach is True

    def in_kubernetes_mode(self) -> Config:
        """Give the configuration of a node of a cluster: a controller attaches, unless it says otherwise."""
        attach = self.controller_attach is not False
        return dataclasses.replace(self, controller_attach=attach)

    def with_node_name(self, name: str) -> Config:
        """Give the configuration of a node of this name."""
        return dataclasses.replace(self, node_name=name)


def load_config(path: Path) -> Config:
    """Read a configuration file; raises ManifestError naming the file, the option and the remedy."""
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror}", file=str(path), remedy=_REMEDY) from error
    if len(data) > LIMIT:
        raise ManifestError(f"is longer than {LIMIT} bytes", file=str(path), remedy=_REMEDY)
    found = list(documents(data, is_json=path.suffix == ".json"))
    if not found:
        return Config()
    if len(found) > 1:
        raise ManifestError("has more than one document", file=str(path), remedy="keep one")
    if (problem := found[0].problem) is not None:
        raise refused(path, problem)
    try:
        return load(Config, found[0].data, unknown=Unknown.REFUSE)
    except SchemaError as error:
        raise refused(path, error.problems[0]) from None


def refused(path: Path, problem: Problem) -> ManifestError:
    """Give the error for one wrong option of a configuration file."""
    remedy = problem.remedy or _REMEDY
    return ManifestError(problem.problem, file=str(path), field=problem.field, remedy=remedy)
