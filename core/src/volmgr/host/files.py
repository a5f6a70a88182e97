"""Files and directories on the real machine, each call without a race (`opening` says how)."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from volmgr.errors import CommandError, OperationError
from volmgr.host import removal, syscalls, trees
from volmgr.host.commands import LocalCommands
from volmgr.host.inquiries import Inquiries
from volmgr.host.interface import FileInfo, Identity
from volmgr.host.opening import GONE, Opener, is_missing, raise_unless_gone, read, remedy, sync, write_new
from volmgr.host.paths import Paths
from volmgr.host.served import is_served
from volmgr.host.trash import Trash
from volmgr.host.unasked import never
from volmgr.model.payload import Payload

_KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFREG: "file",
    stat.S_IFLNK: "symlink",
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "fifo",
    stat.S_IFCHR: "char",
    stat.S_IFBLK: "block",
}


_STAT = "%f %t %T %u %g %s %d %i"  # in hexadecimal: mode and the device that it is; owner, group, size, device, inode


class LocalFiles:
    """Files of this machine."""

    def __init__(self, paths: Paths, inquiries: Inquiries | None = None) -> None:
        self._inquiries = inquiries or Inquiries(LocalCommands())
        self._opener = Opener(paths.root)
        self._trash = Trash(paths.trash)
        self._numbers = itertools.count()

    def info(self, path: Path, *, follow: bool = False) -> FileInfo | None:
        """Stat `path`; None when it (or, following, its target) is missing.

        Where a server answers for it, a process that can be ended asks: raises UncertainError if it does not answer.
        """
        if is_served(path, follow=follow):
            return self._info_served(path, follow=follow)
        try:
            found = os.stat(path, follow_symlinks=follow)
        except OSError as error:
            raise_unless_gone(f"look at {path}", error)
            return None
        place = (found.st_dev, found.st_ino, found.st_rdev)
        return _info(found.st_mode, found.st_uid, found.st_gid, found.st_size, *place)

    def _info_served(self, path: Path, *, follow: bool) -> FileInfo | None:
        def argv_of(place: Path) -> Sequence[str]:
            links = ("-L",) if follow or place != path else ()
            return ("stat", *links, f"--format={_STAT}", "--", str(place))

        try:
            said = self._inquiries.ask_aside(path, argv_of).stdout.split()
        except CommandError as error:
            if any(os.strerror(number) in error.stderr for number in GONE):
                return None
            raise OperationError(f"cannot look at {path}: {error.stderr.strip()}") from error
        mode, major, minor = (int(text, 16) for text in said[:3])
        uid, gid, size, device, inode = map(int, said[3:])
        return _info(mode, uid, gid, size, device, inode, os.makedev(major, minor))

    def identity(self, path: Path) -> Identity | None:
        """Give the identity of `path`, not following a last symbolic link; None when missing."""
        try:
            found = syscalls.statx(str(path))
        except OSError as error:
            raise_unless_gone(f"look at {path}", error)
            return None
        return Identity(found.mount if found.mount_root else None, found.device, found.inode)

    def names(self, path: Path) -> tuple[str, ...]:
        """List a directory, sorted; a missing one is empty."""
        try:
            descriptor = self._opener.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise_unless_gone(f"list {path}", error)
            return ()
        try:
            return tuple(sorted(os.listdir(descriptor)))
        finally:
            os.close(descriptor)

    def ensure_directory(self, path: Path, mode: int, *, exact: bool = False, parents_mode: int = 0o750) -> bool:
        """Make a directory and its parents; one that is made has just this mode, whatever the umask is."""
        made = self._make_directory(path, mode, parents_mode)
        if exact and not made:
            self.chmod(path, mode)
        return made

    def ensure_file(self, path: Path, mode: int = 0o640) -> bool:
        """Make an empty regular file in a directory that exists, never through a symbolic link."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._opener.parent(path, f"make the file {path}") as directory:
            try:
                descriptor = os.open(path.name, flags, mode, dir_fd=directory)
            except FileExistsError:
                self._check_entry(path, directory, stat.S_IFREG, f"make the file {path}")
                return False
            except OSError as error:
                raise syscalls.failed(f"make the file {path}", error) from error
            try:
                os.fchmod(descriptor, mode)
            finally:
                os.close(descriptor)
            return True

    def read(self, path: Path, limit: int = 1 << 20) -> bytes | None:
        """Read a small regular file; None when missing. Nothing else is even opened: that alone starts a watchdog."""
        try:
            descriptor = self._open_file(path)
        except OSError as error:
            raise_unless_gone(f"read {path}", error)
            return None
        try:
            data = read(descriptor, limit + 1)
        except OSError as error:
            raise syscalls.failed(f"read {path}", error) from error
        finally:
            os.close(descriptor)
        if len(data) > limit:
            raise OperationError(f"cannot read {path}: it is longer than {limit} bytes")
        return data

    def _open_file(self, path: Path) -> int:
        place = self._opener.open(path, os.O_PATH)
        try:
            kind = stat.S_IFMT(syscalls.statx(descriptor=place).mode)
            if kind != stat.S_IFREG:
                raise OperationError(f"cannot read {path}: it is a {_KINDS.get(kind, 'thing')}, not a file")
            return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(place)

    def write(self, path: Path, data: bytes, mode: int = 0o600, *, durable: bool = False) -> None:
        """Replace a file at once, in a directory that exists; a failure leaves the old one and nothing else."""
        attempt = f"write {path}"
        temporary = f".{path.name[:200]}.{os.getpid()}.{next(self._numbers)}.tmp"
        with self._opener.parent(path, attempt) as directory:
            try:
                write_new(temporary, data, mode, directory, durable=durable)
                os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
                if durable:
                    sync(directory)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise syscalls.failed(attempt, error, remedy(error)) from error

    def ensure_symlink(self, path: Path, target: str) -> None:
        """Make or replace a symbolic link at once; refuses to replace anything else."""
        attempt = f"link {path} to {target}"
        with self._opener.parent(path, attempt) as directory:
            try:
                os.symlink(target, path.name, dir_fd=directory)
                return
            except FileExistsError:
                self._check_entry(path, directory, stat.S_IFLNK, attempt)
            except OSError as error:
                raise syscalls.failed(attempt, error) from error
            temporary = f".{path.name[:200]}.{os.getpid()}.{next(self._numbers)}.tmp"
            try:
                if os.readlink(path.name, dir_fd=directory) != target:
                    os.symlink(target, temporary, dir_fd=directory)
                    os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError as error:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=directory)
                raise syscalls.failed(attempt, error) from error

    def read_link(self, path: Path) -> str | None:
        """Read a symbolic link; None when it is missing or none."""
        try:
            return os.readlink(path)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise_unless_gone(f"read the link {path}", error)
            return None

    def links(self, path: Path) -> Mapping[str, str | None]:
        """Give the names in a directory, each with what it links to; missing is empty."""
        attempt = f"list {path}"
        try:
            descriptor = self._opener.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise_unless_gone(attempt, error)
            return {}
        try:
            return trees.links(descriptor)
        except OSError as error:
            raise syscalls.failed(attempt, error) from error
        finally:
            os.close(descriptor)

    def make_tree(self, path: Path, files: Payload) -> None:
        """Make a new directory of new files, each with exactly its mode and owner."""
        attempt = f"write {path}"
        with self._opener.parent(path, attempt) as directory:
            try:
                trees.make(path.name, directory, files)
            except OSError as error:
                raise syscalls.failed(attempt, error, remedy(error)) from error

    def has_tree(self, path: Path, files: Payload) -> bool:
        """Say whether a directory holds exactly these files, with their content, modes and owners."""
        try:
            descriptor = self._opener.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise_unless_gone(f"read {path}", error)
            return False
        try:
            return trees.matches(descriptor, files)
        except OSError as error:
            raise syscalls.failed(f"read {path}", error) from error
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Rename within one file system."""
        attempt = f"rename {source} to {target}"
        with self._opener.parent(source, attempt) as origin, self._opener.parent(target, attempt) as directory:
            try:
                os.rename(source.name, target.name, src_dir_fd=origin, dst_dir_fd=directory)
            except OSError as error:
                raise syscalls.failed(attempt, error) from error

    def remove_file(self, path: Path, *, durable: bool = False) -> None:
        """Remove a file or symbolic link; missing is success."""
        with self._opener.existing_parent(path) as directory:
            if directory is None:
                return
            try:
                os.unlink(path.name, dir_fd=directory)
                if durable:
                    sync(directory)
            except OSError as error:
                if not is_missing(path.name, directory):  # a read-only file system refuses before it looks
                    raise_unless_gone(f"remove {path}", error)

    def remove_directory(self, path: Path) -> bool:
        """Remove an empty directory; missing is success, False when it is not empty, a mount, or none."""
        with self._opener.existing_parent(path) as directory:
            if directory is None:
                return True
            try:
                os.rmdir(path.name, dir_fd=directory)
            except OSError as error:
                if is_missing(path.name, directory):
                    return True
                if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ENOTDIR}:
                    return False
                raise syscalls.failed(f"remove the directory {path}", error) from error
            return True

    def remove_tree(self, path: Path, *, cancelled: Callable[[], bool] = never) -> None:
        """Remove a tree that we made: never across a mount, never through a symbolic link."""
        if self._survey(path) is not None:
            self._remove_tree(path, cancelled)

    def discard(self, path: Path) -> None:
        """Take a tree away at once; a small one is deleted here and now, which is cheaper than a thread."""
        small = self._survey(path)
        if small is None:
            return
        if not small:
            try:
                with self._opener.existing_parent(path) as directory:
                    if directory is not None:
                        self._trash.take(path.name, directory)
                return
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno not in {errno.EXDEV, errno.ENOSPC, errno.EDQUOT}:  # ENOSPC: no room for a name
                    raise syscalls.failed(f"move {path} into the trash", error) from error
        self._remove_tree(path, lambda: False)

    def resume_discards(self) -> None:
        """Delete in the background what a crash left in the trash."""
        self._trash.resume()

    def settle(self) -> None:
        """Wait until the trash is empty, or what is left in it cannot be deleted."""
        self._trash.join()

    def chmod(self, path: Path, mode: int) -> None:
        """Set the mode, never through a symbolic link."""
        attempt = f"set the mode of {path} to {mode:04o}"
        with self._opener.itself(path, attempt) as descriptor:
            found = os.fstat(descriptor).st_mode
            if stat.S_ISLNK(found):
                raise OperationError(f"cannot {attempt}: it is a symbolic link")
            if stat.S_IMODE(found) != mode:
                try:
                    os.chmod(f"/proc/self/fd/{descriptor}", mode)
                except OSError as error:
                    raise syscalls.failed(attempt, error) from error

    def chown(self, path: Path, uid: int, gid: int) -> None:
        """Set the owner (-1: as it is), of a symbolic link itself."""
        attempt = f"give {path} to {uid}:{gid}"
        with self._opener.parent(path, attempt) as directory:
            try:
                os.chown(path.name, uid, gid, dir_fd=directory, follow_symlinks=False)
            except OSError as error:
                raise syscalls.failed(attempt, error) from error

    def _make_directory(self, path: Path, mode: int, parents_mode: int) -> bool:
        missing = [path]
        made = False
        while missing:
            here = missing[-1]
            try:
                made = self._mkdir(here, mode if len(missing) == 1 else parents_mode)
                missing.pop()
            except FileNotFoundError:
                missing.append(here.parent)
            except OSError as error:
                raise syscalls.failed(f"make the directory {here}", error, remedy(error)) from error
        return made

    def _mkdir(self, path: Path, mode: int) -> bool:
        directory = self._opener.open_directory(path.parent)
        try:
            os.mkdir(path.name, mode, dir_fd=directory)
            made = os.stat(path.name, dir_fd=directory, follow_symlinks=False).st_mode
            if stat.S_IMODE(made) != mode:  # the umask, or a default ACL
                self.chmod(path, mode)
            return True
        except FileExistsError:
            self._check_kind(path, directory, stat.S_IFDIR)
            return False
        finally:
            os.close(directory)

    def _check_entry(self, path: Path, directory: int, wanted: int, attempt: str) -> None:
        """Do as _check_kind; what was there may be gone by now: others rename and remove, too."""
        try:
            self._check_kind(path, directory, wanted)
        except OSError as error:
            raise syscalls.failed(attempt, error) from error

    def _check_kind(self, path: Path, directory: int, wanted: int) -> None:
        """Refuse what is there but of another kind; a link to the right kind will do where links are followed."""
        kind = stat.S_IFMT(
            syscalls.statx(path.name, descriptor=directory).mode
        )  # of a mount, without asking its server
        if kind == stat.S_IFLNK != wanted and not self._opener.is_below_root(path):
            try:
                kind = stat.S_IFMT(syscalls.statx(path.name, descriptor=directory, follow=True).mode)
            except FileNotFoundError as error:
                raise OperationError(f"refused {path}: it is a symbolic link to nothing; remove it") from error
        if kind != wanted:
            raise OperationError(
                f"refused {path}: it is a {_KINDS.get(kind, 'thing')}, not a {_KINDS[wanted]}; move it away"
            )

    def _survey(self, path: Path) -> bool | None:
        """Look for mounts, and say whether the tree is small; None when it is missing."""
        try:
            return removal.is_small(path)
        except OSError as error:
            raise_unless_gone(f"look through {path}", error)
            return None

    def _remove_tree(self, path: Path, cancelled: Callable[[], bool]) -> None:
        with self._opener.existing_parent(path) as directory:
            if directory is not None:
                removal.remove_tree(path, directory, cancelled=cancelled)


def _info(mode: int, uid: int, gid: int, size: int, device: int, inode: int, rdev: int) -> FileInfo:
    kind = _KINDS.get(stat.S_IFMT(mode), "unknown")
    return FileInfo(kind, stat.S_IMODE(mode), uid, gid, size, device, inode, rdev)
