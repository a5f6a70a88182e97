"""The event loop of the registrar's thread: tasks, one descriptor and the time, and short-lived threads beside it."""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from volmgr.plugin import OperationError

NEVER = float("inf")
"""When nothing is due; times are monotonic seconds."""

_LONGEST = 86400.0  # seconds to sleep at once: poll takes no more than 24 days

Task = Callable[[], None]
"""Something that the thread is to do."""


class EventLoop:
    """Tasks for one thread, from any; it sleeps in `wait`, and nothing wakes it for nothing."""

    def __init__(self) -> None:
        self._tasks: deque[Task] = deque()
        self._lock = threading.Lock()
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._errands: set[threading.Thread] = set()
        self.wakes_at = NEVER
        """When the thread wakes by itself."""

    def wake(self) -> None:
        """Wake the thread; nobody, once that has ended."""
        with self._lock:
            if self._wakeup >= 0:
                os.eventfd_write(self._wakeup, 1)

    def post(self, task: Task) -> None:
        """Have something done on the thread."""
        self._tasks.append(task)
        self.wake()

    def run_tasks(self) -> None:
        """Do what was posted; on the thread."""
        while self._tasks:
            self._tasks.popleft()()

    def wait(self, until: float, descriptor: int) -> None:
        """Sleep until woken, a descriptor is readable (-1: none), or a time has come."""
        self.wakes_at = until
        poll = select.poll()
        for each in (self._wakeup, descriptor):
            if each >= 0:
                poll.register(each, select.POLLIN)
        left = 0.0 if self._tasks else until - time.monotonic()
        poll.poll(None if left == NEVER else min(max(0.0, left), _LONGEST) * 1000 + 0.5)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)

    def send(self, name: str, errand: Callable[[], Task]) -> None:
        """Have something done that may take long, on a thread of its own; what it gives is done on this one.

        Raises OperationError where no thread is to be had.
        """

        def run() -> None:
            task = errand()
            self.post(lambda: self._returned(thread, task))

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._errands.add(thread)
        try:
            thread.start()
        except RuntimeError as error:
            self._errands.discard(thread)
            raise OperationError(f"{error}; raise TasksMax or the limit of processes") from error

    def close(self, patience: float) -> None:
        """Wait so many seconds for all threads that were sent, and wake nobody any more; after the thread ended."""
        end = time.monotonic() + patience
        for thread in tuple(self._errands):
            thread.join(max(0.0, end - time.monotonic()))
        with self._lock:
            os.close(self._wakeup)
            self._wakeup = -1

    def _returned(self, thread: threading.Thread, task: Task) -> None:
        self._errands.discard(thread)
        task()
