"""Small trees of files, written and compared by open directories: few system calls, and no path is walked twice."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from volmgr.host.opening import read
from volmgr.model.payload import Payload, PayloadFile

DIRECTORY_MODE = 0o755
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ITSELF = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_STRANGE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})

Layout = Mapping[str, "PayloadFile | Layout"]
"""A directory: its files and directories by name."""


def layout(files: Payload) -> Layout:
    """Give the tree that files by path are."""
    top: dict[str, PayloadFile | Layout] = {}
    for path, file in files.items():
        *above, name = path.split("/")
        here = top
        for part in above:
            below = here.setdefault(part, {})
            if not isinstance(below, dict):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            here = below
        if name in here:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        here[name] = file
    return top


def links(directory: int) -> dict[str, str | None]:
    """Give the names in an open directory, each with what it links to; raises OSError."""
    found: dict[str, str | None] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            found[entry.name] = None
            if entry.is_symlink():
                with suppress(FileNotFoundError):
                    found[entry.name] = os.readlink(entry.name, dir_fd=directory)
    return found


def make(name: str, parent: int, files: Payload) -> None:
    """Make a directory of files in an open directory; raises OSError."""
    _make(name, parent, layout(files))


def _make(name: str, parent: int, tree: Layout) -> None:
    os.mkdir(name, DIRECTORY_MODE, dir_fd=parent)
    directory = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        os.fchmod(directory, DIRECTORY_MODE)
        for child, content in tree.items():
            if isinstance(content, PayloadFile):
                _make_file(child, directory, content)
            else:
                _make(child, directory, content)
    finally:
        os.close(directory)


def _make_file(name: str, directory: int, file: PayloadFile) -> None:
    descriptor = os.open(name, _NEW, 0, dir_fd=directory)
    try:
        rest = memoryview(file.data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if file.uid != -1 or file.gid != -1:
            os.fchown(descriptor, file.uid, file.gid)
        os.fchmod(descriptor, file.mode)  # last: nobody else opens it before it is whole
    finally:
        os.close(descriptor)


def matches(directory: int, files: Payload) -> bool:
    """Say whether an open directory holds just these files; raises OSError."""
    top = os.fstat(directory)
    try:
        return _matches(directory, layout(files), top)
    except OSError as error:
        if error.errno in _STRANGE:
            return False
        raise


def _matches(directory: int, tree: Layout, top: os.stat_result) -> bool:
    if stat.S_IMODE(os.fstat(directory).st_mode) & 0o777 != DIRECTORY_MODE or set(os.listdir(directory)) != set(tree):
        return False
    for name, content in tree.items():
        if isinstance(content, PayloadFile):
            if not _is_file(name, directory, content, top):
                return False
            continue
        below = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            if not _matches(below, content, top):
                return False
        finally:
            os.close(below)
    return True


def _is_file(name: str, directory: int, file: PayloadFile, top: os.stat_result) -> bool:
    itself = os.open(name, _ITSELF, dir_fd=directory)
    try:
        found = os.fstat(itself)
        wanted = (
            stat.S_IFREG | file.mode,
            top.st_uid if file.uid == -1 else file.uid,
            top.st_gid if file.gid == -1 else file.gid,
            len(file.data),
        )
        same = (found.st_mode, found.st_uid, found.st_gid, found.st_size) == wanted
        return same and _read(itself, len(file.data) + 1) == file.data
    finally:
        os.close(itself)


def _read(itself: int, limit: int) -> bytes:
    """Read what was looked at, whatever has its name by now: a device that took its place is never opened."""
    descriptor = os.open(f"/proc/self/fd/{itself}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read(descriptor, limit)
    finally:
        os.close(descriptor)
