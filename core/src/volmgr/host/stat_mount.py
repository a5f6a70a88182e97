"""One mount asked for by its unique id: statmount(2), Linux 6.8; 10 microseconds whatever the table's length.

Source: `include/uapi/linux/mount.h`; options are spelt as `fs/proc_namespace.c` does.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from pathlib import Path

from volmgr.host.interface import MountEntry
from volmgr.host.mount_table import DELETED, unescape
from volmgr.host.syscalls import Statx, statx, system_call

_SYS_STATMOUNT = 457
_BASIC = 0x1 | 0x2  # of file system and mount
_FS_TYPE = 0x20
_FS_SUBTYPE = 0x100
_NEEDED = _BASIC | 0x8 | 0x10 | _FS_TYPE  # and root, target, type
_OPTIONS = 0x80  # since 6.11
_SOURCE = 0x200  # since 6.13
_BUFFER = 16384  # the longest path and options; for more the table answers

_ATTRIBUTES = ((2, "nosuid"), (4, "nodev"), (8, "noexec"), (0x10, "noatime"), (0x80, "nodiratime"))
_STRICT_OR_NO_ATIME = 0x30
_NOSYMFOLLOW = 0x200000
_SB_FLAGS = ((16, "sync"), (128, "dirsync"), (64, "mand"), (1 << 25, "lazytime"))
_SHARED, _UNBINDABLE = 1 << 20, 1 << 17


class _Request(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("spare", ctypes.c_uint32),
        ("id", ctypes.c_uint64),
        ("mask", ctypes.c_uint64),
    )


class _Answer(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("mnt_opts", ctypes.c_uint32),
        ("mask", ctypes.c_uint64),
        ("sb_dev_major", ctypes.c_uint32),
        ("sb_dev_minor", ctypes.c_uint32),
        ("sb_magic", ctypes.c_uint64),
        ("sb_flags", ctypes.c_uint32),
        ("fs_type", ctypes.c_uint32),
        ("mnt_id", ctypes.c_uint64),
        ("mnt_parent_id", ctypes.c_uint64),
        ("mnt_id_old", ctypes.c_uint32),
        ("mnt_parent_id_old", ctypes.c_uint32),
        ("mnt_attr", ctypes.c_uint64),
        ("mnt_propagation", ctypes.c_uint64),
        ("mnt_peer_group", ctypes.c_uint64),
        ("mnt_master", ctypes.c_uint64),
        ("propagate_from", ctypes.c_uint64),
        ("mnt_root", ctypes.c_uint32),
        ("mnt_point", ctypes.c_uint32),
        ("mnt_ns_id", ctypes.c_uint64),
        ("fs_subtype", ctypes.c_uint32),
        ("sb_source", ctypes.c_uint32),
        ("rest", ctypes.c_uint8 * 384),
        ("strings", ctypes.c_char * _BUFFER),
    )


def type_of(mount: Statx) -> str | None:
    """Name the type of a mount, without asking its server; None when the kernel is too old to say, or it has gone."""
    return _type_by_id(mount.mount)


@functools.lru_cache(maxsize=4096)
def _type_by_id(identity: int) -> str | None:
    # What has a unique id keeps its type, and the id is never given again: asked on each look at a path.
    answer = _ask(identity, _FS_TYPE)
    return None if answer is None else _string(answer, answer.fs_type).decode()


def options_of(mount: Statx) -> tuple[str, ...] | None:
    """Give the options of a mount, `ro` too when its file system is; None when the kernel is too old to say."""
    answer = _ask(mount.mount, _BASIC)
    if answer is None:
        return None
    return (*_options(answer.mnt_attr), *(("ro",) if answer.sb_flags & 1 else ()))


def entry_of(mount: Statx) -> MountEntry | None:
    """Give a mount as mountinfo would; None when the kernel is too old to say all of it."""
    answer = _ask(mount.mount, _NEEDED | _FS_SUBTYPE | _OPTIONS | _SOURCE)
    if answer is None or not _knows_all(answer.mask):
        return None
    root = os.fsdecode(_string(answer, answer.mnt_root))  # unlike options, paths come without escapes
    fstype = _string(answer, answer.fs_type).decode()
    if answer.mask & _FS_SUBTYPE:
        fstype = f"{fstype}.{_string(answer, answer.fs_subtype).decode()}"
    return MountEntry(
        mount_id=answer.mnt_id_old,
        parent_id=answer.mnt_parent_id_old,
        device=f"{answer.sb_dev_major}:{answer.sb_dev_minor}",
        root=root.removesuffix(DELETED),
        target=Path(os.fsdecode(_string(answer, answer.mnt_point))),
        options=_options(answer.mnt_attr),
        fstype=fstype,
        source=os.fsdecode(_string(answer, answer.sb_source)) if answer.mask & _SOURCE else "none",
        super_options=_super_options(answer),
        propagation=_propagation(answer),
        deleted=root.endswith(DELETED),
    )


def _knows_all(mask: int) -> bool:
    # A mount without options or source has not those bits, as on a kernel that cannot tell them.
    return mask & _NEEDED == _NEEDED and _kernel_tells_source()


@functools.cache
def _kernel_tells_source() -> bool:
    answer = _ask(statx("/").mount, _SOURCE)
    return answer is not None and bool(answer.mask & _SOURCE)


def _ask(identity: int, mask: int) -> _Answer | None:
    request = _Request(size=ctypes.sizeof(_Request), id=identity, mask=mask)
    answer = _Answer()
    size = ctypes.c_size_t(ctypes.sizeof(answer))
    try:
        system_call(_SYS_STATMOUNT, ctypes.byref(request), ctypes.byref(answer), size, ctypes.c_uint(0))
    except OSError as error:
        if error.errno in {errno.ENOSYS, errno.EPERM, errno.ENOENT, errno.EOVERFLOW, errno.EINVAL}:
            return None
        raise
    return answer


def _string(answer: _Answer, offset: int) -> bytes:
    return ctypes.string_at(ctypes.addressof(answer) + _Answer.strings.offset + offset)


def _options(attributes: int) -> tuple[str, ...]:
    words = ["ro" if attributes & 1 else "rw", *(word for bit, word in _ATTRIBUTES if attributes & bit)]
    if not attributes & _STRICT_OR_NO_ATIME:
        words.append("relatime")
    if attributes & _NOSYMFOLLOW:
        words.append("nosymfollow")
    return tuple(words)


def _super_options(answer: _Answer) -> tuple[str, ...]:
    words = ["ro" if answer.sb_flags & 1 else "rw", *(word for bit, word in _SB_FLAGS if answer.sb_flags & bit)]
    own = _string(answer, answer.mnt_opts) if answer.mask & _OPTIONS else b""
    return (*words, *(os.fsdecode(unescape(word)) for word in own.split(b",") if word))


def _propagation(answer: _Answer) -> tuple[str, ...]:
    words: list[str] = []
    if answer.mnt_propagation & _SHARED:
        words.append(f"shared:{answer.mnt_peer_group}")
    if answer.mnt_master:
        words.append(f"master:{answer.mnt_master}")
    if answer.mnt_propagation & _UNBINDABLE:
        words.append("unbindable")
    return tuple(words)
