"""Unpacks archives on the real machine: every step by descriptors, below one directory, never out of it.

A path is resolved by openat2(2) with RESOLVE_IN_ROOT: the kernel takes links as a process does whose root directory is
the tree, so that neither `..` nor an absolute link leads out of it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from volmgr.errors import OperationError
from volmgr.host import syscalls
from volmgr.host.interface import Unpacked, Unpacking
from volmgr.host.layers import Parts, pieces
from volmgr.host.opening import GONE, Opener, remedy
from volmgr.host.paths import Paths
from volmgr.host.removal import remove_tree
from volmgr.host.tar_entries import Entry, Read
from volmgr.host.unasked import never, silent
from volmgr.host.unpacking import unpack, verify

_PARENT_MODE = 0o755  # of directories that an archive names only in the paths of others; as the runtimes
_NAMING = os.O_PATH | os.O_DIRECTORY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT = "user."
_CAPABILITY = "security.capability"
_NO_XATTRS = frozenset({errno.ENOTSUP, errno.EPERM})


class LocalArchives:
    """Archives on this machine."""

    def __init__(self, paths: Paths) -> None:
        self._opener = Opener(paths.root)

    def unpack(
        self,
        archive: Path,
        target: Path,
        what: Unpacking,
        *,
        cancelled: Callable[[], bool] = never,
        progress: Callable[[str], None] = silent,
    ) -> Unpacked:
        """Unpack an archive over what an existing directory holds, and sync it to disk."""
        with self._file(archive, what) as source, syscalls.opened(target, _NAMING, f"open {target}") as top:
            tree = LocalTree(target, top)
            done = unpack(lambda size: os.read(source, size), tree, what, cancelled, progress)
            try:
                tree.finish()
            except OSError as error:
                raise syscalls.failed(f"unpack {what.name}", error, remedy(error)) from error
        return done

    def verify(self, archive: Path, what: Unpacking, *, cancelled: Callable[[], bool] = never) -> None:
        """Compare a file with its digest and size."""
        with self._file(archive, what) as source:
            verify(lambda size: os.read(source, size), what, cancelled)

    @contextmanager
    def _file(self, archive: Path, what: Unpacking) -> Generator[int]:
        attempt = f"read {archive}, {what.name}"
        try:
            descriptor = self._opener.open(archive, os.O_RDONLY | os.O_NONBLOCK)  # a FIFO must not block
        except OSError as error:
            raise syscalls.failed(attempt, error) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OperationError(f"cannot {attempt}: it is no regular file")
            yield descriptor
        except OSError as error:
            raise syscalls.failed(attempt, error, remedy(error)) from error
        finally:
            os.close(descriptor)


class LocalTree:
    """A directory that is being filled."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._top = descriptor
        self._times: dict[Parts, float] = {}

    def directory(self, path: Parts, entry: Entry) -> None:
        """Make a directory, or change the one that is there; its time is set at the end, as it changes until then."""
        self._times[path] = entry.mtime
        if not path:
            self._adorn(f"/proc/self/fd/{self._top}", entry)
            return
        with self._place(path, make=True) as (directory, name):
            try:
                os.mkdir(name, 0o700, dir_fd=directory)
            except FileExistsError:
                if not _is_directory(name, directory):
                    self._clear(name, directory)
                    os.mkdir(name, 0o700, dir_fd=directory)
            self._adorn(f"/proc/self/fd/{directory}/{name}", entry)

    def file(self, path: Parts, entry: Entry, read: Read) -> None:
        """Make a regular file."""
        with self._place(path, make=True) as (directory, name):
            self._clear(name, directory)
            descriptor = os.open(name, _NEW, 0o600, dir_fd=directory)
            try:
                for size in pieces(entry.size):
                    rest = memoryview(read(size))
                    while rest:
                        rest = rest[os.write(descriptor, rest) :]
                self._adorn(f"/proc/self/fd/{descriptor}", entry)
                os.utime(descriptor, (entry.mtime, entry.mtime))
            finally:
                os.close(descriptor)

    def symlink(self, path: Parts, entry: Entry) -> None:
        """Make a symbolic link."""
        with self._place(path, make=True) as (directory, name):
            self._clear(name, directory)
            os.symlink(entry.link, name, dir_fd=directory)
            os.chown(name, entry.uid, entry.gid, dir_fd=directory, follow_symlinks=False)
            os.utime(name, (entry.mtime, entry.mtime), dir_fd=directory, follow_symlinks=False)

    def hard_link(self, path: Parts, target: Parts) -> None:
        """Give a file a further name, without following it if it is a symbolic link."""
        with self._place(target) as (origin, old):
            os.stat(old, dir_fd=origin, follow_symlinks=False)
            with self._place(path, make=True) as (directory, name):
                self._clear(name, directory)
                os.link(old, name, src_dir_fd=origin, dst_dir_fd=directory, follow_symlinks=False)

    def remove(self, path: Parts) -> None:
        """Remove whatever is at a path."""
        with suppress(FileNotFoundError, NotADirectoryError), self._place(path) as (directory, name):
            self._clear(name, directory)

    def names(self, path: Parts) -> tuple[str, ...]:
        """List a directory."""
        try:
            descriptor = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno in GONE:
                return ()
            raise
        try:
            return tuple(sorted(os.listdir(descriptor)))
        finally:
            os.close(descriptor)

    def is_directory(self, path: Parts) -> bool:
        """Say whether a directory is at a path."""
        try:
            with self._place(path) as (directory, name):
                return _is_directory(name, directory)
        except OSError as error:
            if error.errno in GONE:
                return False
            raise

    def finish(self) -> None:
        """Set the times of directories, and let everything reach the disk: a rename must not come before."""
        for path, mtime in self._times.items():
            with suppress(FileNotFoundError, NotADirectoryError):
                descriptor = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.utime(descriptor, (mtime, mtime))
                finally:
                    os.close(descriptor)
        syscalls.sync_file_system(self._top)

    @contextmanager
    def _place(self, path: Parts, *, make: bool = False) -> Generator[tuple[int, str]]:
        """Hold the directory of a path open, and give the name in it."""
        *above, name = path
        descriptor = self._directory(tuple(above), make=make)
        try:
            yield descriptor, name
        finally:
            os.close(descriptor)

    def _directory(self, path: Parts, *, make: bool) -> int:
        try:
            return self._open(path, _NAMING)
        except FileNotFoundError:
            if not make:
                raise
        depth = len(path)
        while (above := self._existing(path[: depth - 1])) is None:
            depth -= 1
        for name in path[depth - 1 :]:
            try:
                below = _make_directory(name, above)
            finally:
                os.close(above)
            above = below
        return above

    def _existing(self, path: Parts) -> int | None:
        try:
            return self._open(path, _NAMING)
        except FileNotFoundError:
            return None

    def _open(self, path: Parts, flags: int) -> int:
        return syscalls.open_in_root("/".join(path) or ".", flags, descriptor=self._top)

    def _clear(self, name: str, directory: int) -> None:
        try:
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            remove_tree(self._path / name, directory)

    def _adorn(self, path: str, entry: Entry) -> None:
        """Set owner, attributes and mode, in this order: a new owner takes set-id bits and capabilities away."""
        os.chown(path, entry.uid, entry.gid)
        for key, value in entry.xattrs.items():
            if key.startswith(_KEPT) or key == _CAPABILITY:
                _set_attribute(path, key, value)
        os.chmod(path, entry.mode)


def _make_directory(name: str, above: int) -> int:
    """Make a directory that only the paths of others name, and open it."""
    try:
        os.mkdir(name, _PARENT_MODE, dir_fd=above)
    except FileExistsError as error:
        raise FileNotFoundError(errno.ENOENT, f"{name} is a link to nothing in the image") from error
    os.chmod(f"/proc/self/fd/{above}/{name}", _PARENT_MODE)  # whatever the umask is
    return os.open(name, _NAMING | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)


def _is_directory(name: str, directory: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def _set_attribute(path: str, key: str, value: bytes) -> None:
    try:
        os.setxattr(path, key, value)
    except OSError as error:
        if error.errno not in _NO_XATTRS:  # a file system without them still serves
            raise
