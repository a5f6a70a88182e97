"""Removing trees that we made: never across a mount, never through a symbolic link, in any depth.

A tree with a mount in it is refused before anything in it is touched: small trees are looked through, for large ones
the mount table is read. What is mounted later is found by its mount id (directories) or by EBUSY (files).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from volmgr.errors import BusyError, OperationError, TransientError
from volmgr.host import mount_table, syscalls
from volmgr.host.mounts import canonical, read_table
from volmgr.host.survey import is_mount, mounts_within
from volmgr.host.tree_walk import Step, When, walk
from volmgr.host.unasked import never

_CHECK_EACH = 256  # entries between looks at whether it is cancelled


def is_small(path: Path) -> bool:
    """Say whether a tree has few entries; raises BusyError when it is or holds a mount, in any size."""
    if is_mount(str(path)):
        raise BusyError(f"cannot remove {path}: it is a mount; unmount it first")
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        return True
    mounts = mounts_within(path)
    if mounts is None:
        _refuse_mounts(path)
        return False
    if mounts:
        raise _mounted(path, mounts)
    return True


def remove_tree(path: Path, directory: int, *, cancelled: Callable[[], bool] = never, thorough: bool = False) -> None:
    """Remove a file, link or tree that lies in the open `directory`; missing is success.

    Its mounts have been looked for by `is_small`. What cannot be removed (an immutable file) ends it, or, when
    `thorough`, only keeps the directories that lead there; the first such thing is the error in either case.
    """
    refusals = _Refusals(thorough=thorough)
    try:
        _remove(path, directory, cancelled, refusals)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _refused(path, error) from error


class _Refusals:
    """What could not be removed."""

    def __init__(self, *, thorough: bool) -> None:
        self._thorough = thorough
        self._first: OperationError | None = None

    def add(self, path: Path | str, error: OSError) -> None:
        """Raise, or remember the first; a directory that is not empty since then is none."""
        refused = _refused(path, error)
        if not self._thorough:
            raise refused from error
        if self._first is None:
            self._first = refused

    def check(self) -> None:
        """Raise the first that was remembered."""
        if self._first is not None:
            raise self._first


def _remove(path: Path, directory: int, cancelled: Callable[[], bool], refusals: _Refusals) -> None:
    try:
        os.unlink(path.name, dir_fd=directory)
        return
    except (IsADirectoryError, PermissionError) as error:  # EISDIR is Linux, EPERM is POSIX
        if error.errno == errno.EPERM and not _is_directory(path.name, directory):
            raise
    mounts: list[str] = []
    removed = 0
    mount = syscalls.statx(descriptor=directory).mount
    for step in walk(str(path), path.name, directory, mount=mount, skipped=mounts.append):
        match step.when:
            case When.ENTERED:
                removed = _empty(step, removed, cancelled, path, refusals)
            case When.LEAVING:
                pass
            case When.LEFT if not (mounts and _holds_any(step.path, mounts)):
                _remove_directory(step, refusals)
            case When.LEFT:
                pass
    if mounts:
        raise _mounted(path, mounts)
    refusals.check()


def _empty(step: Step, removed: int, cancelled: Callable[[], bool], top: Path, refusals: _Refusals) -> int:
    with os.scandir(step.descriptor) as entries:
        for entry in entries:
            if removed % _CHECK_EACH == 0 and cancelled():
                raise TransientError(
                    f"removing {top} was stopped after {removed} entries; it goes on when it is due again"
                )
            removed += 1
            if entry.is_dir(follow_symlinks=False):
                continue
            try:
                os.unlink(entry.name, dir_fd=step.descriptor)
            except FileNotFoundError:
                continue
            except OSError as error:
                refusals.add(f"{step.path}/{entry.name}", error)
    return removed


def _remove_directory(step: Step, refusals: _Refusals) -> None:
    try:
        os.rmdir(step.name, dir_fd=step.descriptor)
    except FileNotFoundError:
        return
    except OSError as error:
        refusals.add(step.path, error)


def _holds_any(path: str, mounts: list[str]) -> bool:
    return any(mount.startswith(f"{path}/") for mount in mounts)


def _is_directory(name: str, descriptor: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode)


def _refuse_mounts(path: Path) -> None:
    mounts = [str(entry.target) for entry in mount_table.below(read_table(), canonical(path))]
    if mounts:
        raise _mounted(path, mounts)


def _mounted(path: Path, mounts: list[str]) -> BusyError:
    return BusyError(f"cannot remove {path}: mounted in it: {', '.join(mounts)}; unmount that first")


def _refused(path: Path | str, error: OSError) -> OperationError:
    if error.errno == errno.EBUSY:
        return BusyError(f"cannot remove {path}: it is a mount; unmount it first")
    if error.errno == errno.EPERM:
        return syscalls.failed(f"remove {path}", error, "if lsattr shows it as immutable, chattr -i it")
    if error.errno == errno.ENOTEMPTY:
        return syscalls.failed(f"remove {path}", error, "something was put into it meanwhile")
    return syscalls.failed(f"remove {path}", error)
