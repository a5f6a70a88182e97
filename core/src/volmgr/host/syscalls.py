"""System calls that Python has no word for, by ctypes; each raises OSError with the path that it failed on.

Needs Linux 5.8 (STATX_MNT_ID, STATX_ATTR_MOUNT_ROOT). `CDLL` releases the GIL around each call.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from volmgr.errors import OperationError

AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_AT_NO_AUTOMOUNT = 0x800
_AT_EMPTY_PATH = 0x1000
_AT_STATX_DONT_SYNC = 0x4000
_STATX_BASIC_STATS = 0x7FF
_STATX_MNT_ID = 0x1000
_STATX_MNT_ID_UNIQUE = 0x4000
_STATX_ATTR_MOUNT_ROOT = 0x2000
_SYS_OPEN_TREE = 428
_SYS_OPENAT2 = 437
_OPEN_TREE_CLONE = 1
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10
_RESOLVE_CACHED = 0x20
_INSIDE = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS
_IN_ROOT = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS
_RENAMED = 1024  # how often an open is tried again that the kernel could not judge because something was renamed

_RENAME_NOREPLACE = 1

UMOUNT_FORCE = 1
UMOUNT_DETACH = 2
UMOUNT_NOFOLLOW = 8

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class StatxBuffer(ctypes.Structure):
    """`struct statx` of the kernel."""

    _fields_ = (
        ("mask", ctypes.c_uint32),
        ("blksize", ctypes.c_uint32),
        ("attributes", ctypes.c_uint64),
        ("nlink", ctypes.c_uint32),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("mode", ctypes.c_uint16),
        ("pad", ctypes.c_uint16),
        ("ino", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("attributes_mask", ctypes.c_uint64),
        ("times", ctypes.c_uint64 * 8),
        ("rdev_major", ctypes.c_uint32),
        ("rdev_minor", ctypes.c_uint32),
        ("dev_major", ctypes.c_uint32),
        ("dev_minor", ctypes.c_uint32),
        ("mnt_id", ctypes.c_uint64),
        ("spare", ctypes.c_uint64 * 13),
    )


class _Statfs(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_long),
        ("bsize", ctypes.c_long),
        ("blocks", ctypes.c_uint64),
        ("bfree", ctypes.c_uint64),
        ("bavail", ctypes.c_uint64),
        ("files", ctypes.c_uint64),
        ("ffree", ctypes.c_uint64),
        ("fsid", ctypes.c_int * 2),
        ("namelen", ctypes.c_long),
        ("frsize", ctypes.c_long),
        ("flags", ctypes.c_long),
        ("spare", ctypes.c_long * 4),
    )


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_OPEN_HOW_SIZE = ctypes.c_size_t(ctypes.sizeof(_OpenHow))


@dataclass(frozen=True, slots=True)
class Statx:
    """What statx says; `mount` is the unique mount id (the reused one before Linux 6.8)."""

    mode: int
    device: int
    inode: int
    mount: int
    mount_root: bool


@dataclass(frozen=True, slots=True)
class Statfs:
    """What statfs says; sizes in bytes."""

    type: int
    size: int
    available: int
    inodes: int
    inodes_free: int


def mount(source: str, target: str, fstype: str, flags: int = 0, data: str = "") -> None:
    """Mount a file system, or change a mount."""
    arguments = (os.fsencode(source or "none"), os.fsencode(target), os.fsencode(fstype) or None)
    if _libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data) or None) != 0:
        raise _error(target)


def umount(target: str, flags: int = UMOUNT_NOFOLLOW) -> None:
    """Unmount what is on top at `target`."""
    if _libc.umount2(os.fsencode(target), flags) != 0:
        raise _error(target)


def rename_new(source: str, target: str, directory: int) -> None:
    """Rename within an open directory, never over what is there; EINVAL where the file system cannot."""
    names = (directory, os.fsencode(source), directory, os.fsencode(target))
    if _libc.renameat2(*names, ctypes.c_uint(_RENAME_NOREPLACE)) != 0:
        raise _error(target)


def clone_mount(descriptor: int) -> int:
    """Open a copy of a mount, open as O_PATH, that is mounted nowhere and ends with who has it open; asks no server."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH
    return system_call(_SYS_OPEN_TREE, descriptor, b"", ctypes.c_uint(flags))


def statx(path: str = "", *, descriptor: int = AT_FDCWD, follow: bool = False) -> Statx:
    """Look at a path without asking a server for news; an empty path is the descriptor itself."""
    flags = _AT_NO_AUTOMOUNT | _AT_STATX_DONT_SYNC
    flags |= (0 if follow else _AT_SYMLINK_NOFOLLOW) | (0 if path else _AT_EMPTY_PATH)
    mask = _STATX_BASIC_STATS | _STATX_MNT_ID | _STATX_MNT_ID_UNIQUE
    result = StatxBuffer()
    if _libc.statx(descriptor, os.fsencode(path), flags, mask, ctypes.byref(result)) != 0:
        raise _error(path)
    return Statx(
        mode=result.mode,
        device=os.makedev(result.dev_major, result.dev_minor),
        inode=result.ino,
        mount=result.mnt_id,
        mount_root=bool(result.attributes & _STATX_ATTR_MOUNT_ROOT),
    )


def statfs(path: str) -> Statfs:
    """Ask for the file system of `path`: unlike os.statvfs it tells the file system's type."""
    result = _Statfs()
    if _libc.statfs(os.fsencode(path), ctypes.byref(result)) != 0:
        raise _error(path)
    block = result.frsize or result.bsize
    return Statfs(
        type=result.type & 0xFFFFFFFF,
        size=result.blocks * block,
        available=result.bavail * block,
        inodes=result.files,
        inodes_free=result.ffree,
    )


def open_beneath(path: str, flags: int, *, descriptor: int = AT_FDCWD) -> int:
    """Open without following any symbolic link, in no part of the path: openat2(2)."""
    how = _open_how(flags | os.O_CLOEXEC, RESOLVE_NO_SYMLINKS)
    return system_call(_SYS_OPENAT2, descriptor, os.fsencode(path), how, _OPEN_HOW_SIZE, path=path)


def open_cached(path: str, flags: int) -> int:
    """Open what the kernel finds without waiting for anything; raises BlockingIOError for all else.

    OSError EINVAL before Linux 5.12.
    """
    how = _open_how(flags | os.O_CLOEXEC, _RESOLVE_CACHED)
    return system_call(_SYS_OPENAT2, AT_FDCWD, os.fsencode(path), how, _OPEN_HOW_SIZE, path=path)


def open_inside(path: str, flags: int, *, descriptor: int) -> int:
    """Open what lies below an open directory, following links that stay there; EXDEV for what leads out of it."""
    return _open_asking_again(path, _open_how(flags | os.O_CLOEXEC, _INSIDE), descriptor)


def open_in_root(path: str, flags: int, *, descriptor: int) -> int:
    """Open what a process would find that has `descriptor` as its root directory: links stay inside."""
    return _open_asking_again(path, _open_how(flags | os.O_CLOEXEC, _IN_ROOT), descriptor)


def _open_asking_again(path: str, how: object, descriptor: int) -> int:
    for _ in range(_RENAMED):
        try:
            return system_call(_SYS_OPENAT2, descriptor, os.fsencode(path), how, _OPEN_HOW_SIZE, path=path)
        except BlockingIOError:  # EAGAIN: a rename anywhere may have led out; the kernel asks to be asked again
            continue
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


def sync_file_system(descriptor: int) -> None:
    """Let all that was written to the file system of an open file reach the disk: syncfs(2)."""
    real = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)  # syncfs refuses O_PATH
    try:
        if _libc.syncfs(real) != 0:
            raise _error("")
    finally:
        os.close(real)


@cache
def _open_how(flags: int, resolve: int) -> object:
    """Give a pointer to the structure for these flags, made once: most of what is done on files begins with it."""
    return ctypes.pointer(_OpenHow(flags=flags, mode=0, resolve=resolve))


def system_call(number: int, *arguments: object, path: str = "") -> int:
    """Make a system call that libc has no name for; `path` is for the error."""
    result: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise _error(path)
    return result


@contextmanager
def opened(path: os.PathLike[str], flags: int, attempt: str) -> Generator[int]:
    """Hold a path open; raises OperationError that says what was attempted."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise failed(attempt, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def describe(error: OSError) -> str:
    """Say what an OSError is: its name, which one can search for, and the system's text."""
    return f"{errno.errorcode.get(error.errno or 0, 'unknown error')} ({error.strerror})"


def failed(attempt: str, error: OSError, remedy: str = "") -> OperationError:
    """Give the error for an attempt that the kernel refused."""
    return OperationError(f"cannot {attempt}: {describe(error)}{'; ' if remedy else ''}{remedy}")


def _error(path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
