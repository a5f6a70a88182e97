"""Waiting for devices by what the kernel and udev say of them: NETLINK_KOBJECT_UEVENT, netlink(7).

Both groups are heard: a disk is there when the kernel speaks, its links below `/dev/disk` when udev has done its part.
"""

from __future__ import annotations

import errno
import re
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from volmgr.host import syscalls
from volmgr.host.unasked import never

T = TypeVar("T")

_NETLINK_KOBJECT_UEVENT = 15
_KERNEL, _UDEV = 1, 2  # groups, as bits
_OF_DISKS = re.compile(rb"(?:^|\0)SUBSYSTEM=(?:block|scsi|iscsi|fc)")
_LONGEST = 8192  # bytes of an event; the kernel's have 2,048, and udev adds its own
_CANCEL_TICK = 0.2  # seconds between looks at whether it is cancelled; only where somebody can cancel
_LONGEST_POLL = 86400.0  # poll(2) takes milliseconds in an int


def awaited(
    look: Callable[[], T | None],
    *,
    deadline: float,
    cancelled: Callable[[], bool] = never,
    events: Callable[[], socket.socket] | None = None,
) -> T | None:
    """Give what `look` finds, at once or after an event; None when it is cancelled or `deadline` seconds are over.

    `events` opens what is listened to, by default the kernel.
    """
    until = time.monotonic() + deadline
    with (events or _listen)() as heard:  # before the first look: no event between the two is lost
        while True:
            found = look()
            if found is not None or not _event(heard, until, cancelled):
                return found


def _listen() -> socket.socket:
    heard = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_KOBJECT_UEVENT)
    try:
        heard.bind((0, _KERNEL | _UDEV))
    except OSError as error:
        heard.close()
        raise syscalls.failed("listen to the kernel's events of devices", error) from error
    return heard


def _event(heard: socket.socket, until: float, cancelled: Callable[[], bool]) -> bool:
    """Wait for an event of a disk, and take all that came with it; False at the deadline and when cancelled."""
    waiting = select.poll()
    waiting.register(heard, select.POLLIN)
    longest = _LONGEST_POLL if cancelled is never else _CANCEL_TICK
    while (left := until - time.monotonic()) > 0 and not cancelled():
        if waiting.poll(1000 * min(left, longest)) and _drained(heard):
            return True
    return False


def _drained(heard: socket.socket) -> bool:
    """Take all events that there are; says whether one was of a disk, or may have been."""
    relevant = False
    with suppress(BlockingIOError):
        while True:
            try:
                relevant = bool(_OF_DISKS.search(heard.recv(_LONGEST, socket.MSG_DONTWAIT))) or relevant
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                relevant = True  # some were lost
    return relevant
