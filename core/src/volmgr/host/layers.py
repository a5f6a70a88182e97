"""Applies one tar archive to a tree: which names are let in, what whiteouts hide, what is refused. The tree acts.

Source of the rules: "Image Layer Filesystem Changeset" of the OCI image specification. Symbolic links on the way to an
entry are followed as a process does whose root directory is the tree, as the runtimes do it: nothing leads out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from volmgr.host.tar_entries import BadArchiveError, Entry, Read, entries, shown

OPAQUE = ".wh..wh..opq"
_HIDES = ".wh."
_RESERVED = ".wh..wh."
PIECE = 1 << 20
_LONGEST = 4096  # bytes of a path, as for the kernel

Parts = tuple[str, ...]
"""The names on the way to an entry; empty is the top."""


class Tree(Protocol):
    """A tree that a layer is applied to; each raises OSError as the kernel does."""

    def directory(self, path: Parts, entry: Entry) -> None:
        """Make a directory, or change the one that is there; anything else in its place goes."""
        ...

    def file(self, path: Parts, entry: Entry, read: Read) -> None:
        """Make a regular file of the content that `read` gives; what is in its place goes."""
        ...

    def symlink(self, path: Parts, entry: Entry) -> None:
        """Make a symbolic link; what is in its place goes."""
        ...

    def hard_link(self, path: Parts, target: Parts) -> None:
        """Give a file of the tree a further name; what is in its place goes."""
        ...

    def remove(self, path: Parts) -> None:
        """Remove whatever is at a path; missing is success."""
        ...

    def names(self, path: Parts) -> tuple[str, ...]:
        """List a directory; empty when it is missing or none."""
        ...

    def is_directory(self, path: Parts) -> bool:
        """Say whether a directory, and no link to one, is at a path."""
        ...


class _Names(dict[str, "_Names"]):
    """The paths of a layer, each name once below the one before it."""

    def add(self, path: Parts) -> int:
        """Add a path, and those that lead to it; gives how many were not there."""
        here, new = self, 0
        for name in path:
            if name not in here:
                here[name] = _Names()
                new += 1
            here = here[name]
        return new

    def has(self, path: Parts) -> bool:
        """Say whether a path, or one below it, was added."""
        here = self
        for name in path:
            if name not in here:
                return False
            here = here[name]
        return True


class Layer:
    """One archive on its way into a tree; `whiteouts` says whether names may hide what lower layers have."""

    def __init__(self, tree: Tree, *, whiteouts: bool, count: Callable[[int, int], None]) -> None:
        """`count` is told, before anything is made, how many things and how many bytes of content; it may raise."""
        self._tree = tree
        self._whiteouts = whiteouts
        self._count = count
        self._own = _Names()

    def apply(self, read: Read) -> None:
        """Make every entry; raises BadArchiveError that names the one that is refused."""
        for entry in entries(read):
            path = parts(entry.name, entry.name)
            try:
                self._make(path, entry, read)
            except OSError as error:
                raise BadArchiveError(f"{shown(entry.name)} cannot be made: {error.strerror}") from error

    def _make(self, path: Parts, entry: Entry, read: Read) -> None:
        if self._whiteouts and path and path[-1].startswith(_HIDES):
            self._count(1, 0)
            self._hide(path, entry)
            for size in pieces(entry.size):
                read(size)
            return
        if not path and entry.kind != "directory":
            raise BadArchiveError(f"{shown(entry.name)} is a {entry.kind} in the place of the top directory")
        # Directories count that only the paths of others name: one entry may stand for two thousand of them.
        self._count(max(1, self._own.add(path)), entry.size)
        match entry.kind:
            case "directory":
                self._tree.directory(path, entry)
            case "file":
                self._tree.file(path, entry, read)
            case "symlink":
                self._tree.symlink(path, entry)
            case "hard link":
                self._link(path, entry)
            case _:
                raise BadArchiveError(f"{shown(entry.name)} is a {entry.kind}, which no image volume may hold")

    def _link(self, path: Parts, entry: Entry) -> None:
        target = parts(entry.link, entry.name)
        if not target or target == path:
            raise BadArchiveError(f"{shown(entry.name)} is a hard link to {shown(entry.link)}, which is no file")
        try:
            self._tree.hard_link(path, target)
        except FileNotFoundError as error:
            raise BadArchiveError(
                f"{shown(entry.name)} is a hard link to {shown(entry.link)}, which the image does not hold"
            ) from error

    def _hide(self, path: Parts, entry: Entry) -> None:
        *above, name = path
        directory = tuple(above)
        if name == OPAQUE:
            self._clear(directory)
            return
        if name.startswith(_RESERVED):  # what aufs kept for itself
            return
        hidden = name[len(_HIDES) :]
        if hidden in {"", ".", ".."}:
            raise BadArchiveError(f"{shown(entry.name)} hides no name")
        if not self._own.has((*directory, hidden)):
            self._tree.remove((*directory, hidden))
        else:  # a layer hides only what is below it, wherever in the archive it says so
            self._clear((*directory, hidden))

    def _clear(self, top: Parts) -> None:
        """Remove from a directory what this layer did not make itself."""
        pending = [top]
        while pending:
            directory = pending.pop()
            for name in self._tree.names(directory):
                path = (*directory, name)
                if not self._own.has(path):
                    self._tree.remove(path)
                elif self._tree.is_directory(path):
                    pending.append(path)


def parts(path: str, name: str) -> Parts:
    """Split the path of an entry; one that begins with / counts from the top; raises BadArchiveError for `..`."""
    found = tuple(part for part in path.split("/") if part not in {"", "."})
    if ".." in found:
        raise BadArchiveError(f"{shown(name)} leads out of the image by ..: {shown(path)}")
    if len(path) > _LONGEST:
        raise BadArchiveError(f"{shown(name)} has a path of more than {_LONGEST} characters")
    return found


def pieces(size: int) -> Iterator[int]:
    """Give the sizes of the pieces in which so many bytes are read: memory is for none larger."""
    while size > 0:
        yield min(size, PIECE)
        size -= PIECE
