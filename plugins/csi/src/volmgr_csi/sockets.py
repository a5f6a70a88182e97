"""Unix sockets on the disk: which they are, whether somebody listens there, and how a long path is dialled."""

from __future__ import annotations

import os
import re
import socket
import stat
from dataclasses import dataclass

_LONGEST = 107
"""Bytes of a path that fit into sockaddr_un, without the NUL that ends it."""

_PLAIN = re.compile(r"/[\w./~+@:,=-]*", re.ASCII)
"""What gRPC takes as it is: it reads the path as that of a URI."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """One socket that was bound at a path: another one bound there differs. chmod and chown change nothing."""

    device: int
    inode: int
    made: int
    """When it was bound, in nanoseconds: nothing writes to the inode of a socket."""


def stamp_of(path: str) -> Stamp | None:
    """Give which socket lies at a path, following links; None where none does."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return Stamp(found.st_dev, found.st_ino, found.st_mtime_ns) if stat.S_ISSOCK(found.st_mode) else None


class Address:
    """What to dial for the socket at a path; raises OSError where a path of odd form leads nowhere."""

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self.path = path
        if len(os.fsencode(path)) > _LONGEST or _PLAIN.fullmatch(path) is None:
            self._descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            self.path = f"/proc/self/fd/{self._descriptor}"

    def close(self) -> None:
        """Give back what it holds."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def knock(path: str) -> None:
    """Connect to a socket and leave; raises OSError where nobody listens (ECONNREFUSED) or none is there."""
    address = Address(path)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as visitor:
            visitor.connect(address.path)
    except BlockingIOError:
        return  # its backlog is full: it is slow, and there
    finally:
        address.close()


def is_answering(path: str) -> bool:
    """Say whether somebody listens at a path."""
    try:
        knock(path)
    except OSError:
        return False
    return True
