"""Whether a manifests directory is the one it was: a directory that is not mounted yet is not an empty one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from volmgr import records
from volmgr.errors import OperationError
from volmgr.host.interface import Host

_KIND = "source"
_CONFIRM = "put it back, or confirm the move with `volmgr doctor --accept-manifests`"


@dataclass(frozen=True, slots=True)
class Footing:
    """What a directory stands on."""

    path: str
    fstype: str
    device: str
    boot_id: str
    mount_point: bool


def footing(host: Host, path: str, resolved: str) -> Footing:
    """Look at a directory; raises OSError or OperationError when it is missing or cannot be read."""
    device = os.stat(resolved).st_dev
    os.scandir(resolved).close()  # not readable is not ready
    return Footing(
        path=path,
        fstype=host.mounts.file_system(Path(resolved)).type,
        device=f"{os.major(device)}:{os.minor(device)}",
        boot_id=host.kernel.boot_id,
        mount_point=host.mounts.is_mount_point(Path(resolved)),
    )


def moved(before: Footing | None, now: Footing) -> str:
    """Say why a directory cannot be the recorded one; empty when it may be."""
    if before is None:
        return ""
    if before.mount_point and not now.mount_point:
        return f"{now.path} was a mount point and is none now; mount it, or {_CONFIRM}"
    if before.fstype != now.fstype:
        return f"{now.path} was on a file system of type {before.fstype} and is on {now.fstype} now; {_CONFIRM}"
    if before.boot_id == now.boot_id and before.device != now.device:
        return f"{now.path} was on device {before.device} and is on {now.device} now; {_CONFIRM}"
    return ""


def recorded(host: Host, source: str) -> Footing | None:
    """Read what was recorded of a source; None when nothing was, or it is damaged."""
    body = records.read(host.files, _record(host, source), _KIND)
    if body is None:
        return None
    path, fstype, device, boot_id = (body.get(name) for name in ("path", "fstype", "device", "bootId"))
    mount_point = body.get("mountPoint")
    if not isinstance(path, str) or not isinstance(fstype, str) or not isinstance(device, str):
        return None
    if not isinstance(boot_id, str) or not isinstance(mount_point, bool):
        return None
    return Footing(path, fstype, device, boot_id, mount_point)


def record(host: Host, source: str, found: Footing) -> None:
    """Record what a source's directory stands on; raises OperationError."""
    body: dict[str, object] = {
        "path": found.path,
        "fstype": found.fstype,
        "device": found.device,
        "bootId": found.boot_id,
        "mountPoint": found.mount_point,
    }
    records.write(host.files, _record(host, source), _KIND, body, durable=True)


def accept(host: Host, source: str, path: Path) -> None:
    """Confirm that a source's directory is where it should be now; raises OperationError when it cannot be read."""
    absolute = os.path.abspath(path)
    try:
        found = footing(host, absolute, os.path.realpath(absolute))
    except OSError as error:
        raise OperationError(f"cannot accept {path}: {error.strerror}") from error
    record(host, source, found)


def _record(host: Host, source: str) -> Path:
    return host.paths.state / "sources" / f"{source}.json"
