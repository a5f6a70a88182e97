"""Reading one manifest file, or saying why it cannot be relied on now. Never blocks on a FIFO or a writer."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
from dataclasses import dataclass, field
from enum import Enum

from volmgr.manifest import LIMIT


class Seen(Enum):
    """What a look at a file's name found."""

    STABLE = "stable"
    SAME = "same"
    """Its identity is the known one; it was not read."""
    MISSING = "missing"
    FOREIGN = "foreign"
    """A directory, FIFO, socket or device."""
    UNSTABLE = "unstable"
    """Somebody writes it."""
    EMPTY = "empty"
    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Reading:
    """What was found; `identity` changes whenever the content may have, `stamp` even if somebody sets times back."""

    seen: Seen
    identity: str = ""
    stamp: str = ""
    data: bytes = field(default=b"", repr=False)
    size: int = 0
    problem: str = ""


def read_manifest(path: str, known: str = "", *, stamp: str = "", settled: bool = False) -> Reading:
    """Read a file unless its identity is `known`, or its stamp the given one.

    Stable is what has the same identity before and after, is not empty and, unless `settled` (it was just closed or
    renamed), is open for writing nowhere.
    """
    try:
        before = os.stat(path)
        if not stat.S_ISREG(before.st_mode):
            return Reading(Seen.FOREIGN)
        identity = identity_of(before)
        if identity == known or stamp_of(before) == stamp:
            return Reading(Seen.SAME, identity)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        return _not_opened(path, error)
    try:
        return _read(path, descriptor, settled=settled)
    except OSError as error:
        return Reading(Seen.UNREADABLE, problem=error.strerror or str(error))
    finally:
        os.close(descriptor)


def identity_of(found: os.stat_result) -> str:
    """Give a file's identity: device, inode, time of change and size."""
    return f"{found.st_dev}:{found.st_ino}:{found.st_mtime_ns}:{found.st_size}"


def stamp_of(found: os.stat_result) -> str:
    """Give a file's identity with the time at which anything of it, or its name, was changed: nobody can set that."""
    return f"{identity_of(found)}:{found.st_ctime_ns}"


def _not_opened(path: str, error: OSError) -> Reading:
    if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
        return Reading(Seen.UNREADABLE, problem=error.strerror or str(error))
    try:
        target = os.readlink(path)
    except OSError:
        return Reading(Seen.MISSING)
    return Reading(Seen.UNREADABLE, problem=f"it is a symbolic link to {target}, which is missing")


def _read(path: str, descriptor: int, *, settled: bool) -> Reading:
    before = os.fstat(descriptor)
    identity = identity_of(before)
    if not stat.S_ISREG(before.st_mode):
        return Reading(Seen.FOREIGN)
    if before.st_size > LIMIT:
        return Reading(Seen.TOO_LARGE, identity, size=before.st_size)
    if not settled and _is_being_written(descriptor):
        return Reading(Seen.UNSTABLE)
    data = bytearray()
    while len(data) <= before.st_size and (chunk := os.read(descriptor, before.st_size + 1 - len(data))):
        data += chunk
    if identity_of(os.fstat(descriptor)) != identity or len(data) != before.st_size:
        return Reading(Seen.UNSTABLE)
    if not data:
        return Reading(Seen.EMPTY, identity)
    try:
        if identity_of(os.stat(path)) != identity:
            return Reading(Seen.UNSTABLE)  # another file has its name now
    except FileNotFoundError:
        return Reading(Seen.UNSTABLE)
    return Reading(Seen.STABLE, identity, stamp_of(before), bytes(data))


def _is_being_written(descriptor: int) -> bool:
    """Ask the kernel whether any process has the file open for writing: a read lease is refused then.

    A writer that opens the file while we hold the lease is blocked for the microsecond until it is given back; it
    breaks the lease by a signal, SIGURG instead of SIGIO because its default is to be ignored.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN  # else a file system without leases, or somebody else's file: not known
    return False
