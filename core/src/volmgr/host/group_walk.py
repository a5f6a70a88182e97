"""One walk that gives a volume's files to a group, and writes only what differs: children first, the root last.

Below other mounts nothing is touched, links are given away themselves. A part of the files can be left to other
walks over the same tree, each of which sees every directory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from volmgr.host import held_file, syscalls
from volmgr.host.tree_walk import Level, Step, When, walk

_DIRECTORY_BITS = stat.S_ISGID | 0o110
_SET_ID_BITS = stat.S_ISUID | stat.S_ISGID
_KIND, _MODE = 0o170000, 0o7777
_VANISHED = {errno.ENOENT, errno.ESTALE}
_LOOK_EACH = 256
"""Entries between looks at what else there is to know; a power of two."""


class GroupWalk:
    """One walk over one volume; `seen` and `changed` count its entries so far."""

    def __init__(
        self,
        path: str,
        group: int,
        bits: int,
        between: Callable[[GroupWalk], None],
        *,
        part: int = 0,
        parts: int = 1,
    ) -> None:
        """Add `bits` to each mode; `between` is called now and then, and may raise to end the walk."""
        self.seen = 0
        self.changed = 0
        self._path = path
        self._group = group
        self._bits = bits
        self._between = between
        self._part = part
        self._parts = parts
        self._look = held_file.looking()

    def root_matches(self) -> bool:
        """Say whether the root alone shows that all was done before. Raises OSError."""
        found = os.lstat(self._path)
        wanted = self._bits | _DIRECTORY_BITS
        return found.st_gid == self._group and found.st_mode & wanted == wanted

    def below(self) -> None:
        """Change this walk's part of all that is below the root. Raises OSError with the whole path."""
        directory, name = os.path.split(self._path)
        parent = syscalls.open_beneath(directory, os.O_PATH | os.O_DIRECTORY)
        level: Level | None = None
        try:
            if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                return
            for step in walk(self._path, name, parent):
                level = step.level
                match step.when:
                    case When.ENTERED:
                        self._files(step)
                    case When.LEAVING:
                        pass
                    case When.LEFT:
                        level = level.above
                        if level is not None and self._is_mine(step.name):
                            self._one(step.descriptor, step.name)
        except OSError as error:
            raise _with_path(error, self._path if level is None else level.path) from error
        finally:
            os.close(parent)

    def root(self) -> None:
        """Change the root, which says to the next start that all below it is done. Raises OSError with its path."""
        directory, name = os.path.split(self._path)
        try:
            parent = syscalls.open_beneath(directory, os.O_PATH | os.O_DIRECTORY)
            try:
                self._one(parent, name, below=False)
            finally:
                os.close(parent)
        except OSError as error:
            raise _with_path(error, directory) from error

    def _files(self, step: Step) -> None:
        self._between(self)
        directories = step.level.pending = list[str]()
        with os.scandir(step.descriptor) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.name)
                elif self._is_mine(entry.name):
                    self._one(step.descriptor, entry.name)

    def _is_mine(self, name: str) -> bool:
        """Say whether no other walk changes this; `hash` is the same in all that were forked from one process."""
        return self._parts == 1 or hash(name) % self._parts == self._part

    def _one(self, directory: int, name: str, *, below: bool = True) -> None:
        """Change one thing; below the root, unless something is mounted there or it has vanished."""
        self.seen += 1
        if not self.seen % _LOOK_EACH:
            self._between(self)
        handle = -1
        try:
            handle = os.open(name, held_file.FLAGS, dir_fd=directory)
            found = self._look(handle)
            if not (below and found.attributes & held_file.MOUNT_ROOT):
                self.changed += self._set(directory, name, handle, found)
        except OSError as error:
            if not below or error.errno not in _VANISHED:
                raise OSError(error.errno, error.strerror, name) from error
        finally:
            if handle >= 0:
                os.close(handle)

    def _set(self, directory: int, name: str, handle: int, found: syscalls.StatxBuffer) -> bool:
        """Change the group by name, which is fast, and which all in this directory get; the mode by the handle."""
        old, kind = found.mode, found.mode & _KIND
        mode = old | self._bits | (_DIRECTORY_BITS if kind == stat.S_IFDIR else 0)
        differs: bool = found.gid != self._group
        if differs:
            os.chown(name, -1, self._group, dir_fd=directory, follow_symlinks=False)
        if kind == stat.S_IFLNK or (mode == old and not (differs and mode & _SET_ID_BITS)):
            return differs
        held_file.set_mode(handle, mode & _MODE)
        return True


def _with_path(error: OSError, directory: str) -> OSError:
    """Give an error with the whole path of what it is about; one of a descriptor is about the directory."""
    name = error.filename
    path = os.path.join(directory, name) if isinstance(name, str) else directory
    return OSError(error.errno, error.strerror, path)
