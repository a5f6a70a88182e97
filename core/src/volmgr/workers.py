"""Daemon threads that run what may block, and hand its result to the reconciler."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger("volmgr.workers")

ROOM = 2
"""Threads that are allowed for one whose chore is slow: with one, many that hang would be passed one by one."""


class Workers(Generic[T]):
    """Runs chores on threads that are started when needed; daemon threads: a stuck one must not delay the exit."""

    def __init__(self, deliver: Callable[[T], None], limit: int) -> None:
        """Hand each result to `deliver`, on the worker's thread; at most `limit` threads, and ROOM a slow one."""
        self._deliver = deliver
        self._limit = limit
        self._queue: SimpleQueue[Callable[[], T] | None] = SimpleQueue()
        """None has a thread look whether it is one too many."""
        self._lock = threading.Lock()
        self._idle = 0
        self._count = 0
        self._queued = 0

    def submit(self, chore: Callable[[], T]) -> None:
        """Run a chore soon."""
        with self._lock:
            self._queued += 1
            start = self._queued > self._idle and self._count < self._limit
            if start:
                self._count += 1
        self._queue.put(chore)
        if start:
            self._start()

    def make_room(self) -> None:
        """Allow ROOM more threads, since the chore of one is slow."""
        with self._lock:
            self._limit += ROOM
            starts = max(0, min(self._queued - self._idle, self._limit - self._count, ROOM))
            self._count += starts
        for _ in range(starts):
            self._start()

    def take_room_back(self) -> None:
        """Take that allowance back: the slow chore has ended, and so do threads that are too many, idle ones too."""
        with self._lock:
            self._limit -= ROOM
            surplus = max(0, min(self._idle - self._queued, self._count - self._limit))
        for _ in range(surplus):
            self._queue.put(None)

    def _start(self) -> None:
        try:
            threading.Thread(target=self._work, name="volmgr-worker", daemon=True).start()
        except RuntimeError as error:  # no thread is to be had; those that there are go on, and it is tried again
            log.warning("%s; raise TasksMax or the limit of processes", error)
            with self._lock:
                self._count -= 1

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._count > self._limit:
                    self._count -= 1
                    return
                self._idle += 1
            chore = self._queue.get()
            with self._lock:
                self._idle -= 1
                self._queued -= chore is not None
            if chore is None:
                continue
            try:
                result = chore()
            except BaseException:  # a chore classifies its own errors: this one is our bug
                log.exception("a chore failed unexpectedly")
                continue
            self._deliver(result)
