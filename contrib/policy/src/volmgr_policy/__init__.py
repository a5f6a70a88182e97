"""Rules about which volumes a node mounts: what a rule denies is refused, with its reason, before the type acts."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeVar

from volmgr.plugin import (
    Attach,
    Attached,
    DeviceMounted,
    Host,
    Mount,
    MountDevice,
    Mounted,
    Pod,
    SpecError,
    VolumeSpec,
    hookimpl,
)

A = TypeVar("A")

Wrapped = Generator[None, A, A]
"""A wrapper of an operation that is answered with `A`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which volumes are denied: those of `types` in `namespaces` (none named: all), but for `allow_below`."""

    types: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    allow_below: tuple[str, ...] = field(default=(), metadata={"name": "allow_below"})
    """Directories below which a source that has a path (hostPath, local) is let through."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """What the configuration says below `plugins: {volmgr-policy: …}`; the first rule that denies counts."""

    rules: tuple[Rule, ...] = ()


@hookimpl
def volmgr_settings() -> Mapping[str, type[Any]]:
    """Say what the configuration may say."""
    return {"volmgr-policy": PolicySettings}


@hookimpl(wrapper=True)
def volmgr_attach(request: Attach[Any], host: Host) -> Wrapped[Attached]:
    """Refuse what no Pod may have, whoever it is."""
    _check(request.spec, None, host)
    return (yield)


@hookimpl(wrapper=True)
def volmgr_mount_device(request: MountDevice[Any], host: Host) -> Wrapped[DeviceMounted]:
    """Refuse what no Pod may have, whoever it is."""
    _check(request.spec, None, host)
    return (yield)


@hookimpl(wrapper=True)
def volmgr_mount(request: Mount[Any], host: Host) -> Wrapped[Mounted]:
    """Refuse what this Pod may not have."""
    _check(request.spec, request.pod, host)
    return (yield)


def _check(spec: VolumeSpec[Any], pod: Pod | None, host: Host) -> None:
    for number, rule in enumerate(host.settings_of(PolicySettings).rules, 1):
        denied = _denied(rule, spec, pod)
        if denied:
            reason = f": {rule.reason}" if rule.reason else ""
            message = f"volmgr-policy, rule {number}, denies {denied}{reason}; ask who runs this node"
            raise SpecError(message)


def _denied(rule: Rule, spec: VolumeSpec[Any], pod: Pod | None) -> str:
    """Say what of a volume a rule denies; empty when it lets it through."""
    if rule.types and spec.type not in rule.types:
        return ""
    if rule.namespaces and (pod is None or pod.metadata.namespace not in rule.namespaces):
        return ""
    path = getattr(spec.source, "path", None)
    if not rule.allow_below or not isinstance(path, str):
        return f"{spec.type} volumes"
    for each in dict.fromkeys((os.path.normpath(path), os.path.realpath(path))):  # where its links lead to, too
        if not any(PurePosixPath(each).is_relative_to(allowed) for allowed in rule.allow_below):
            return f"{spec.type} {each}, which is not below {' or '.join(rule.allow_below)}"
    return ""
