"""The services of FakeHost but its files: what `volmgr.host.interface` promises, done on a Machine in memory."""

from __future__ import annotations

import errno
import functools
import inspect
import os
import stat
import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from volmgr.errors import BusyError, CommandError, OperationError, OverdueError, TransientError, UnansweredError
from volmgr.host.device_content import SUPERBLOCK
from volmgr.host.file_system_types import is_fuse
from volmgr.host.interface import HELPER_DEADLINE, CommandResult, FileSystem, MountEntry, SeenMount
from volmgr.testing.disks import Disk, Loop, MountPoint, Node, Place
from volmgr.testing.machine import Machine, is_below

T = TypeVar("T")

STATFS_NAMES = {"ext2": "ext", "ext3": "ext", "ext4": "ext"}
"""What statfs calls a file system whose mount(8) name differs."""

Program = Callable[[tuple[str, ...], bytes], CommandResult]
"""A scripted command: argument vector and standard input to result."""


def never() -> bool:
    """Say that nobody cancelled."""
    return False


def silent(_text: str) -> None:
    """Report no progress."""


@contextmanager
def attempt(what: str) -> Generator[None]:
    """Turn the errors of system calls into an OperationError that says what was attempted."""
    try:
        yield
    except OSError as error:
        message = f"cannot {what}: {os.strerror(error.errno or errno.EIO).lower()}"
        raise OperationError(message) from error


def one_at_a_time(cls: type[T]) -> type[T]:
    """Let each public method of a service hold the machine's lock: what it does is atomic to other threads."""
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and not name.startswith("_"):
            setattr(cls, name, _locked(member))
    return cls


def _locked(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def call(self: _Service, *args: object, **kwargs: object) -> object:
        with self.machine.lock:
            return function(self, *args, **kwargs)

    return call


class _Service(Protocol):
    machine: Machine


@one_at_a_time
@dataclass
class FakeMounts:
    """Mounts in memory."""

    machine: Machine
    busy: dict[Path, tuple[str, ...]] = field(default_factory=dict[Path, tuple[str, ...]])

    def table(self) -> tuple[MountEntry, ...]:
        return self.machine.entries()

    def below(self, path: Path) -> tuple[MountEntry, ...]:
        path = self._canonical(path)
        found = [entry for entry in self.machine.entries() if is_below(entry.target, path)]
        order = {entry.mount_id: index for index, entry in enumerate(found)}
        return tuple(sorted(found, key=lambda e: (len(e.target.parts), order[e.mount_id]), reverse=True))

    def seen_below(self, path: Path) -> dict[str, SeenMount]:
        return {
            str(entry.target): SeenMount(entry.read_only, entry.device if is_fuse(entry.fstype) else "")
            for entry in reversed(self.below(path))
        }

    def _canonical(self, path: Path) -> Path:
        try:
            parent = self.machine.look(path.parent)
        except OSError:  # links that lead round and round
            parent = None
        return path if parent is None else self.machine.path_of(parent) / path.name

    def is_mount_point(self, path: Path) -> bool:
        with attempt(f"look at {path}"):
            return self.machine.mount_at(path) is not None

    def lives(self, target: Path, *, deadline: float | None = None) -> bool:
        del deadline
        with attempt(f"mount on {target}"):
            mount, node = self.machine.find(target)
        if node is not mount.root:
            return False
        self._await_server(mount.source, f"stat {target}")
        return True

    def aside(self, target: Path) -> AbstractContextManager[Path]:
        return nullcontext(target)

    def _await_server(self, source: str, command: str) -> None:
        if self.machine.hangs(source):
            message = f"{command} did not end before its deadline and was killed"
            raise OverdueError(message)

    def entry(self, path: Path) -> MountEntry | None:
        with attempt(f"look at {path}"):
            mount = self.machine.mount_at(path)
        return None if mount is None else self.machine.entry(mount)

    def ensure_mounted(
        self,
        target: Path,
        fstype: str,
        *,
        source: str = "",
        options: Sequence[str] = (),
        sensitive: Sequence[str] = (),
        deadline: float | None = None,
    ) -> None:
        del sensitive, deadline
        if "bind" in options:
            self.ensure_bound(Path(source), target, options=options)
        elif not self.lives(target):
            with attempt(f"mount {fstype} on {target}"):
                self._refuse_link(target)
                self._await_server(source, f"mount -t {fstype}")
                self.machine.mount(target, fstype, source=source or fstype, options=options)

    def _refuse_link(self, target: Path) -> None:
        if self.machine.find(target, follow=False)[1].kind == "symlink":
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    def ensure_bound(self, source: Path, target: Path, *, options: Sequence[str] = ()) -> None:
        with attempt(f"bind {source} on {target}"):
            origin, root = self.machine.find(source)
            self._refuse_link(target)
            mount = self.machine.mount_at(target)
            if mount is None:
                mount = self.machine.bind(source, target)
                if options and self.machine.look(source) is None:  # hidden by what was just mounted: undone
                    self.machine.unmount(mount)
                    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            elif mount.root is not root:
                message = f"cannot bind {source} on {target}: something else is mounted there; unmount it first"
                raise OperationError(message)
            self.machine.set_flags(mount, [*options, "ro"] if "ro" in origin.options else options)

    def remount(self, target: Path, options: Sequence[str]) -> None:
        with attempt(f"remount {target}"):
            mount = self.machine.mount_at(target)
            if mount is None:
                raise OSError(errno.EINVAL, "not mounted")
            if "bind" in options:
                self.machine.set_flags(mount, options)
            else:
                self.machine.remount(mount, options)

    def unmount(self, target: Path, *, lazy: bool = False, force: bool = False, deadline: float | None = None) -> None:
        del deadline
        while (mount := self._at(target)) is not None:
            if not (lazy or force) and self._is_last(mount):
                self._await_server(mount.source, f"umount {target}")
            self._unmount(mount, target, lazy=lazy)

    def _is_last(self, mount: MountPoint) -> bool:
        """Say whether its file system ends with a mount, and says so to its server."""
        return sum(other.disk is mount.disk for other in self.machine.mounts()) == 1

    def _at(self, target: Path) -> MountPoint | None:
        with attempt(f"look at {target}"):
            return self.machine.mount_at(target)

    def _unmount(self, mount: MountPoint, target: Path, *, lazy: bool) -> None:
        holders = (
            [] if lazy else [name for path in self.busy if path.is_relative_to(target) for name in self.busy[path]]
        )
        if mount.children and not lazy:
            holders += [f"mount {entry.target}" for entry in self.below(target) if entry.parent_id == mount.mount_id]
        if holders:
            message = f"cannot unmount {target}: it is in use"
            raise BusyError(message, holders)
        with attempt(f"unmount {target}"):
            self.machine.unmount(mount, lazy=lazy)

    def unmount_below(self, path: Path, *, deadline: float | None = None) -> None:
        with suppress(BusyError):  # what is mounted below keeps a mount busy
            self.unmount(path, deadline=deadline)
        while entries := self.below(path):
            for entry in entries:
                self.unmount(entry.target, deadline=deadline)
            if len(self.below(path)) == len(entries):
                message = f"cannot unmount what is below {path}: other mounts hide {entries[0].target}"
                raise BusyError(message)

    def file_system(self, path: Path) -> FileSystem:
        with attempt(f"ask for the file system of {path}"):
            mount, _ = self.machine.find(path)
        self._await_server(mount.source, f"stat -f {path}")
        disk = mount.disk
        size = disk.size or (1 << 40)
        return FileSystem(
            type=STATFS_NAMES.get(disk.fstype, disk.fstype),
            size=size,
            available=0 if disk.full else size - disk.used,
            inodes=1 << 20,
            inodes_free=0 if disk.full else (1 << 20) - disk.nodes,
        )


@dataclass
class FakeNetwork:
    """A network in memory: every server answers, but those of which the machine says that they are silent."""

    machine: Machine

    def reach(self, server: str, port: int, *, within: float) -> None:
        if self.machine.silent & {server, f"[{server}]"}:
            message = f"cannot connect to {server} on TCP port {port}: no answer within {within:g} s"
            raise UnansweredError(message)


@dataclass
class FakeCommands:
    """Commands that a test scripts: a function for each program that is installed."""

    programs: dict[str, Program] = field(default_factory=dict[str, Program])

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline: float = HELPER_DEADLINE,
        accept: Sequence[int] = (0,),
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cancelled: Callable[[], bool] | None = None,
        told: Callable[[str], None] | None = None,
        changes: bool = True,
    ) -> CommandResult:
        del deadline, environment, changes
        program = self._program(argv[0])
        if program is None:
            message = f"cannot run {argv[0]}: it is not installed"
            raise OperationError(message)
        if cancelled is not None and cancelled():
            message = f"{argv[0]} was not run: the operation is cancelled"
            raise OperationError(message)
        result = program(tuple(argv), stdin)
        if told is not None:
            for line in result.stdout.splitlines():
                told(line)
        if result.exit_code not in accept:
            raise CommandError(argv, result.exit_code, result.stderr)
        return result

    def lasting(self, argv: Sequence[str]) -> tuple[str, ...]:
        return tuple(argv)

    def find(self, name: str) -> Path | None:
        return Path("/usr/bin", name) if self._program(name) is not None else None

    def _program(self, name: str) -> Program | None:
        """Find a program by its path, else by its name alone."""
        return self.programs.get(name) or self.programs.get(Path(name).name)


@one_at_a_time
@dataclass
class FakeBlockDevices:
    """Loop devices in memory, and what is on block devices."""

    machine: Machine
    busy: dict[Path, tuple[str, ...]] = field(default_factory=dict[Path, tuple[str, ...]])
    unreadable: set[Path] = field(default_factory=set[Path])
    """Devices that answer with an input/output error."""
    attached: int = 0
    """How many loop devices there have been."""

    def attach_loop(self, backing: Path, *, read_only: bool = False) -> Path:
        with attempt(f"attach a loop device to {backing}"):
            _, node = self.machine.find(backing)
            if node.kind not in {"file", "block"}:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            found = self._loops_of(node)
            if found:
                return found[0].path
            number = next(n for n in range(1 << 20) if Path(f"/dev/loop{n}") not in self.machine.loops)
            path = Path(f"/dev/loop{number}")
            if self.machine.look(path) is None:
                self.machine.make(path, "block", 0o660, rdev=os.makedev(7, number))
            self.attached += 1
            self.machine.loops[path] = Loop(path, node, len(node.content), read_only, self.attached)
        return path

    def find_loops(self, backing: Path) -> tuple[Path, ...]:
        with attempt(f"look at {backing}"):
            place = self.machine.look(backing)
        return () if place is None else tuple(loop.path for loop in self._loops_of(place[1]))

    def _loops_of(self, node: Node) -> list[Loop]:
        return [loop for loop in self.machine.loops.values() if loop.backing is node]

    def detach_loop(self, device: Path) -> None:
        if device in self.machine.loops and not self.is_free(device):
            message = f"cannot detach {device}: device or resource busy"
            raise BusyError(message)
        self.machine.loops.pop(device, None)

    def size(self, device: Path) -> int:
        with attempt(f"ask for the size of {device}"):
            return self.machine.device_size(device)

    def read(self, device: Path, offset: int, length: int) -> bytes:
        with attempt(f"read {device}"):
            if device in self.unreadable:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            content, disk = self.machine.device_content(device), self.machine.formatted(device)
        end = offset + length
        if disk is not None and offset < 2 * SUPERBLOCK:
            content = content[:SUPERBLOCK] + _superblock(disk) + content[2 * SUPERBLOCK : end]
        return content[offset:end]

    def identity(self, device: Path) -> str:
        with attempt(f"identify {device}"):
            loop, number = self.machine.loop_at(device), self.machine.find(device)[1].rdev
        return f"{os.major(number)}:{os.minor(number)}#{loop.sequence if loop else 0}"

    def is_free(self, device: Path) -> bool:
        with attempt(f"look at {device}"):
            place = self.machine.look(device)
        if place is None or place[1].kind != "block":
            return True
        mounted = any(mount.disk.device == place[1].rdev for mount in self.machine.mounts())
        used = any(loop.backing is place[1] for loop in self.machine.loops.values())
        shared = self.machine.shared.get(place[1].rdev)
        return not (mounted or used or device in self.busy or (shared is not None and shared.held))

    def refresh_size(self, device: Path) -> None:
        loop = self.machine.loops.get(device)
        if loop is None:
            message = f"cannot refresh the size of {device}: no such device or address"
            raise OperationError(message)
        loop.size = len(loop.backing.content)
        for mount in self.machine.mounts():
            if mount.disk.source == str(device):
                mount.disk.size = mount.disk.size or loop.size


def _superblock(disk: Disk) -> bytes:
    """Give what is on a formatted device where ext has its superblock; of the others just something."""
    head = bytearray(f"{disk.fstype} of {disk.source}".encode()[:48].ljust(SUPERBLOCK, b"\0"))
    if disk.fstype in STATFS_NAMES:
        struct.pack_into("<I", head, 4, disk.size // SUPERBLOCK)
        struct.pack_into("<I", head, 24, 0)
        struct.pack_into("<H", head, 56, 0xEF53)
    return bytes(head)


@one_at_a_time
@dataclass
class FakeOwnership:
    """The ownership walk in memory (behaviours §3.2)."""

    machine: Machine

    def apply(
        self,
        path: Path,
        group: int,
        *,
        policy: str = "Always",
        read_only: bool = False,
        cancelled: Callable[[], bool] = never,
        progress: Callable[[str], None] = silent,
    ) -> None:
        del progress
        with attempt(f"give {path} to group {group} (fsGroupChangePolicy: OnRootMismatch walks less often)"):
            mount, root = self.machine.find(path, follow=False)
            wanted = stat.S_ISGID | (0o550 if read_only else 0o770)
            if policy == "OnRootMismatch" and root.gid == group and root.mode & wanted == wanted:
                return
            self._walk(path, (mount, root), group, 0o440 if read_only else 0o660, cancelled)

    def _walk(self, path: Path, place: Place, group: int, bits: int, cancelled: Callable[[], bool]) -> None:
        mount, node = place
        if node.kind == "directory" and cancelled():
            message = f"giving {path} to group {group} was cancelled"
            raise TransientError(message)
        for name in sorted(node.children):
            child = self.machine.find(path / name, follow=False)
            if child[0] is mount:  # what others mounted here is not the volume's
                self._walk(path / name, child, group, bits, cancelled)
        mode = node.mode | bits | (0o2110 if node.kind == "directory" else 0)
        if node.gid != group:
            self.machine.chown(path, -1, group)
        if node.kind != "symlink" and node.mode != mode:
            self.machine.chmod(path, mode)
