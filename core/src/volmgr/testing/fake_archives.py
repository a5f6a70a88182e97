"""The archives of FakeHost: the same rules as on a real machine, applied to a tree in memory.

A hard link is a copy here: a machine in memory has one name for each file.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from volmgr.errors import OperationError
from volmgr.host.interface import Unpacked, Unpacking
from volmgr.host.layers import Parts, pieces
from volmgr.host.tar_entries import Entry, Read
from volmgr.host.unpacking import unpack, verify
from volmgr.testing.disks import Node
from volmgr.testing.fake_files import FakeFiles
from volmgr.testing.fake_services import attempt, never, one_at_a_time, silent
from volmgr.testing.machine import Machine

_LIMIT = 1 << 30  # bytes of an archive in memory
_LINKS = 40


@one_at_a_time
@dataclass
class FakeArchives:
    """Archives in memory."""

    machine: Machine
    files: FakeFiles

    def unpack(
        self,
        archive: Path,
        target: Path,
        what: Unpacking,
        *,
        cancelled: Callable[[], bool] = never,
        progress: Callable[[str], None] = silent,
    ) -> Unpacked:
        with attempt(f"unpack {what.name}"):
            return unpack(self._file(archive, what), FakeTree(self.machine, target), what, cancelled, progress)

    def verify(self, archive: Path, what: Unpacking, *, cancelled: Callable[[], bool] = never) -> None:
        verify(self._file(archive, what), what, cancelled)

    def _file(self, archive: Path, what: Unpacking) -> Callable[[int], bytes]:
        content = self.files.read(archive, _LIMIT)
        if content is None:
            message = f"cannot read {archive}, {what.name}: no such file or directory"
            raise OperationError(message)
        return io.BytesIO(content).read


class FakeTree:
    """A directory in memory that is being filled."""

    def __init__(self, machine: Machine, top: Path) -> None:
        self._machine = machine
        self._top = top

    def directory(self, path: Parts, entry: Entry) -> None:
        place = self._make_way(path)
        node = self._node(place)
        if node is None or node.kind != "directory":
            self._clear(place)
            node = self._machine.make(place, "directory", 0o700)
        self._adorn(node, entry)

    def file(self, path: Parts, entry: Entry, read: Read) -> None:
        place = self._make_way(path)
        self._clear(place)
        content = b"".join(map(read, pieces(entry.size)))
        self._adorn(self._machine.make(place, "file", 0o600, content=content), entry)

    def symlink(self, path: Parts, entry: Entry) -> None:
        place = self._make_way(path)
        self._clear(place)
        node = self._machine.make(place, "symlink", 0o777, content=os.fsencode(entry.link))
        node.uid, node.gid = entry.uid, entry.gid

    def hard_link(self, path: Parts, target: Parts) -> None:
        old = self._node(self._resolve(target[:-1]) / target[-1])
        if old is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if old.kind == "directory":
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        place = self._make_way(path)
        self._clear(place)
        new = self._machine.make(place, old.kind, old.mode, content=old.content)
        new.mode, new.uid, new.gid = old.mode, old.uid, old.gid

    def remove(self, path: Parts) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            self._clear(self._resolve(path[:-1]) / path[-1])

    def names(self, path: Parts) -> tuple[str, ...]:
        with suppress(FileNotFoundError, NotADirectoryError):
            node = self._node(self._resolve(path))
            return () if node is None else tuple(sorted(node.children))
        return ()

    def is_directory(self, path: Parts) -> bool:
        with suppress(FileNotFoundError, NotADirectoryError):
            node = self._node(self._resolve(path[:-1]) / path[-1])
            return node is not None and node.kind == "directory"
        return False

    def _node(self, place: Path) -> Node | None:
        found = self._machine.look(place, follow=False)
        return None if found is None else found[1]

    def _make_way(self, path: Parts) -> Path:
        """Make the directory in which a path lies, if it is missing; gives the path, free of links."""
        if not path:
            return self._top
        here = self._top
        for depth in range(1, len(path)):
            try:
                here = self._resolve(path[:depth])
            except FileNotFoundError:
                here = here / path[depth - 1]
                if self._node(here) is not None:  # a link that leads to nothing in the tree
                    raise
                self._machine.make(here, "directory", 0o755).mode = 0o755
        return here / path[-1]

    def _resolve(self, path: Parts) -> Path:
        """Follow the links on a path as a process does whose root directory is the top of the tree."""
        here: list[str] = []
        pending, links = list(reversed(path)), 0
        while pending:
            name = pending.pop()
            if name == "..":
                del here[-1:]
                continue
            node = self._node(self._top.joinpath(*here, name))
            if node is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            if node.kind == "symlink":
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                target = os.fsdecode(node.content)
                here = [] if target.startswith("/") else here
                pending.extend(part for part in reversed(target.split("/")) if part not in {"", "."})
                continue
            if node.kind != "directory":
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            here.append(name)
        return self._top.joinpath(*here)

    def _clear(self, place: Path) -> None:
        node = self._node(place)
        if node is None:
            return
        if node.kind != "directory":
            self._machine.unlink(place)
            return
        for name in tuple(node.children):
            self._clear(place / name)
        self._machine.rmdir(place)

    def _adorn(self, node: Node, entry: Entry) -> None:
        node.mode, node.uid, node.gid = entry.mode, entry.uid, entry.gid
