"""What a machine in memory consists of: file systems with their files, mounts, loop and other block devices."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BLOCK_BACKED = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat"})
IN_MEMORY = frozenset({"tmpfs", "hugetlbfs", "ramfs", "devtmpfs"})


class Node:
    """One file, directory, link or device of a file system."""

    __slots__ = (
        "children",
        "content",
        "deleted",
        "disk",
        "gid",
        "inode",
        "kind",
        "mode",
        "name",
        "parent",
        "rdev",
        "uid",
    )

    def __init__(self, disk: Disk, kind: str, mode: int, *, content: bytes = b"", rdev: int = 0) -> None:
        self.disk = disk
        self.kind = kind
        self.mode = mode
        self.uid = 0
        self.gid = 0
        self.content = content
        self.rdev = rdev
        self.inode = disk.next_inode()
        self.children: dict[str, Node] = {}
        self.parent: Node | None = None
        self.name = ""
        self.deleted = False

    @property
    def target(self) -> str:
        """What a symbolic link points to."""
        return self.content.decode()

    def path_in_disk(self) -> str:
        """Give the path within the file system, also of what was deleted."""
        parts: list[str] = []
        node: Node = self
        while node.parent is not None:
            parts.append(node.name)
            node = node.parent
        return "/" + "/".join(reversed(parts))


class Disk:
    """One file system: its tree, type and size (0: without end)."""

    def __init__(self, fstype: str, device: int, *, source: str, size: int = 0, options: Sequence[str] = ()) -> None:
        self.fstype = fstype
        self.device = device
        self.source = source
        self.size = size
        self.used = 0
        self.nodes = 0
        self.full = False
        self.read_only = False
        self.options = tuple(options)
        self._inodes = 1 if fstype in IN_MEMORY else 2
        self.root = Node(self, "directory", 0o755)

    def next_inode(self) -> int:
        """Give a number that no other node of this file system has or had."""
        inode = self._inodes
        self._inodes += 1
        self.nodes += 1
        return inode

    def must_be_writable(self) -> None:
        """Raise EROFS on a read-only file system."""
        if self.read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def store(self, content: bytes, instead_of: bytes = b"") -> None:
        """Take space, or raise ENOSPC; huge pages can be mapped but not written to: EINVAL."""
        if content and self.fstype == "hugetlbfs":
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        by = len(content) - len(instead_of)
        if by >= 0 and (self.full or (self.size and self.used + by > self.size)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.used += by


class MountPoint:
    """One mount: a node of a disk, on a node of another mount."""

    __slots__ = ("at", "children", "disk", "mount_id", "options", "parent", "root", "source", "unique_id")

    def __init__(self, disk: Disk, root: Node, parent: MountPoint | None, at: Node | None, source: str) -> None:
        self.disk = disk
        self.root = root
        self.parent = parent
        self.at = at
        self.source = source
        self.mount_id = 0
        self.unique_id = 0
        self.children = 0
        self.options: tuple[str, ...] = ("rw", "relatime")


Place = tuple[MountPoint, Node]
"""A node, and the mount by which it was reached."""


@dataclass
class Loop:
    """A loop device: what it is backed by, and the size that it saw last."""

    path: Path
    backing: Node
    size: int
    read_only: bool = False
    sequence: int = 0
    """Which attachment of this boot it is."""


@dataclass
class Shared:
    """What a block device shows of a storage that other devices may show, too: `size` bytes of it.

    One that is `held` has another device on it, as a path has its multipath map.
    """

    storage: Node
    size: int
    held: bool = False
