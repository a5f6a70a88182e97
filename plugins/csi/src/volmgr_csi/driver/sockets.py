"""Unix sockets on the disk: which they are, whether somebody listens there, and how a long path is dialled."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import time
from dataclasses import dataclass

_LONGEST = 107
"""Bytes of a path that fit into sockaddr_un, without the NUL that ends it."""

_PLAIN = re.compile(r"/[\w./~+@:,=-]*", re.ASCII)
"""What gRPC takes as it is: it reads the path as that of a URI."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
"""The first frame of either side of HTTP/2, here without any settings: RFC 9113, section 3.4."""
_KIND = 3  # where the header of a frame has its type
_SHORTEST = 0.001  # seconds: 0 would be not to wait at all


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


def visit(path: str) -> socket.socket:
    """Connect to a socket; raises OSError where nobody listens (ECONNREFUSED), or none is there."""
    address = Address(path)
    visitor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        visitor.connect(address.path)
    except OSError:
        visitor.close()
        raise
    finally:
        address.close()
    return visitor


def greet(visitor: socket.socket, timeout: float) -> None:
    """Wait until who listens speaks HTTP/2, as all gRPC does; raises OSError where that does not come in time."""
    end = time.monotonic() + timeout
    visitor.settimeout(timeout)
    visitor.sendall(_PREFACE + _SETTINGS)
    answer = b""
    while len(answer) < len(_SETTINGS):
        visitor.settimeout(max(end - time.monotonic(), _SHORTEST))
        more = visitor.recv(len(_SETTINGS) - len(answer))
        if not more:
            raise ConnectionAbortedError(errno.ECONNABORTED, "it hung up before it spoke gRPC")
        answer += more
    if answer[_KIND] != _SETTINGS[_KIND]:
        raise OSError(errno.EPROTO, "what it speaks is not gRPC")


def is_answering(path: str) -> bool:
    """Say whether somebody listens at a path."""
    try:
        visit(path).close()
    except BlockingIOError:
        return True  # its backlog is full: it is slow, and there
    except OSError:
        return False
    return True
