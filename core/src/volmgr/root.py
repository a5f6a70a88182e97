"""The root directory: one daemon at a time, and whether it is ours to change."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

from volmgr import records
from volmgr.errors import OperationError, PluginError
from volmgr.kubelet import kubelet_of

if TYPE_CHECKING:
    from pathlib import Path

    from volmgr.host.interface import Host

KIND = "root"


class LockedError(PluginError):
    """Another daemon or a kubelet has this root; names its PID."""


def ensure_directory(path: Path) -> Path:
    """Make the root directory if there is none; raises OperationError for what cannot be one."""
    try:
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
    except FileExistsError:
        message = f"the root directory {path} is no directory; move it away, or name another with --root-dir"
        raise OperationError(message) from None
    try:
        os.path.realpath(path).encode()
    except UnicodeEncodeError:
        raise OperationError(f"the root directory {os.fsencode(path)!r} is no UTF-8; rename it") from None
    return path


def refuse_kubelet(host: Host) -> None:
    """Raise LockedError when a kubelet of this machine has the root: both would unmount what is the other's."""
    found = kubelet_of(host.paths.root)
    if found is not None:
        raise LockedError(
            f"{host.paths.root}: the kubelet with PID {found.pid} ({found.command}) has this root;"
            f" stop it first ({found.stop}), or name another with --root-dir"
        )


def lock(host: Host) -> int:
    """Take the root's lock and give its descriptor; raises LockedError at once when somebody else has the root."""
    refuse_kubelet(host)
    host.files.ensure_directory(host.paths.state, 0o700)
    path = host.paths.state / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise LockedError(f"{host.paths.root}: the volmgrd with PID {pid} has this root; stop it first") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def is_foreign(host: Host) -> bool:
    """Say whether somebody else filled this root and it was never adopted; an empty one becomes ours."""
    if records.read(host.files, host.paths.state / "root.json", KIND) is not None:
        return False
    if host.files.names(host.paths.pods):
        return True
    mark_adopted(host)
    return False


def mark_adopted(host: Host) -> None:
    """Note that the root is ours."""
    records.write(host.files, host.paths.state / "root.json", KIND, {"adopted": True}, durable=True)
