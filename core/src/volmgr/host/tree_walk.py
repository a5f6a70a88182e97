"""Walking a directory tree by descriptors: never through a symbolic link, never across a mount, however deep.

Only one descriptor is open: the way back is `..`, checked against the directory that was left, as fts(3) does.
Recursion and paths end at a few thousand levels; this does not.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from volmgr.errors import OperationError
from volmgr.host import syscalls
from volmgr.host.unasked import silent

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class When(Enum):
    """Where a walk is: in a directory before or after its children, or back in the parent of one."""

    ENTERED = 1
    LEAVING = 2
    LEFT = 3


@dataclass(slots=True)
class Level:
    """A directory that is being walked; its path is made when it is asked for: all of a deep tree are gigabytes."""

    above: Level | None
    name: str
    device: int
    inode: int
    pending: list[str] | None = None
    """Directories in it that are still to be entered; whoever lists it anyway sets them when it is entered."""

    @property
    def path(self) -> str:
        """Give the path, for messages."""
        names: list[str] = []
        level: Level | None = self
        while level is not None:
            names.append(level.name)
            level = level.above
        return "/".join(reversed(names))


@dataclass(slots=True)
class Step:
    """One step; `descriptor` is the directory itself, for LEFT its parent, and is closed by the walk."""

    when: When
    descriptor: int
    level: Level
    name: str

    @property
    def path(self) -> str:
        """Give the directory's path, for messages."""
        return self.level.path


def walk(
    top: str,
    name: str,
    descriptor: int,
    *,
    mount: int | None = None,
    skipped: Callable[[str], None] = silent,
) -> Iterator[Step]:
    """Walk the directory `name` of `descriptor`, children first; `top` is its path, for messages.

    Entries are for the caller to list. Directories on another mount than `mount` (by default the top's) are not
    entered but given to `skipped`.
    """
    current = os.open(name, _DIRECTORY, dir_fd=descriptor)
    try:
        here = syscalls.statx(descriptor=current).mount
        mount = here if mount is None else mount
        if here != mount:
            skipped(top)
            return
        first = _enter(current, top, None)
        levels = [first]
        yield Step(When.ENTERED, current, first, name)
        while levels:
            level = levels[-1]
            if level.pending is None:
                level.pending = _directories(current)
            if level.pending:
                child = level.pending.pop()
                below = _open_child(current, child)
                if below is None:
                    continue
                if syscalls.statx(descriptor=below).mount != mount:
                    os.close(below)
                    skipped(f"{level.path}/{child}")
                    continue
                os.close(current)
                current = below
                levels.append(_enter(current, child, level))
                yield Step(When.ENTERED, current, levels[-1], child)
                continue
            yield Step(When.LEAVING, current, level, level.name if len(levels) > 1 else name)
            levels.pop()
            if levels:
                above = os.open("..", _DIRECTORY, dir_fd=current)
                os.close(current)
                current = above
                _check_way_back(current, levels[-1])
                yield Step(When.LEFT, current, level, level.name)
    finally:
        os.close(current)
    yield Step(When.LEFT, descriptor, first, name)


def _enter(descriptor: int, name: str, above: Level | None) -> Level:
    status = os.fstat(descriptor)
    return Level(above, name, status.st_dev, status.st_ino)


def _directories(descriptor: int) -> list[str]:
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _open_child(descriptor: int, name: str) -> int | None:
    try:
        return os.open(name, _DIRECTORY, dir_fd=descriptor)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:  # replaced meanwhile: no directory of ours
            return None
        raise


def _check_way_back(descriptor: int, level: Level) -> None:
    status = os.fstat(descriptor)
    if (status.st_dev, status.st_ino) != (level.device, level.inode):
        raise OperationError(f"stopped walking {level.path}: a directory below it was moved away meanwhile")
