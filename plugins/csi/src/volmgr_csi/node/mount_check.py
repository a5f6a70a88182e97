"""Whether what a driver says that it mounted is there on the node: it may be elsewhere, twice, or dead.

What a driver in a container mounts reaches the node by shared propagation alone.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.plugin import Notice, OperationError, UncertainError, VolmgrError
from volmgr_csi.driver.paths import seen_by

if TYPE_CHECKING:
    from volmgr.plugin import Host, MountEntry
    from volmgr_csi.driver.drivers import Driver

_CREDENTIALS = struct.Struct("iii")  # pid, uid, gid
_PATIENCE = 5.0
"""Seconds that a socket, or a file system, may take which is about to be used."""
_SERVED = ("fuse", "nfs", "ceph", "cifs", "smb")
"""How the types begin whose file systems have a server, which may have gone."""
_LOST = (errno.ENOTCONN, errno.ESTALE)
"""What is said of what no server will ever answer for again."""
NOTHING_MOUNTED, STACKED = "NothingMounted", "StackedMounts"


def is_there(path: Path, host: Host) -> bool:
    """Say whether there is anything at a path, be it dead."""
    return host.mounts.is_mount_point(path) or host.files.info(path) is not None


def is_dead(path: Path, host: Host) -> bool:
    """Say whether the file system that is mounted on a path has lost its server for good; one that is slow has not."""
    entry = host.mounts.entry(path)
    if entry is None or not entry.fstype.startswith(_SERVED):
        return False
    try:
        host.mounts.file_system(path)
    except UncertainError:  # it does not answer: the driver has to do with that
        return False
    except OperationError as error:
        return any(os.strerror(each) in str(error) for each in _LOST)
    return False


def check_mount(driver: Driver, path: Path, host: Host) -> tuple[Notice, ...]:
    """Look at what a driver says that it published; gives what its Pod's owner should know.

    Raises UncertainError where the node does not have it: the Pod would write to the node's own disk.
    """
    top = host.mounts.entry(path)
    if top is not None:
        text = f"csi driver {driver.name} mounted {path} more than once; it must not mount again what is mounted"
        return (Notice(STACKED, text),) if _is_stacked(path, top, host) else ()
    told = seen_by(driver.name, path, host)
    if host.files.info(path) is None:
        raise UncertainError(
            f"csi driver {driver.name} says that it published {told}{_here(path, told)}, and nothing is there on the"
            f" node: it sees other directories; give it {host.paths.root} at the same path, or say in the configuration"
            " which paths it sees (plugins, kubernetes.io/csi, paths)"
        )
    if host.files.names(path):
        return ()  # written there, and not mounted
    if _is_mounted_for(driver, told, host):
        raise UncertainError(
            f"csi driver {driver.name} has mounted {told}{_here(path, told)} where the node does not see it: give its"
            f" container {host.paths.root} with mountPropagation Bidirectional (rshared)"
        )
    text = f"csi driver {driver.name} says that it published {told}, and nothing is mounted there"
    return (Notice(NOTHING_MOUNTED, f"{text}: what the pod writes stays on the node"),)


def _is_stacked(path: Path, top: MountEntry, host: Host) -> bool:
    """Say whether something else is mounted below the topmost mount of a path; the whole table is not read for that."""
    above = next((entry for up in path.parents if (entry := host.mounts.entry(up)) is not None), None)
    return above is not None and top.parent_id != above.mount_id


def _here(path: Path, told: str) -> str:
    return "" if told == str(path) else f" ({path} on the node)"


def _is_mounted_for(driver: Driver, told: str, host: Host) -> bool:
    """Say whether something is mounted in the mount namespace of the driver's process, as far as one may look."""
    process = _process_behind(driver.connection.socket)
    try:
        return process > 0 and host.mounts.is_mount_point(Path(f"/proc/{process}/root{told}"))
    except VolmgrError:
        return False


def _process_behind(path: str) -> int:
    """Give the process that serves a socket; 0 when nobody may know."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PATIENCE)
            probe.connect(path)
            said = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    except OSError:
        return 0
    return int(_CREDENTIALS.unpack(said)[0])
