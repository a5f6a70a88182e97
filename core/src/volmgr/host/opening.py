"""Opening what a path names, without a race, and reading and writing by descriptors.

Below the root no symbolic link is followed anywhere in a path, since containers can write there. Host paths, which
a manifest names, may lie behind links; there only the last component is watched.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from volmgr.errors import OperationError
from volmgr.host import syscalls

GONE = frozenset({errno.ENOENT, errno.ENOTDIR})
"""What the kernel says of a path that is not there."""
_DIRECTORY = os.O_PATH | os.O_DIRECTORY
_REMEDIES = {
    errno.ENOSPC: "the file system is full; make room",
    errno.EDQUOT: "the quota is used up; make room",
    errno.EROFS: "the file system is read-only; see dmesg, and remount it",
    errno.ELOOP: "a symbolic link lies in the path, where none may be",
}


class Opener:
    """Opens paths below one root, and host paths."""

    def __init__(self, root: Path) -> None:
        """Take `root` for absolute and free of symbolic links."""
        self._root = f"{root}/"

    def is_below_root(self, path: Path) -> bool:
        """Say whether a path lies below the root; raises OperationError for one with `..` in it."""
        text = str(path)
        if not text.startswith(self._root):
            return False
        if "/../" in text or text.endswith("/.."):
            raise OperationError(f"refused {path}: a path below the root has no .. in it")
        return True

    def open(self, path: Path, flags: int) -> int:
        """Open a path; raises OSError."""
        if self.is_below_root(path):
            return syscalls.open_beneath(str(path), flags)
        return os.open(path, flags | os.O_CLOEXEC)

    @contextmanager
    def parent(self, path: Path, attempt: str) -> Generator[int]:
        """Hold the directory of a path open; raises OperationError that says what was attempted."""
        try:
            descriptor = self.open_directory(path.parent)
        except OSError as error:
            raise syscalls.failed(attempt, error) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def existing_parent(self, path: Path) -> Generator[int | None]:
        """Hold the directory of a path open; None when it is missing."""
        try:
            descriptor = self.open_directory(path.parent)
        except OSError as error:
            raise_unless_gone(f"open {path.parent}", error)
            yield None
            return
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def itself(self, path: Path, attempt: str) -> Generator[int]:
        """Open the thing itself, not what a link names, whatever kind it is: without side effects."""
        try:
            descriptor = self._open_itself(path)
        except OSError as error:
            raise syscalls.failed(attempt, error) from error
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_itself(self, path: Path) -> int:
        if self.is_below_root(path):
            return syscalls.open_beneath(str(path), os.O_PATH | os.O_NOFOLLOW)
        return os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)

    def open_directory(self, path: Path) -> int:
        """Open a directory only to name what is in it; raises OSError."""
        return self.open(path, _DIRECTORY)


def remedy(error: OSError) -> str:
    """Say what helps against a refusal; empty where nobody knows."""
    return _REMEDIES.get(error.errno or 0, "")


def raise_unless_gone(attempt: str, error: OSError) -> None:
    """Raise the OperationError of an attempt, unless the path is just not there."""
    if error.errno not in GONE:
        raise syscalls.failed(attempt, error, remedy(error)) from error


def read(descriptor: int, limit: int) -> bytes:
    """Read to the end, at most `limit` bytes; raises OSError."""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := os.read(descriptor, min(limit, 1 << 20))):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def write_new(name: str, data: bytes, mode: int, directory: int, *, durable: bool) -> None:
    """Make a file of exactly this mode in an open directory; raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, mode & 0o600, dir_fd=directory)
    try:
        os.fchmod(descriptor, mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync(directory: int) -> None:
    """Let what was renamed or removed in an open directory survive a power cut; raises OSError."""
    # The descriptor is O_PATH, which fsync refuses.
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_missing(name: str, directory: int) -> bool:
    """Say whether an open directory has nothing of this name, as far as that can be seen; no server is asked."""
    try:
        syscalls.statx(name, descriptor=directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
