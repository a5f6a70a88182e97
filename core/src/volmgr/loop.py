"""The event loop: one selector, one eventfd to wake it, no ticks."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

    from volmgr.timers import Timers

_SIGNALS = 64  # that may have come at once


class Loop:
    """Waits for files, timers and wake-ups, and runs a step after each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without files; `clock` is the timers' clock in seconds."""
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._pending = False
        self._running = True

    def watch(self, file: FileDescriptorLike, ready: Callable[[], object]) -> None:
        """Call `ready` whenever a file is readable."""
        self._selector.register(file, selectors.EVENT_READ, ready)

    def forget(self, file: FileDescriptorLike) -> None:
        """Stop watching a file."""
        self._selector.unregister(file)

    def wake(self) -> None:
        """Let the loop take a step; from any thread. Once is enough until it has woken: each is a system call."""
        if not self._pending:
            self._pending = True
            os.eventfd_write(self._wake, 1)

    def heed_signals(self) -> None:
        """Wake for each signal that has a handler: handlers run on the main thread, which the kernel may not interrupt.

        It takes any thread that does not block the signal; and a signal may come right before the main thread sleeps.
        """
        heard, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        self.watch(heard, lambda: os.read(heard, _SIGNALS))

    def stop(self) -> None:
        """Let run() return after the current step."""
        self._running = False
        self.wake()

    def _woken(self) -> None:
        os.eventfd_read(self._wake)
        self._pending = False  # before the step: whatever comes during it wakes again

    def run(self, step: Callable[[], None], timers: Timers) -> None:
        """Take steps until stopped."""
        while self._running:
            step()
            due = timers.next_due()
            timeout = None if due is None else max(0.0, due - self._clock())
            for key, _events in self._selector.select(timeout):
                key.data()

    def close(self) -> None:
        """Give the descriptors back."""
        self._selector.close()
        os.close(self._wake)
