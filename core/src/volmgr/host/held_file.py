"""One thing held by an O_PATH descriptor: looked at and changed without a name, so that nothing can take its place.

Needs only permission to search; wakes no FIFO, device or automount, and follows no link. Called for each file of a
volume: each microsecond counts.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

from volmgr.host.syscalls import StatxBuffer

FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
"""How to open a handle."""
MOUNT_ROOT = 0x2000
"""Among the attributes of what something is mounted on."""
_AT_EMPTY_PATH = 0x1000
_MASK = 0x1F  # type, mode, links, owner, group
_FCHMODAT2 = ctypes.c_long(452)  # Linux 6.6

_libc = ctypes.CDLL(None, use_errno=True)
_statx = _libc.statx
_statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p)
_syscall = _libc.syscall  # without prototypes, which cost more here than they give


def looking() -> Callable[[int], StatxBuffer]:
    """Give a function that looks at a handle, into one buffer: its answer holds until the next. Raises OSError."""
    found = StatxBuffer()
    address = ctypes.addressof(found)

    def look(handle: int) -> StatxBuffer:
        if _statx(handle, b"", _AT_EMPTY_PATH, _MASK, address):
            raise _error()
        return found

    return look


def _set_mode(handle: int, mode: int) -> None:
    if _syscall(_FCHMODAT2, handle, b"", mode, _AT_EMPTY_PATH):
        raise _error()


def _set_mode_by_path(handle: int, mode: int) -> None:
    os.chmod(f"/proc/self/fd/{handle}", mode)


def _knows_fchmodat2() -> bool:
    """Ask the kernel with no descriptor; seccomp filters that are older than the call say EPERM."""
    _syscall(_FCHMODAT2, -1, b"", 0, _AT_EMPTY_PATH)
    return ctypes.get_errno() == errno.EBADF


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


set_mode: Callable[[int, int], None] = _set_mode if _knows_fchmodat2() else _set_mode_by_path
"""Change the mode of anything but a link. Raises OSError."""
