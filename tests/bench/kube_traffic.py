"""What a daemon asks of its API server: requests by the server's audit log, bytes as the kernel counts them."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kube.audit import Request

_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_COUNTS = struct.Struct("=QQ")
_COUNTS_AT = 120
"""Where tcp_info of linux/tcp.h has tcpi_bytes_acked, and tcpi_bytes_received behind it."""
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Connections:
    """The TCP connections that a process has open, and the bytes that went over them, TLS included."""

    count: int
    sent: int
    received: int

    @classmethod
    def of(cls, pid: int) -> Connections:
        """Look at them now; those that were closed before are not counted."""
        found = list(_counts(pid))
        return cls(len(found), sum(sent for sent, _ in found), sum(received for _, received in found))


def by_kind(requests: Sequence[Request]) -> Counter[str]:
    """Count requests by verb, resource and, where it was none of success, the answer."""
    return Counter(_kind(request) for request in requests)


def words(counts: Counter[str]) -> str:
    """Say such counts, the most frequent first."""
    return ", ".join(f"{kind} {count}" for kind, count in counts.most_common()) or "none"


def _kind(request: Request) -> str:
    subresource = f"/{request.subresource}" if request.subresource else ""
    failed = f" ({request.code})" if request.code >= 400 else ""
    return f"{request.verb} {request.resource}{subresource}{failed}"


def _counts(pid: int) -> Iterator[tuple[int, int]]:
    process = _descriptor(_PIDFD_OPEN, pid, 0)
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if link.is_symlink() and os.readlink(link).startswith("socket:"):
                with socket.socket(fileno=_descriptor(_PIDFD_GETFD, process, int(link.name), 0)) as copy:
                    if copy.family in {socket.AF_INET, socket.AF_INET6}:
                        information = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                        yield _COUNTS.unpack_from(information, _COUNTS_AT)
    finally:
        os.close(process)


def _descriptor(number: int, *arguments: int) -> int:
    descriptor: int = _libc.syscall(number, *arguments)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), f"system call {number} for a process's descriptors")
    return descriptor
