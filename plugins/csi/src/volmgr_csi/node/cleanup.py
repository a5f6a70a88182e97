"""Taking away what a driver made: its call, and what lies on the node, which is never removed while it is mounted."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.plugin import OperationError
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.deadline import seconds
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.node import vol_data
from volmgr_csi.node.layout import DIRECTORY_MODE

if TYPE_CHECKING:
    from volmgr.plugin import Host
    from volmgr_csi.driver.drivers import Driver
    from volmgr_csi.driver.methods import A, Method, Q
    from volmgr_csi.node.vol_data import VolData

KEPT = "kept"
"""What is called so beside a target is data that was written where nothing was mounted."""
_shared = threading.Lock()
"""Held while directories of several volumes are made or removed."""


def undo(
    driver: Driver, method: Method[Q, A], question: Q, path: Path, deadline: float, host: Host, *also_gone: str
) -> None:
    """Let a driver take away what it made at a path; after NOT_FOUND, and the codes `also_gone`, nothing of it is left.

    Raises what `CallError.as_outcome` gives, and OperationError when something is still mounted.
    """
    try:
        driver.connection.call(method, question, seconds(host, deadline))
    except CallError as error:
        if error.code not in {"NOT_FOUND", *also_gone}:
            raise error.as_outcome() from error
        host.mounts.unmount(path)  # what a driver has forgotten, it never unmounts
    if host.mounts.is_mount_point(path):
        raise OperationError(
            f"csi driver {driver.name} said that {method.name} was done, and {path} is still mounted; end what uses it,"
            " or see whether the driver unmounts in another mount namespace"
        )


def driver_of(found: VolData, host: Host, *, is_there: bool) -> Driver | None:
    """Give the driver that takes a volume away; raises TransientError while it is needed and not there.

    Where nothing is there, it is asked all the same if it can be (None: it cannot): what it failed to do may be done.
    """
    known = drivers_of(host)
    if is_there:
        return known.unmaking(found.driver)
    driver = known.find(found.driver)
    return driver if driver is not None and driver.connection.is_answering() else None


def unmount_others(path: Path, host: Host) -> None:
    """Take away what somebody mounted below a volume, deepest first: the driver would find it busy."""
    for entry in host.mounts.below(path):
        if entry.target != path:
            host.mounts.unmount(entry.target)


def remove_left(path: Path, host: Host) -> None:
    """Remove an empty directory, link or file that a driver left where it published; what holds data is kept."""
    if host.mounts.is_mount_point(path):
        raise OperationError(f"{path} is still mounted, so nothing there is removed")
    info = host.files.info(path)
    if info is not None and info.kind == "directory":
        host.files.remove_directory(path)
    elif info is not None and not (info.kind == "file" and info.size):
        host.files.remove_file(path)


def is_in_the_way(path: Path, host: Host) -> bool:
    """Say whether somebody's data lies where a driver had mounted a file system, be it a file in the place of that."""
    if host.mounts.is_mount_point(path):  # asked first: of a dead one nothing else can be
        return False
    info = host.files.info(path)
    if info is None:
        return False
    return bool(host.files.names(path)) if info.kind == "directory" else info.kind == "file" and info.size > 0


def is_set_aside(path: Path, host: Host) -> bool:
    """Say whether an earlier try, which a crash or a slow driver ended, left something under its other name."""
    return host.files.info(path.with_name(KEPT)) is not None


def set_aside(path: Path, host: Host) -> None:
    """Give a directory with data in it another name, while a driver works that might delete it."""
    if is_in_the_way(path, host):
        names = (path.with_name(f"{KEPT}-{number}" if number else KEPT) for number in itertools.count())
        host.files.rename(path, next(name for name in names if host.files.info(name) is None))


def put_back(path: Path, host: Host) -> None:
    """Give a directory its name back; not while a driver may still be at work."""
    if is_set_aside(path, host) and host.files.info(path) is None:
        host.files.rename(path.with_name(KEPT), path)


def remove_link(path: Path, host: Host) -> None:
    """Remove a symbolic link from where a driver mounts a file system: it would mount where that leads."""
    if host.mounts.is_mount_point(path):  # asked first: of a dead one nothing else can be
        return
    info = host.files.info(path)
    if info is not None and info.kind == "symlink":
        host.files.remove_file(path)


def remove_data(directory: Path, host: Host) -> None:
    """Remove kubelet's file, and its directory if nothing else is in it."""
    vol_data.remove(host, directory)
    host.files.remove_directory(directory)


def make_directory(path: Path, host: Host) -> None:
    """Make a directory, and above it what volumes share, which might be removed just then."""
    with _shared:
        host.files.ensure_directory(path, DIRECTORY_MODE)


def remove_shared(path: Path, host: Host) -> None:
    """Remove a directory that volumes share, if nothing is in it."""
    with _shared:
        host.files.remove_directory(path)
