"""Directories on which volumes are mounted: left as they were by what fails, and removed when they are done with."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, taken_back

if TYPE_CHECKING:
    from volmgr.host.interface import Host


def unmounted_if_it_fails(target: Path, host: Host) -> AbstractContextManager[None]:
    """Leave nothing of a mount on `target` that fails within, unless it was there before; see `taken_back`."""
    was_there = host.mounts.is_mount_point(target)

    def undo() -> None:
        if not was_there:
            host.mounts.unmount(target)
            host.files.remove_directory(target)

    return taken_back(undo, f"mounting {target}")


def remove_mount_point(target: Path, host: Host) -> None:
    """Remove the directory of a mount that is gone; gone is success. Raises OperationError for data in it, kept."""
    if host.files.info(target) is not None and not host.files.remove_directory(target):
        raise OperationError(f"{target} is not mounted, yet there is something in it: it is kept; move it away")


def device_behind(target: Path, shared: Path, host: Host) -> str:
    """Give the device of the node's mount on `shared` if the Pod's mount on `target` is of the same; else nothing."""
    mine, theirs = host.mounts.entry(target), host.mounts.entry(shared)
    return theirs.source if mine is not None and theirs is not None and mine.device == theirs.device else ""
