"""Block volumes as the core hands them over: a bind of the device, a link for the Pod, a loop device as a lock.

Source: `behaviours.md` §2.10, which is `pkg/volume/util/volumepathhandler` of kubelet 1.37.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, TransientError, UncertainError

if TYPE_CHECKING:
    from volmgr.host.interface import Host

_LINKS = 16  # from a device's stable name (/dev/disk/by-id) to the device: one or two in practice


def map_device(host: Host, device_path: str, map_directory: Path, pod_uid: str, link: Path) -> str:
    """Hand a device to a Pod, and give its real path; raises UncertainError when it was begun and not ended."""
    if not device_path:
        raise UncertainError("device path of the volume is empty")
    try:
        device = _real(host, Path(device_path))
        bind = map_directory / pod_uid
        host.files.ensure_directory(map_directory, 0o750)
        _bind(host, device, bind)
        host.files.ensure_directory(link.parent, 0o750)
        host.files.ensure_symlink(link, str(device))
        host.block.attach_loop(bind)
    except (OperationError, TransientError) as error:
        raise UncertainError(f"mapping {device_path} for pod {pod_uid}: {error}") from error
    return str(device)


def unmap_device(host: Host, map_directory: Path, pod_uid: str, link: Path) -> None:
    """Take a device back from a Pod; what is missing is success."""
    bind = map_directory / pod_uid
    for loop in host.block.find_loops(bind):
        host.block.detach_loop(loop)
    host.files.remove_file(link)
    host.files.remove_directory(link.parent)
    host.mounts.unmount(bind)
    host.files.remove_file(bind)
    for other in _mapped(host, map_directory)[:1]:  # one lock serves all Pods, and it had this Pod's bind open
        host.block.attach_loop(map_directory / other)


def check_unused(host: Host, map_directory: Path) -> None:
    """Refuse to tear a device down while a Pod's bind is left in its map directory; raises OperationError."""
    left = _mapped(host, map_directory)
    if left:
        raise OperationError(f"{map_directory} is still mapped for {', '.join(left)}")


def _bind(host: Host, device: Path, bind: Path) -> None:
    """Bind a device on its file; another device there is of before, when it had another name."""
    there, wanted = host.files.info(bind), host.files.info(device)
    if there is not None and there.kind != "file":
        if wanted is not None and there.rdev == wanted.rdev:
            return
        host.mounts.unmount(bind)
    host.files.ensure_file(bind)
    host.mounts.ensure_bound(device, bind)


def _mapped(host: Host, map_directory: Path) -> list[str]:
    """Name the Pods for which a device is bound in its map directory; kubelet has `iscsi.json` beside the binds."""
    return [
        name
        for name in host.files.names(map_directory)
        if not name.endswith(".json")
        and (info := host.files.info(map_directory / name)) is not None
        and info.kind != "directory"
    ]


def _real(host: Host, device: Path) -> Path:
    for _ in range(_LINKS):
        target = host.files.read_link(device)
        if target is None:
            return device
        device = device.parent / target
    raise OperationError(f"{device}: too many levels of symbolic links")
