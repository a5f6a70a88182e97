"""Waiting for devices: on events of the test, and on the kernel's socket."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from volmgr.errors import OperationError
from volmgr.host import uevents

OF_A_DISK = b"add@/devices/x/block/sdb\0ACTION=add\0SUBSYSTEM=block\0DEVNAME=sdb\0"
OF_UDEV = b"libudev\0\xfe\xed\xca\xfe\0\0\0\x28ACTION=add\0SUBSYSTEM=block\0DEVLINKS=/dev/disk/by-id/x\0"
OF_A_NETWORK_CARD = b"add@/devices/virtual/net/veth0\0ACTION=add\0SUBSYSTEM=net\0"
LONG = 3600.0


class Kernel:
    """Its socket, and what was looked at."""

    def __init__(self) -> None:
        self.theirs, self.ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.looks = 0
        self.then: list[Callable[[], None]] = []
        """What happens at each look, before it finds anything."""
        self.found_at = 1

    def open(self) -> socket.socket:
        return self.ours

    def look(self) -> str | None:
        self.looks += 1
        if self.then:
            self.then.pop(0)()
        return "sdb" if self.looks >= self.found_at else None

    def says(self, *events: bytes) -> Callable[[], None]:
        def say() -> None:
            for event in events:
                self.theirs.send(event)

        return say


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    with kernel.theirs, kernel.ours:
        yield kernel


def test_what_is_there_already_is_given_at_once(kernel: Kernel) -> None:
    assert uevents.awaited(kernel.look, deadline=LONG, events=kernel.open) == "sdb"
    assert kernel.looks == 1


def test_what_comes_while_it_is_looked_for_is_not_missed(kernel: Kernel) -> None:
    kernel.found_at, kernel.then = 2, [kernel.says(OF_A_DISK)]
    assert uevents.awaited(kernel.look, deadline=LONG, events=kernel.open) == "sdb"
    assert kernel.looks == 2


def test_what_comes_later_ends_the_waiting(kernel: Kernel) -> None:
    kernel.found_at = 2

    def meanwhile() -> bool:
        kernel.says(OF_UDEV)()
        return False

    assert uevents.awaited(kernel.look, deadline=LONG, cancelled=meanwhile, events=kernel.open) == "sdb"


def test_many_events_are_one_look(kernel: Kernel) -> None:
    kernel.found_at, kernel.then = 2, [kernel.says(*[OF_A_DISK] * 100)]
    uevents.awaited(kernel.look, deadline=LONG, events=kernel.open)
    assert kernel.looks == 2


def test_events_of_other_devices_are_no_reason_to_look(kernel: Kernel) -> None:
    kernel.found_at, kernel.then = 3, [kernel.says(OF_A_NETWORK_CARD)]
    assert uevents.awaited(kernel.look, deadline=0.05, events=kernel.open) is None
    assert kernel.looks == 1


def test_what_does_not_come_is_nothing_at_the_deadline(kernel: Kernel) -> None:
    kernel.found_at = 2
    assert uevents.awaited(kernel.look, deadline=0.0, events=kernel.open) is None
    assert kernel.looks == 1


def test_whoever_cancels_is_not_kept_waiting(kernel: Kernel) -> None:
    kernel.found_at, asked = 2, iter([False, False, True])
    assert uevents.awaited(kernel.look, deadline=LONG, cancelled=lambda: next(asked), events=kernel.open) is None


class Overrun(socket.socket):
    """A socket that lost events, since too many came at once."""

    lost = True

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if self.lost:
            self.lost = False
            raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))
        return super().recv(size, flags)


def test_events_that_were_lost_may_have_been_of_the_disk(kernel: Kernel) -> None:
    kernel.found_at, kernel.then = 2, [kernel.says(OF_A_NETWORK_CARD)]
    with Overrun(fileno=kernel.ours.detach()) as overrun:
        assert uevents.awaited(kernel.look, deadline=LONG, events=lambda: overrun) == "sdb"


def test_an_error_of_the_look_is_told_and_nothing_is_left_open(kernel: Kernel) -> None:
    def look() -> None:
        raise OperationError("no")

    with pytest.raises(OperationError, match="no"):
        uevents.awaited(look, deadline=LONG, events=kernel.open)
    assert kernel.ours.fileno() == -1


def test_the_kernel_is_listened_to_by_anybody() -> None:
    assert uevents.awaited(lambda: None, deadline=0.0) is None
