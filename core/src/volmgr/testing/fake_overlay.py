"""Overlay file systems of a machine in memory: directories that are seen as one.

As the kernel's, seen from the mount: what is written is in no lower directory, and is there again when the same upper
directory is mounted anew. Not as the kernel's: it cannot be seen in the upper directory itself, and lower directories
that change later are not looked at again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence

from volmgr.testing.disks import Disk, Node, Place

_WORK = "work"
"""What the kernel makes in the work directory."""
_LAYERS = frozenset({"lowerdir", "upperdir", "workdir"})
_WITHOUT_EFFECT = frozenset(
    {"index", "metacopy", "nfs_export", "redirect_dir", "userxattr", "uuid", "volatile", "xino"}
)
"""Options that the kernel takes, and that change nothing of what is seen here."""


class Overlays:
    """Makes them, and remembers which upper directory has which."""

    def __init__(self) -> None:
        self._disks: dict[Node, Disk] = {}

    def disk(self, source: str, options: Sequence[str], find: Callable[[str], Place], device: int) -> Disk:
        """Give the file system that the options of a mount describe; raises OSError as mount(2) does."""
        wanted = _wanted(options)
        lower = [_directory(path, find) for path in wanted.get("lowerdir", "").split(":") if path]
        upper = [_directory(wanted[key], find) for key in ("upperdir", "workdir") if key in wanted]
        if not lower or len(upper) == 1 or (not upper and len(lower) == 1):
            raise _error(errno.EINVAL)
        if upper:
            _prepare(*upper)
            if upper[0] in self._disks:
                return self._disks[upper[0]]
        disk = Disk("overlay", device, source=source, options=options)
        for layer in (*upper[:1], *lower):
            _merge(layer, disk.root)
        top = (*upper, *lower)[0]
        disk.root.mode, disk.root.uid, disk.root.gid = top.mode, top.uid, top.gid
        if upper:
            self._disks[upper[0]] = disk
        return disk


def is_fixed(fstype: str, options: Sequence[str]) -> bool:
    """Say whether it is an overlay that nothing can be written to."""
    return fstype == "overlay" and not any(option.startswith("upperdir=") for option in options)


def _wanted(options: Sequence[str]) -> Mapping[str, str]:
    wanted = {key: value for key, _, value in (option.partition("=") for option in options)}
    if not (_LAYERS | _WITHOUT_EFFECT).issuperset(wanted):
        raise _error(errno.EINVAL)
    return wanted


def _directory(path: str, find: Callable[[str], Place]) -> Node:
    node = find(path)[1]
    if node.kind != "directory":
        raise _error(errno.ENOTDIR)
    return node


def _prepare(upper: Node, work: Node) -> None:
    """Refuse directories that cannot work together, and make what the kernel makes."""
    if upper.disk is not work.disk or upper is work or upper.disk.fstype == "overlay":
        raise _error(errno.EINVAL)
    work.disk.must_be_writable()
    if _WORK not in work.children:
        _add(work, _WORK, Node(work.disk, "directory", 0))


def _merge(source: Node, into: Node) -> None:
    for name, child in source.children.items():
        there = into.children.get(name)
        if there is None:
            there = Node(into.disk, child.kind, child.mode, content=child.content, rdev=child.rdev)
            there.uid, there.gid = child.uid, child.gid
            into.disk.store(child.content)
            _add(into, name, there)
        elif (there.kind, child.kind) != ("directory", "directory"):
            continue
        _merge(child, there)


def _add(parent: Node, name: str, node: Node) -> None:
    node.parent, node.name = parent, name
    parent.children[name] = node


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
