"""A machine in memory: file systems, a mount table and block devices, with the errors that the kernel gives.

Every call raises OSError as its system call would; the services of FakeHost turn that into errors of volmgr.
Paths are absolute; everything runs as root.
"""

from __future__ import annotations

import errno
import heapq
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from volmgr.host.interface import MountEntry
from volmgr.testing.disks import BLOCK_BACKED, IN_MEMORY, Disk, Loop, MountPoint, Node, Place, Shared
from volmgr.testing.fake_overlay import Overlays, is_fixed

PAGE = 4096
MOUNT_FLAGS = {
    "ro": "rw",
    "rw": "ro",
    "nosuid": "suid",
    "suid": "nosuid",
    "nodev": "dev",
    "dev": "nodev",
    "noexec": "exec",
    "exec": "noexec",
    "noatime": "relatime",
    "relatime": "noatime",
    "nodiratime": "diratime",
    "diratime": "nodiratime",
    "nosymfollow": "symfollow",
    "symfollow": "nosymfollow",
}
"""Options of a mount rather than of its file system, each with what it replaces."""
SILENT_FLAGS = frozenset({"suid", "dev", "exec", "diratime", "symfollow"})
"""Flags that are the default and never shown."""

_LINKS = 40
_NAME = 255


@dataclass
class Machine:
    """The state of a machine, and its system calls."""

    huge_page_sizes: tuple[int, ...] = ()
    memory: int = 0
    umask: int = 0o022
    loops: dict[Path, Loop] = field(default_factory=dict[Path, Loop])
    shared: dict[int, Shared] = field(default_factory=dict[int, Shared])
    """Block devices, by number, that show what others show, too."""
    served: dict[tuple[str, str], Disk] = field(default_factory=dict[tuple[str, str], Disk])
    """File systems that come from elsewhere, by type and source: NFS exports and the like."""
    silent: set[str] = field(default_factory=set[str])
    """Servers that do not answer, as the sources of mounts name them: `10.0.0.1`, `[fe80::1]`."""

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        """Held by each call of a service, so that operations may run on threads."""
        self._minor = 0
        self._unique = 1 << 32
        self._formatted: dict[int | Node, Disk] = {}
        self._overlays = Overlays()
        self.disk = Disk("ext4", os.makedev(8, 1), source="/dev/sda1")
        self.start()

    def start(self) -> None:
        """Begin with the root file system alone, as after a boot."""
        self._free_ids: list[int] = []
        self._highest_id = 20
        self._mounts: dict[int, MountPoint] = {}
        self._covers: dict[Place, MountPoint] = {}
        self._covered: Counter[Node] = Counter()
        self._rooted: Counter[Node] = Counter()
        self._entries: tuple[MountEntry, ...] | None = None
        self.loops.clear()
        self.top = self._add(MountPoint(self.disk, self.disk.root, None, None, self.disk.source))

    # Finding

    def find(self, path: Path | str, *, follow: bool = True, links: bool = True) -> Place:
        """Walk to a path through mounts and symbolic links; ELOOP at the first one unless `links`."""
        start = self._cover((self.top, self.top.root))
        return self._walk(start, _parts(path), follow=follow, links=_LINKS if links else 0)

    def look(self, path: Path | str, *, follow: bool = True) -> Place | None:
        """Walk to a path; None when it is missing."""
        try:
            return self.find(path, follow=follow)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _walk(self, place: Place, parts: list[str], *, follow: bool, links: int = _LINKS) -> Place:
        covers, covered = self._covers, self._covered
        pending = parts[::-1]
        while pending:
            part = pending.pop()
            mount, node = place
            if node.kind != "directory":
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if part == "..":
                place = self._up(place)
                continue
            child = node.children.get(part)
            if child is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            if child.kind == "symlink" and (pending or follow):
                if not links:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                links -= 1
                pending.extend(reversed(_parts(child.target)))
                if child.target.startswith("/"):
                    place = self._cover((self.top, self.top.root))
                continue
            place = (mount, child)
            if child in covered and place in covers:
                place = self._cover(place)
        return place

    def below(self, place: Place, name: str) -> Place:
        """Step from a directory to what is in it, or mounted there; a symbolic link is not followed."""
        mount, node = place
        return self._cover((mount, node.children[name]))

    def _cover(self, place: Place) -> Place:
        while (mount := self._covers.get(place)) is not None:
            place = (mount, mount.root)
        return place

    def _up(self, place: Place) -> Place:
        mount, node = place
        while node is mount.root:
            parent, at = mount.parent, mount.at
            if parent is None or at is None:
                return place
            mount, node = parent, at
        return self._cover((mount, node.parent or node))

    def find_parent(self, path: Path | str) -> tuple[MountPoint, Node, str]:
        """Walk to the directory in which a path is to be made."""
        parts = _parts(path)
        if not parts or parts[-1] == "..":
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        mount, node = self._walk(self._cover((self.top, self.top.root)), parts[:-1], follow=True)
        if node.kind != "directory":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return mount, node, parts[-1]

    def path_of(self, place: Place) -> Path:
        """Give the path of a place, without symbolic links."""
        mount, node = place
        parts: list[str] = []
        while node is not mount.root and node.parent is not None:
            parts.append(node.name)
            node = node.parent
        return self.target_of(mount).joinpath(*reversed(parts))

    # Files

    def make(self, path: Path | str, kind: str, mode: int, *, content: bytes = b"", rdev: int = 0) -> Node:
        """Make one node (mkdir, open with O_EXCL, symlink, mknod); the umask applies to all but links."""
        mount, parent, name = self.find_parent(path)
        if name in parent.children:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        self._must_be_writable(mount)
        if len(name.encode()) > _NAME:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        mount.disk.store(content)
        node = Node(mount.disk, kind, 0o777 if kind == "symlink" else mode & ~self.umask, content=content, rdev=rdev)
        if parent.mode & 0o2000:
            node.gid = parent.gid
            node.mode |= 0o2000 if kind == "directory" else 0
        node.parent, node.name = parent, name
        parent.children[name] = node
        return node

    def make_directories(self, path: Path) -> None:
        """Make a directory with its parents, as far as they are missing."""
        if self.look(path) is None:
            self.make_directories(path.parent)
            self.make(path, "directory", 0o755)

    def write(self, path: Path | str, content: bytes) -> None:
        """Replace the content of a regular file."""
        mount, node = self.find(path)
        if node.kind != "file":
            number = errno.EISDIR if node.kind == "directory" else errno.EINVAL
            raise OSError(number, os.strerror(number))
        self._must_be_writable(mount)
        mount.disk.store(content, instead_of=node.content)
        node.content = content

    def unlink(self, path: Path | str) -> None:
        """Remove a name that is no directory; EROFS comes before ENOENT, as in the kernel."""
        mount, parent, name = self.find_parent(path)
        self._must_be_writable(mount)
        node = self._child(parent, name)
        if node.kind == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._drop(mount, node)

    def rmdir(self, path: Path | str) -> None:
        """Remove an empty directory that nothing is mounted on."""
        mount, parent, name = self.find_parent(path)
        self._must_be_writable(mount)
        node = self._child(parent, name)
        if node.kind != "directory":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if node.children:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        self._drop(mount, node)

    def _child(self, parent: Node, name: str) -> Node:
        node = parent.children.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if node in self._covered:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return node

    def _drop(self, mount: MountPoint, node: Node) -> None:
        assert node.parent is not None, "the root of a file system is never removed"  # noqa: S101 - an invariant
        del node.parent.children[node.name]
        node.deleted = True
        mount.disk.used -= len(node.content)
        mount.disk.nodes -= 1
        if node in self._rooted:
            self._entries = None

    def rename(self, source: Path | str, target: Path | str) -> None:
        """Rename within one mount; replaces a file, or an empty directory by a directory."""
        from_mount, from_parent, from_name = self.find_parent(source)
        to_mount, to_parent, to_name = self.find_parent(target)
        if from_mount is not to_mount:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        self._must_be_writable(from_mount)
        old = to_parent.children.get(to_name)
        if old is not None and old is from_parent.children.get(from_name):
            return  # also for what is mounted on
        node = self._child(from_parent, from_name)
        above: Node | None = to_parent
        while above is not None:
            if above is node:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            above = above.parent
        if old is not None:
            self._may_replace(old, node)
            self._drop(to_mount, old)
        del from_parent.children[from_name]
        node.parent, node.name = to_parent, to_name
        to_parent.children[to_name] = node
        if node.kind == "directory" or node in self._rooted:
            self._entries = None

    def _may_replace(self, old: Node, new: Node) -> None:
        number = 0
        if old in self._covered:
            number = errno.EBUSY
        elif old.kind == "directory" and new.kind != "directory":
            number = errno.EISDIR
        elif old.kind != "directory" and new.kind == "directory":
            number = errno.ENOTDIR
        elif old.children:
            number = errno.ENOTEMPTY
        if number:
            raise OSError(number, os.strerror(number))

    def chmod(self, path: Path | str, mode: int, *, follow: bool = False) -> None:
        """Set the mode; a symbolic link has none of its own."""
        mount, node = self.find(path, follow=follow)
        if node.kind == "symlink":
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        self._must_be_writable(mount)
        node.mode = mode

    def chown(self, path: Path | str, uid: int, gid: int) -> None:
        """Set the owner, never through a symbolic link; clears set-id bits of regular files as the kernel does."""
        mount, node = self.find(path, follow=False)
        self._must_be_writable(mount)
        node.uid = node.uid if uid < 0 else uid
        node.gid = node.gid if gid < 0 else gid
        if node.kind == "file":
            node.mode &= ~0o6000

    def _must_be_writable(self, mount: MountPoint) -> None:
        if "ro" in mount.options:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        mount.disk.must_be_writable()

    # Mounts

    def mount(self, target: Path | str, fstype: str, *, source: str = "", options: Sequence[str] = ()) -> MountPoint:
        """Mount a file system, on top of whatever is mounted there."""
        place = self.find(target)
        if place[1].kind != "directory":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        flags = tuple(option for option in options if option in MOUNT_FLAGS)
        rest = tuple(option for option in options if option not in MOUNT_FLAGS and option != "defaults")
        disk = self._disk_for(fstype, source, rest)
        mounted = any(other.disk is disk for other in self._mounts.values())
        disk.read_only = (mounted and disk.read_only) or "ro" in flags or is_fixed(fstype, rest)
        mount = self._add(MountPoint(disk, disk.root, *place, source or fstype))
        mount.options = merge_flags(mount.options, flags)
        return mount

    def bind(self, source: Path | str, target: Path | str) -> MountPoint:
        """Bind a directory on a directory, or anything else on anything else."""
        of, root = self.find(source)
        place = self.find(target)
        if (root.kind == "directory") != (place[1].kind == "directory"):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if root.deleted:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        mount = self._add(MountPoint(of.disk, root, *place, of.source))
        mount.options = of.options
        return mount

    def set_flags(self, mount: MountPoint, options: Sequence[str]) -> None:
        """Change what is allowed through one mount; its file system stays as it is."""
        mount.options = merge_flags(mount.options, [option for option in options if option in MOUNT_FLAGS])
        self._entries = None

    def remount(self, mount: MountPoint, options: Sequence[str]) -> None:
        """Change a mount and its file system."""
        self.set_flags(mount, options)
        rest = [option for option in options if option not in MOUNT_FLAGS and option != "defaults"]
        if mount.disk.fstype == "tmpfs" and rest:
            size, shown = self._tmpfs_options(rest)
            if size and size < mount.disk.used:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            merged = {option.partition("=")[0]: option for option in (*mount.disk.options, *shown)}
            mount.disk.size, mount.disk.options = size or mount.disk.size, tuple(merged.values())
        if "ro" in options or "rw" in options:
            mount.disk.read_only = "ro" in options

    def mount_at(self, path: Path | str) -> MountPoint | None:
        """Give the topmost mount whose root is at exactly this path."""
        place = self.look(path, follow=False)
        if place is None or place[1] is not place[0].root:
            return None
        return place[0]

    def unmount(self, mount: MountPoint, *, lazy: bool = False) -> None:
        """Detach one mount; with mounts on it that is EBUSY, unless lazy: then they go with it."""
        if mount.parent is None or mount.at is None or (mount.children and not lazy):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        if mount.children:
            for child in [other for other in self._mounts.values() if other.parent is mount]:
                self.unmount(child, lazy=True)
        del self._mounts[mount.mount_id]
        del self._covers[mount.parent, mount.at]
        _less(self._covered, mount.at)
        _less(self._rooted, mount.root)
        mount.parent.children -= 1
        heapq.heappush(self._free_ids, mount.mount_id)
        self._entries = None

    def target_of(self, mount: MountPoint) -> Path:
        """Give the path on which a mount lies."""
        if mount.parent is None or mount.at is None:
            return Path("/")
        return self.path_of((mount.parent, mount.at))

    def entries(self) -> tuple[MountEntry, ...]:
        """Give the mount table, oldest mount first."""
        if self._entries is None:
            self._entries = tuple(self._entry(mount) for mount in self._mounts.values())
        return self._entries

    def entry(self, mount: MountPoint) -> MountEntry:
        """Give one line of the mount table."""
        return self._entry(mount)

    def mounts(self) -> Iterator[MountPoint]:
        """Give every mount, oldest first."""
        return iter(tuple(self._mounts.values()))

    def _entry(self, mount: MountPoint) -> MountEntry:
        disk = mount.disk
        node, deleted = mount.root, False
        while node.parent is not None:
            deleted = deleted or node.deleted
            node = node.parent
        return MountEntry(
            mount_id=mount.mount_id,
            parent_id=mount.parent.mount_id if mount.parent else 1,
            device=f"{os.major(disk.device)}:{os.minor(disk.device)}",
            root=mount.root.path_in_disk(),
            target=self.target_of(mount),
            options=mount.options,
            fstype=disk.fstype,
            source=mount.source,
            super_options=("ro" if disk.read_only else "rw", *disk.options),
            deleted=deleted,
        )

    def _add(self, mount: MountPoint) -> MountPoint:
        if self._free_ids:
            mount.mount_id = heapq.heappop(self._free_ids)
        else:
            self._highest_id += 1
            mount.mount_id = self._highest_id
        self._unique += 1
        mount.unique_id = self._unique
        self._mounts[mount.mount_id] = mount
        if mount.parent is not None and mount.at is not None:
            self._covers[mount.parent, mount.at] = mount
            self._covered[mount.at] += 1
            self._rooted[mount.root] += 1
            mount.parent.children += 1
        self._entries = None
        return mount

    def _disk_for(self, fstype: str, source: str, options: tuple[str, ...]) -> Disk:
        if fstype in BLOCK_BACKED:
            return self._formatted_disk(fstype, source)
        if fstype == "tmpfs":
            size, shown = self._tmpfs_options(options)
            disk = Disk(fstype, self._anonymous(), source=source, size=size or self.memory // 2, options=shown)
            disk.root.mode = next((int(o[5:], 8) for o in options if o.startswith("mode=")), 0o1777)
            return disk
        if fstype == "hugetlbfs":
            return Disk(fstype, self._anonymous(), source=source, options=self._huge_options(options))
        if fstype == "overlay":
            return self._overlays.disk(source, options, self.find, self._anonymous())
        if fstype in IN_MEMORY:
            return Disk(fstype, self._anonymous(), source=source)
        if (fstype, source) not in self.served:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return self.served[fstype, source]

    def serve(self, fstype: str, source: str) -> Disk:
        """Let a file system of this type and source be mounted: an NFS export, a FUSE file system."""
        disk = self.served[fstype, source] = Disk(fstype, self._anonymous(), source=source)
        return disk

    def hangs(self, source: str) -> bool:
        """Say whether a file system is one of a server that does not answer."""
        return any(source.startswith(f"{server}:") for server in self.silent)

    def format(self, device: Path | str, fstype: str) -> Disk:
        """Make a file system on a block device."""
        key, node, size = self._storage(device)
        disk = self._formatted[key] = Disk(fstype, node.rdev, source=str(device), size=size)
        return disk

    def _formatted_disk(self, fstype: str, source: str) -> Disk:
        key, _, _ = self._storage(source)
        disk = self._formatted.get(key)
        if disk is None or disk.fstype != fstype:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if not any(mount.disk is disk for mount in self._mounts.values()):
            disk.device = self.find(source)[1].rdev  # it is mounted by whatever device shows it now
        return disk

    def formatted(self, device: Path | str) -> Disk | None:
        """Give the file system that is on a block device."""
        return self._formatted.get(self._storage(device)[0])

    def device_size(self, device: Path | str) -> int:
        """Give the size of a block device; 0 is no medium."""
        return self._storage(device)[2]

    def device_content(self, device: Path | str) -> bytes:
        """Give what is on a block device, as it was written by others than its file system."""
        key, node, size = self._storage(device)
        return (node if isinstance(key, int) else key).content[:size]

    def loop_at(self, device: Path | str) -> Loop | None:
        """Give the attached loop device that a path leads to."""
        _, node = self.find(device)
        return next((loop for loop in self.loops.values() if self.find(loop.path)[1] is node), None)

    def _storage(self, device: Path | str) -> tuple[int | Node, Node, int]:
        _, node = self.find(device)
        if node.kind != "block":
            raise OSError(errno.ENOTBLK, os.strerror(errno.ENOTBLK))
        loop = self.loop_at(device)
        if loop is not None:
            return loop.backing, node, loop.size
        shared = self.shared.get(node.rdev)
        if shared is not None:
            return shared.storage, node, shared.size
        return node.rdev, node, len(node.content)

    def _anonymous(self) -> int:
        self._minor += 1
        return os.makedev(0, 30 + self._minor)

    def _tmpfs_options(self, options: Sequence[str]) -> tuple[int, tuple[str, ...]]:
        size, shown = 0, list[str]()
        for option in options:
            key, _, value = option.partition("=")
            if key == "size":
                size = -(-_memory(value) // PAGE) * PAGE
                shown.append(f"size={size >> 10}k")
            elif key == "mode":
                shown.append(f"mode={int(value, 8):03o}")
            elif key in {"uid", "gid", "nr_inodes", "huge"} or option == "noswap":
                shown.append(option)
            else:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return size, tuple(shown)

    def _huge_options(self, options: Sequence[str]) -> tuple[str, ...]:
        size = next((_memory(o.partition("=")[2]) for o in options if o.startswith("pagesize=")), 2 << 20)
        if size not in self.huge_page_sizes:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return (f"pagesize={size >> 20}M" if size >> 20 else f"pagesize={size >> 10}K",)


def merge_flags(options: Sequence[str], changes: Sequence[str]) -> tuple[str, ...]:
    """Apply mount flags one after the other; each replaces its opposite."""
    merged = list(options)
    for change in changes:
        opposite = MOUNT_FLAGS[change]
        merged = [option for option in merged if option not in (change, opposite)]
        if change not in SILENT_FLAGS:
            merged.insert(0 if change in {"ro", "rw"} else len(merged), change)
    return tuple(merged)


def is_below(path: Path, top: Path) -> bool:
    """Say what `path.is_relative_to(top)` says, which takes long from Python 3.12 on."""
    return f"{path}/".startswith(f"{str(top).rstrip('/')}/")


def _less(counts: Counter[Node], node: Node) -> None:
    counts[node] -= 1
    if not counts[node]:
        del counts[node]


def _parts(path: Path | str) -> list[str]:
    text = str(path)
    if "\0" in text:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return [part for part in text.split("/") if part not in ("", ".")]


def _memory(text: str) -> int:
    number = text.rstrip("iKkMmGgTtPpEe%")
    suffix = text[len(number) :].lower()[:1]
    if not number.isdecimal():
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return int(number) << (10 * " kmgtpe".index(suffix) if suffix else 0)
