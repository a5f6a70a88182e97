"""inotify for a few directories, by pyinotify: its events as small values, its quirks kept inside.

Events say where to look again, never what happened: an overflow has no path, a directory that was moved out keeps
reporting its old one, and a re-created one is not watched until it is added anew. The descriptor is read here: the
reader of pyinotify loses a whole batch to one file name that is not UTF-8, and walks all renames of the last minute
at each event.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import pyinotify

from volmgr.errors import OperationError

CONTENT = (
    pyinotify.IN_CLOSE_WRITE
    | pyinotify.IN_MODIFY
    | pyinotify.IN_ATTRIB
    | pyinotify.IN_CREATE
    | pyinotify.IN_DELETE
    | pyinotify.IN_MOVED_FROM
    | pyinotify.IN_MOVED_TO
    | pyinotify.IN_DELETE_SELF
    | pyinotify.IN_MOVE_SELF
    | pyinotify.IN_ONLYDIR
)
"""What to hear of a directory whose files are read."""

PLACE = pyinotify.IN_DELETE | pyinotify.IN_MOVED_FROM | pyinotify.IN_MOVED_TO | pyinotify.IN_ONLYDIR
"""What to hear of a directory in which a path's component lies: it may be busy, so no more than is needed."""

AWAITED = PLACE | pyinotify.IN_CREATE
"""The same, where the component is missing."""

ITSELF = pyinotify.IN_DELETE_SELF | pyinotify.IN_MOVE_SELF | pyinotify.IN_ONLYDIR
"""What to hear of a directory that leads somewhere, however busy it is; late while somebody is in a deleted one."""

_SELF = pyinotify.IN_DELETE_SELF | pyinotify.IN_MOVE_SELF | pyinotify.IN_UNMOUNT | pyinotify.IN_IGNORED


_EVENT = struct.Struct("iIII")
_BATCH = 1 << 16


class NoWatchError(OperationError):
    """inotify is exhausted; the message names the sysctl that raises its limit."""


@dataclass(frozen=True, slots=True)
class Happening:
    """Something happened to `name` in `directory`; without a name to the directory itself, without both anywhere."""

    directory: str = ""
    name: str = ""
    is_open: bool = False
    """It was written to and is still open."""
    is_settled: bool = False
    """It was closed after writing, or renamed to this name."""


class Watches:
    """The directories that are watched."""

    CONTENT, PLACE, AWAITED, ITSELF = CONTENT, PLACE, AWAITED, ITSELF

    def __init__(self) -> None:
        logging.getLogger("pyinotify").disabled = True  # it prints what it also raises, and events of stale watches
        try:
            self._manager = pyinotify.WatchManager()
        except OSError as error:
            raise NoWatchError(f"cannot watch directories: {_instances_remedy(str(error))}") from error
        os.set_blocking(self._manager.get_fd(), False)
        self._watched: dict[str, tuple[int, int, tuple[int, int]]] = {}
        self._directories: dict[int, str] = {}
        self._left: dict[int, str] = {}
        """Of watches that were dropped, and of which not all is heard yet."""

    def fileno(self) -> int:
        """Give the descriptor to poll."""
        return self._manager.get_fd()

    def close(self) -> None:
        """Stop watching."""
        self._manager.close()

    def keep(self, wanted: Mapping[str, int]) -> None:
        """Watch exactly these directories, each for its mask; one that was replaced is watched anew.

        What happened until then is still heard: it may be what changed what is wanted. A missing directory is left out.
        Raises NoWatchError when no watch is left.
        """
        for directory in tuple(self._watched):
            descriptor, mask, identity = self._watched[directory]
            if wanted.get(directory) != mask or _identity(directory) != identity:
                self._drop(directory, descriptor)
        for directory, mask in wanted.items():
            if directory not in self._watched:
                self._add(directory, mask)

    def happenings(self) -> list[Happening]:
        """Give what happened since the last call, without waiting."""
        found: list[Happening] = []
        with suppress(BlockingIOError):
            while data := os.read(self.fileno(), _BATCH):
                position = 0
                while position < len(data):
                    descriptor, mask, _cookie, length = _EVENT.unpack_from(data, position)
                    position += _EVENT.size + length
                    name = os.fsdecode(data[position - length : position].rstrip(b"\0"))
                    if (happening := self._happening(descriptor, mask, name)) is not None:
                        found.append(happening)
        return found

    def _add(self, directory: str, mask: int) -> None:
        identity = _identity(directory)
        if identity is None:
            return
        try:
            descriptor = self._manager.add_watch(directory, mask, quiet=False)[directory]
        except pyinotify.WatchManagerError as error:
            if "ENOSPC" in str(error):
                remedy = "raise the sysctl fs.inotify.max_user_watches"
                raise NoWatchError(f"cannot watch {directory}: no inotify watch is left; {remedy}") from error
            return  # it went away meanwhile: what it lies in says so
        self._watched[directory] = (descriptor, mask, identity)
        self._directories[descriptor] = directory

    def _drop(self, directory: str, descriptor: int) -> None:
        del self._watched[directory]
        if self._directories.pop(descriptor, None) is not None:
            self._left[descriptor] = directory
            with suppress(pyinotify.WatchManagerError):  # the kernel dropped it with its directory
                self._manager.rm_watch(descriptor, quiet=False)

    def _happening(self, descriptor: int, mask: int, name: str) -> Happening | None:
        if mask & pyinotify.IN_Q_OVERFLOW:
            self._left.clear()
            return Happening()
        if descriptor in self._left and mask & pyinotify.IN_IGNORED:
            del self._left[descriptor]
            return None
        directory = self._directories.get(descriptor) or self._left.get(descriptor)
        if directory is None:
            return None  # of a watch that was dropped before the queue overflowed
        if mask & pyinotify.IN_IGNORED:
            self._manager.del_watch(descriptor)
            del self._directories[descriptor]
            del self._watched[directory]
        if mask & _SELF:
            return Happening(directory)
        settled = mask & (pyinotify.IN_CLOSE_WRITE | pyinotify.IN_MOVED_TO)
        return Happening(directory, name, is_open=bool(mask & pyinotify.IN_MODIFY), is_settled=bool(settled))


def _identity(directory: str) -> tuple[int, int] | None:
    try:
        found = os.stat(directory)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _instances_remedy(text: str) -> str:
    if "EMFILE" in text:
        return "no inotify instance is left; raise the sysctl fs.inotify.max_user_instances (or the open-files limit)"
    return text
