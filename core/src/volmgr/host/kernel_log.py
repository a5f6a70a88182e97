"""What the kernel says in its log of servers that do not answer: the only word on volumes that are mounted already.

`/dev/kmsg` wakes a selector, so nobody asks a server, and nothing is polled. Sources: `net/sunrpc/clnt.c` of Linux
(`rpc_check_timeout`, `call_decode`), `Documentation/ABI/testing/dev-kmsg`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

_DEVICE = "/dev/kmsg"
_RECORD = 8192  # bytes; the kernel's CONSOLE_EXT_LOG_MAX
_MOST = 256  # records that are read at once, so that a flood of them takes nobody's turn
_FACILITIES = 8  # what a record says of its origin comes in steps of so many; below is the kernel itself
_NFS = re.compile(r"nfs: server (?P<name>\S+) (?:(?P<lost>not responding)\b|OK$)")


@dataclass(frozen=True, slots=True)
class Heard:
    """A server, by its name as it was mounted by, and whether it is silent from now on."""

    server: str
    silent: bool


def heard_in(record: bytes) -> Heard | None:
    """Say of which server a record of the log speaks; None: of none, or somebody other than the kernel wrote it.

    Pure. A record is `priority,number,time,flags;text`, and lines with more.
    """
    head, separator, rest = record.partition(b";")
    priority = head.split(b",")[0]
    if not separator or not priority.isdigit() or int(priority) >= _FACILITIES:
        return None
    found = _NFS.match(rest.partition(b"\n")[0].decode("utf-8", "replace"))
    return None if found is None else Heard(found["name"], silent=found["lost"] is not None)


class KernelLog:
    """The log from now on: readable when something was written to it."""

    def __init__(self, device: str = _DEVICE) -> None:
        """Raise OSError where it may not be read: in a container, or without CAP_SYSLOG."""
        self._log = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._log, 0, os.SEEK_END)

    def fileno(self) -> int:
        """Give the descriptor to select on."""
        return self._log

    def read(self) -> Iterator[Heard]:
        """Give what was said of servers since the last time, or part of it: it stays readable then."""
        for _ in range(_MOST):
            try:
                record = os.read(self._log, _RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:  # records were overwritten before they were read; the next one is there
                continue
            heard = heard_in(record)
            if heard is not None:
                yield heard

    def close(self) -> None:
        """Close it."""
        os.close(self._log)
