"""One line of JSON for each operation on a volume: what, for whom, how it ended. It never changes an operation."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from volmgr.plugin import (
    Attach,
    Attached,
    Detach,
    Detached,
    DeviceMounted,
    DeviceUnmounted,
    Expand,
    Expanded,
    Host,
    Mount,
    MountDevice,
    Mounted,
    OperationError,
    Unmount,
    UnmountDevice,
    Unmounted,
    hookimpl,
)

log = logging.getLogger("volmgr.audit")

A = TypeVar("A")

Wrapped = Generator[None, A, A]
"""A wrapper of an operation that is answered with `A`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """What the configuration says below `plugins: {volmgr-audit: …}`."""

    file: str = ""
    """Where the lines are appended; without one they go to the daemon's log."""
    required: bool = False
    """Refuse an operation whose line could not be written; else only the log says that it could not."""


@hookimpl
def volmgr_settings() -> Mapping[str, type[Any]]:
    """Say what the configuration may say."""
    return {"volmgr-audit": AuditSettings}


@hookimpl(wrapper=True)
def volmgr_attach(request: Attach[Any], host: Host) -> Wrapped[Attached]:
    """Audit."""
    with _audited("attach", request, host):
        return (yield)


@hookimpl(wrapper=True)
def volmgr_detach(request: Detach, host: Host) -> Wrapped[Detached]:
    """Audit."""
    with _audited("detach", request, host):
        return (yield)


@hookimpl(wrapper=True)
def volmgr_mount_device(request: MountDevice[Any], host: Host) -> Wrapped[DeviceMounted]:
    """Audit."""
    with _audited("mount_device", request, host):
        return (yield)


@hookimpl(wrapper=True)
def volmgr_unmount_device(request: UnmountDevice, host: Host) -> Wrapped[DeviceUnmounted]:
    """Audit."""
    with _audited("unmount_device", request, host):
        return (yield)


@hookimpl(wrapper=True)
def volmgr_mount(request: Mount[Any], host: Host) -> Wrapped[Mounted]:
    """Audit."""
    with _audited("mount", request, host):
        return (yield)


@hookimpl(wrapper=True)
def volmgr_unmount(request: Unmount, host: Host) -> Wrapped[Unmounted]:
    """Audit."""
    with _audited("unmount", request, host):
        return (yield)


@hookimpl(wrapper=True)
def volmgr_expand(request: Expand[Any], host: Host) -> Wrapped[Expanded]:
    """Audit."""
    with _audited("expand", request, host):
        return (yield)


_Request = Attach[Any] | Detach | MountDevice[Any] | UnmountDevice | Mount[Any] | Unmount | Expand[Any]


@contextmanager
def _audited(operation: str, request: _Request, host: Host) -> Generator[None]:
    """Write down the operation that runs within."""
    settings = host.settings_of(AuditSettings)
    began = time.monotonic()
    line: dict[str, object] = {"operation": operation, "volume": request.volume, **_whom(request)}
    if settings.required:
        _write(settings, {**line, "outcome": "begun"})
    try:
        yield
    except BaseException as error:
        _end(settings, {**line, "outcome": type(error).__name__, "error": str(error)}, began)
        raise
    _end(settings, {**line, "outcome": "done"}, began)


def _whom(request: _Request) -> dict[str, object]:
    if isinstance(request, Mount):
        return {
            "pod": request.pod.key,
            "pod_uid": request.pod.uid,
            "target": str(request.target),
            "remount": request.remount,
        }
    if isinstance(request, Unmount):
        return {"pod_uid": request.pod_uid, "target": str(request.target)}
    return {"target": str(target)} if (target := getattr(request, "target", None)) else {}


def _end(settings: AuditSettings, line: dict[str, object], began: float) -> None:
    """Write how an operation ended. It has ended: that the line is lost can only be logged."""
    try:
        _write(settings, {**line, "seconds": round(time.monotonic() - began, 6)})
    except OperationError as error:
        log.error("%s", error)  # noqa: TRY400 - a message for people, not a bug


def _write(settings: AuditSettings, line: Mapping[str, object]) -> None:
    """Append one line at once; raises OperationError."""
    text = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **line})
    if not settings.file:
        log.info("%s", text)
        return
    try:
        descriptor = os.open(settings.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, text.encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        message = f"cannot append to the audit file {settings.file}: {error.strerror}; free it, or name another"
        raise OperationError(message) from error
