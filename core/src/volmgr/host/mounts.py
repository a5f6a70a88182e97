"""Mounting on the real kernel: local file systems by system call, all others by mount(8) with a deadline.

What was done is verified by statx, never by reading the table again; the table is read for what concerns many mounts.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from volmgr.errors import BusyError, CommandError, OperationError, UncertainError
from volmgr.host import mount_options, mount_table, served, stat_mount, syscalls
from volmgr.host.file_system_types import CORRUPTED, LOCAL_TYPES, is_fuse, type_name
from volmgr.host.holders import holders
from volmgr.host.inquiries import Inquiries
from volmgr.host.interface import HELPER_DEADLINE, Commands, FileSystem, MountEntry, SeenMount
from volmgr.host.mount_options import MS_BIND, MS_RDONLY, MS_REC, MS_REMOUNT, MountOptions, parse_options
from volmgr.host.opening import GONE
from volmgr.host.survey import mounts_within

_STACKED = 128  # a bound for what may be stacked on one path
_PASSES = 16  # how often mounts that hide others are looked through
_STATFS = "%t %S %b %a %c %d"  # type, size of a block, blocks, those to be had, inodes, free ones
_UNLIMITED = frozenset({-1, (1 << 64) - 1})
"""What CephFS says of how many inodes are free: as many as anybody wants."""
_DEAD = (errno.ENOTCONN, errno.ESTALE)  # nothing but a new mount helps against these
_MISSING = syscalls.Statx(mode=0, device=0, inode=0, mount=0, mount_root=False)

_log = logging.getLogger(__name__)


class KernelMounts:
    """Mounts of this process's mount namespace."""

    def __init__(self, commands: Commands, inquiries: Inquiries | None = None) -> None:
        self._commands = commands
        self._inquiries = inquiries or Inquiries(commands)

    def table(self) -> tuple[MountEntry, ...]:
        """Read the whole mount table, oldest mount first."""
        return mount_table.parse(read_table())

    def below(self, path: Path) -> tuple[MountEntry, ...]:
        """Give the mounts at or below `path`, deepest and newest first."""
        return mount_table.below(read_table(), canonical(path))

    def seen_below(self, path: Path) -> dict[str, SeenMount]:
        """Give the targets at or below `path`, and a little of each."""
        return mount_table.seen_below(read_table(), canonical(path))

    def is_mount_point(self, path: Path) -> bool:
        """Say whether `path` itself is the root of a mount; a dead mount is one, too."""
        found = _look(path)
        return found.mount_root if found is not None else self.entry(path) is not None

    def entry(self, path: Path) -> MountEntry | None:
        """Give the topmost mount at exactly `path`."""
        found = _look(path)
        if found is not None:
            if not found.mount_root:
                return None
            entry = stat_mount.entry_of(found)
            if entry is not None:
                return entry
        return mount_table.at(read_table(), canonical(path))

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
        """Mount a file system on `target` unless something is mounted there; a dead mount is replaced.

        Local types are mounted by mount(2), which cannot hang; `deadline` is for the others. Those get no `sensitive`
        options either, which everybody could read in the command line.
        """
        parsed = parse_options((*options, *sensitive))
        if parsed.flags & MS_BIND:
            self.ensure_bound(Path(source), target, options=options)
            return
        seconds = HELPER_DEADLINE if deadline is None else deadline
        if self.lives(target, deadline=seconds):
            return
        attempt = f"mount {fstype} {source or 'none'} on {target}"
        if fstype in LOCAL_TYPES:
            with _mount_target(target, attempt) as place:
                shown = parse_options(mount_options.masked(options, sensitive)).data
                _mount(attempt, source or fstype, place, fstype, parsed, shown)
        elif sensitive:
            raise OperationError(f"cannot {attempt}: mount(8) would show sensitive options to everybody; use a file")
        else:
            wanted = ",".join(mount_options.split_options(options))
            flags = ("-o", wanted) if wanted else ()
            argv = ("mount", "-t", fstype, *flags, source or fstype, str(target))
            command = self._commands.lasting(argv) if is_fuse(fstype) else argv
            self._commands.run(command, deadline=seconds)
        if not self.is_mount_point(target):
            raise UncertainError(f"cannot {attempt}: no error was reported, but nothing is mounted there")
        self._propagate(target, parsed)

    def ensure_bound(self, source: Path, target: Path, *, options: Sequence[str] = ()) -> None:
        """Bind `source` on `target` unless it is already there; flags of the source's mount are inherited.

        Only flags of a mount mean anything to a bind; other options are ignored, as mount(8) does.
        """
        parsed = parse_options(options)
        attempt = f"bind {source} on {target}"
        try:
            origin = syscalls.statx(str(source), follow=True)
            place = syscalls.statx(str(target))
        except OSError as error:
            raise syscalls.failed(attempt, error, "both must exist before") from error
        if place.mount_root and (place.device, place.inode) != (origin.device, origin.inode):
            raise OperationError(f"cannot {attempt}: something else is mounted there; unmount it first")
        made = not place.mount_root
        if made:
            _call(attempt, str(source), target, MS_BIND | parsed.flags & MS_REC)
        try:
            self._restrict(source, target, parsed)
            self._propagate(target, parsed)
        except OperationError:
            if made:
                self._take_back(target, attempt)
            raise

    def remount(self, target: Path, options: Sequence[str]) -> None:
        """Change the options of a mounted file system; flags that `options` do not name stay as they are."""
        parsed = parse_options(options)
        entry = self.entry(target)
        attempt = f"remount {target} with {','.join(options)}"
        if entry is None:
            raise OperationError(f"cannot {attempt}: nothing is mounted there")
        if parsed.flags & MS_BIND:
            inherited = parse_options(entry.options).flags
            _call(attempt, "", target, MS_REMOUNT | MS_BIND | parsed.over(inherited))
        elif entry.fstype in LOCAL_TYPES:
            # One flag word sets mount and file system: a read-only bind must not turn its file system read-only.
            bound_read_only = "ro" in entry.options and "ro" not in entry.super_options
            inherited = parse_options((*entry.options, *(o for o in entry.super_options if o in {"ro", "sync"}))).flags
            before = inherited & ~MS_RDONLY if bound_read_only else inherited
            _call(attempt, "", target, MS_REMOUNT | parsed.over(before), parsed.data)
            if bound_read_only and not parsed.cleared & MS_RDONLY:
                _call(attempt, "", target, MS_REMOUNT | MS_BIND | parsed.over(inherited))
        else:
            argv = ("mount", "-o", ",".join(("remount", *options)), str(target))
            self._commands.run(argv, deadline=HELPER_DEADLINE)
        self._propagate(target, parsed)

    def unmount(self, target: Path, *, lazy: bool = False, force: bool = False, deadline: float | None = None) -> None:
        """Unmount everything stacked on `target`; not mounted, or missing, is success.

        Network and FUSE types are unmounted by umount(8), killably, within `deadline` each; local ones where a deadline
        is given: what is not written yet may wait for a disk of a network, and the daemon could not end meanwhile.
        """
        for _ in range(_STACKED):
            found = _look(target)
            if found is not None and not found.mount_root:
                return
            fstype = None if found is None else stat_mount.type_of(found)
            if fstype is None:  # a dead mount, or a kernel that cannot tell
                entry = self.entry(target)
                if entry is None:
                    return
                fstype = entry.fstype
            if not self._unmount_top(target, fstype, lazy=lazy, force=force, deadline=deadline):
                return
        raise BusyError(f"cannot unmount {target}: {_STACKED} mounts were taken away and there are still more")

    def unmount_below(self, path: Path, *, deadline: float | None = None) -> None:
        """Unmount all mounts at and below `path`, deepest first; the table is read only if there may be some below."""
        with suppress(BusyError):  # what is mounted below keeps a mount busy
            self.unmount(path, deadline=deadline)
            if _has_none(path):
                return
        for _ in range(_PASSES):
            entries = self.below(path)
            for entry in entries:
                if entry.target != path:
                    _log.warning("unmounting %s (%s), mounted by somebody below %s", entry.target, entry.source, path)
            taken = [self._unmount_top(entry.target, entry.fstype, deadline=deadline) for entry in entries]
            if all(taken):
                return
            if not any(taken):
                break
        names = ", ".join(str(entry.target) for entry in self.below(path))
        if names:
            raise BusyError(f"cannot unmount what is below {path}: other mounts hide {names}")

    def file_system(self, path: Path) -> FileSystem:
        """Ask statfs about `path`; where a server answers for it, by a process that can be ended."""
        attempt = f"ask for the file system of {path}"
        if served.is_served(path, follow=True):
            return self._file_system_served(path, attempt)
        try:
            found = syscalls.statfs(str(path))
        except OSError as error:
            raise syscalls.failed(attempt, error) from error
        return _said(found.type, found.size, found.available, found.inodes, found.inodes_free)

    def _file_system_served(self, path: Path, attempt: str) -> FileSystem:
        try:
            said = self._ask_file_system(path, "-L", f"--format={_STATFS}")
        except CommandError as error:
            raise OperationError(f"cannot {attempt}: {error.stderr.strip()}") from error
        magic, block, blocks, available, inodes, free = said.split()
        size = int(block)
        return _said(int(magic, 16), size * int(blocks), size * int(available), int(inodes), int(free))

    def lives(self, target: Path, *, deadline: float | None = None) -> bool:
        """Say whether a living mount is there; a dead one is taken away."""
        try:
            found = syscalls.statx(str(target))
        except OSError as error:
            if error.errno not in CORRUPTED or self.entry(target) is None:
                raise syscalls.failed(f"mount on {target}", error, "the directory must exist before") from error
        else:
            if not found.mount_root:
                return False
            fstype = stat_mount.type_of(found)
            if fstype in LOCAL_TYPES or self._answers(target, HELPER_DEADLINE if deadline is None else deadline):
                return True
        self.unmount(target, deadline=deadline)
        return False

    def aside(self, target: Path) -> AbstractContextManager[Path]:
        """Give a path to a copy of the mount: who waits there holds only the copy."""
        return served.aside(target)

    def _answers(self, target: Path, deadline: float) -> bool:
        """Ask a server whether it is there, by a process that can be killed; False when the mount is dead for good.

        By statfs: what stat says of a network file system may be a minute old.
        """
        try:
            self._ask_file_system(target, "--format=%t", deadline=deadline)
        except CommandError as error:
            if any(os.strerror(number) in error.stderr for number in _DEAD):
                return False
            raise
        return True

    def _ask_file_system(self, path: Path, *words: str, deadline: float | None = None) -> str:
        def argv_of(place: Path) -> Sequence[str]:
            return ("stat", "--file-system", *words, "--", str(place))

        return self._inquiries.ask_aside(path, argv_of, deadline=deadline).stdout

    def _restrict(self, source: Path, target: Path, parsed: MountOptions) -> None:
        """Give a bind its flags, which the first mount(2) ignores; also one that a crash left without them."""
        if not (parsed.flags | parsed.cleared) & mount_options.PER_MOUNT:
            return
        attempt = f"apply options to the bind of {source} on {target}"
        try:
            inherited = _flags(source, follow=True)
            now = _flags(target)
        except OSError as error:
            raise syscalls.failed(attempt, error) from error
        # Without MS_STRICTATIME and MS_NOATIME the kernel adds relatime by itself.
        wanted = parsed.over(inherited) | inherited & MS_RDONLY
        if now != wanted:
            _call(attempt, "", target, MS_REMOUNT | MS_BIND | wanted & ~MS_REC)

    def _take_back(self, target: Path, attempt: str) -> None:
        try:
            _umount(target, syscalls.UMOUNT_NOFOLLOW)
        except OSError as error:
            raise UncertainError(f"{attempt}: left mounted without its options: {syscalls.describe(error)}") from error

    def _propagate(self, target: Path, parsed: MountOptions) -> None:
        for flag in parsed.propagation:
            _call(f"set the propagation of {target}", "", target, flag)

    def _unmount_top(
        self, target: Path, fstype: str, *, lazy: bool = False, force: bool = False, deadline: float | None = None
    ) -> bool:
        if fstype in LOCAL_TYPES and deadline is None:
            flags = (syscalls.UMOUNT_DETACH if lazy else 0) | (syscalls.UMOUNT_FORCE if force else 0)
            return _unmount_once(target, flags | syscalls.UMOUNT_NOFOLLOW)
        _refuse_links(target)
        # umount.nfs tells a server of version 3 first, and waits for it, also when it is forced.
        words = [flag for flag, given in (("-i", lazy or force), ("-l", lazy), ("-f", force)) if given]
        result = self._commands.run(
            ("umount", "--no-canonicalize", *words, str(canonical(target))),
            deadline=HELPER_DEADLINE if deadline is None else deadline,
            accept=range(256),
        )
        if result.exit_code == 0:
            return True
        if "not mounted" in result.stderr or "no mount point" in result.stderr:
            return False
        if "busy" in result.stderr:
            raise _busy(target)
        raise OperationError(f"cannot unmount {target}: {result.stderr.strip()}")


def _flags(path: Path, *, follow: bool = False) -> int:
    """Give the flags of the mount that a path lies on, as statfs would, but ask no server; raises OSError."""
    words = served.options_of(syscalls.statx(str(path), follow=follow))
    return parse_options(words).flags & mount_options.PER_MOUNT


def read_table() -> bytes:
    """Read the mount table of this process; Linux 5.8 and later give each standing mount exactly once."""
    descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY)
    try:
        chunks: list[bytes] = []
        while chunk := os.read(descriptor, 1 << 20):
            chunks.append(chunk)
    finally:
        os.close(descriptor)
    return b"".join(chunks)


def _said(magic: int, size: int, available: int, inodes: int, free: int) -> FileSystem:
    """Give what statfs said; where inodes have no limit none are counted, as btrfs has it."""
    counted = (0, 0) if free in _UNLIMITED else (inodes, free)
    return FileSystem(type_name(magic), size, available, *counted)


def _look(path: Path) -> syscalls.Statx | None:
    """Look at a path itself; None for one that says it is dead. A missing one is like any that is not mounted."""
    try:
        return syscalls.statx(str(path))
    except OSError as error:
        if error.errno in GONE:
            return _MISSING
        if error.errno in CORRUPTED:
            return None
        raise syscalls.failed(f"look at {path}", error) from error


def _has_none(path: Path) -> bool:
    """Say whether a small look shows that nothing is mounted below `path`; False is: perhaps."""
    try:
        return mounts_within(path) == []
    except OSError:
        return False


def canonical(path: Path) -> Path:
    """Resolve the directory that `path` lies in, but not `path` itself, which may be a dead mount.

    One for which a server answers is left as it is: to resolve it is to ask for it.
    """
    return path if served.is_served(path.parent, follow=True) else Path(os.path.realpath(path.parent)) / path.name


@contextmanager
def _mount_target(target: Path, attempt: str) -> Generator[str]:
    """Hold the target open, so that nothing of its path can become a symbolic link before the mount."""
    try:
        descriptor = syscalls.open_beneath(str(target), os.O_PATH | os.O_NOFOLLOW)
    except OSError as error:
        raise _refused(attempt, error) from error
    try:
        if stat.S_ISLNK(syscalls.statx(descriptor=descriptor).mode):  # fstat would ask a server
            raise OperationError(f"cannot {attempt}: the target is a symbolic link")
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _mount(attempt: str, source: str, place: str, fstype: str, parsed: MountOptions, shown: str) -> None:
    try:
        syscalls.mount(source, place, fstype, parsed.flags, parsed.data)
    except OSError as error:
        hints = {
            errno.ENODEV: f"this kernel has no file system {fstype}; load its module",
            errno.EINVAL: f"check the options {shown!r}; dmesg may say more",
            errno.EPERM: "volmgr needs CAP_SYS_ADMIN",
        }
        raise syscalls.failed(attempt, error, hints.get(error.errno or 0, "")) from error


def _call(attempt: str, source: str, target: Path, flags: int, data: str = "") -> None:
    with _mount_target(target, attempt) as place:
        try:
            syscalls.mount(source, place, "", flags, data)
        except OSError as error:
            raise syscalls.failed(attempt, error) from error


def _unmount_once(target: Path, flags: int) -> bool:
    try:
        _umount(target, flags)
    except OSError as error:
        if error.errno == errno.EINVAL or error.errno in GONE:
            return False
        if error.errno == errno.EBUSY:
            raise _busy(target) from error
        raise _refused(f"unmount {target}", error) from error
    return True


def _umount(target: Path, flags: int) -> None:
    """Unmount by way of the directory above, into which no symbolic link may lead: it would be somebody else's mount.

    The mount itself cannot be held open meanwhile: that keeps it busy.
    """
    with _opened(target.parent) as above:
        syscalls.umount(f"/proc/self/fd/{above}/{target.name}", flags)


def _refuse_links(target: Path) -> None:
    """Refuse what umount(8) would find by way of a symbolic link."""
    try:
        with _opened(target.parent):
            pass
    except OSError as error:
        raise _refused(f"unmount {target}", error) from error


@contextmanager
def _opened(directory: Path) -> Generator[int]:
    descriptor = syscalls.open_beneath(str(directory), os.O_PATH | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _refused(attempt: str, error: OSError) -> OperationError:
    link = error.errno == errno.ELOOP
    return syscalls.failed(attempt, error, "a symbolic link lies in the path, where none may be" if link else "")


def _busy(target: Path) -> BusyError:
    place = canonical(target)
    data = read_table()
    inner = [str(entry.target) for entry in mount_table.below(data, place) if entry.target != place]
    if inner:
        return BusyError(f"cannot unmount {target}: mounted below it: {', '.join(inner)}")
    entry = mount_table.at(data, place)
    found: tuple[str, ...] = ()
    with suppress(OSError):
        found = holders(place, entry)
    return BusyError(f"cannot unmount {target}: it is in use", found)
