"""Daemon threads that run what may block, and hand its result to the reconciler."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger("volmgr.workers")


class Workers(Generic[T]):
    """Runs chores on threads that are started when needed; daemon threads: a stuck one must not delay the exit."""

    def __init__(self, deliver: Callable[[T], None], limit: int) -> None:
        """Hand each result to `deliver`, on the worker's thread; at most `limit` threads that are not stuck."""
        self._deliver = deliver
        self._limit = limit
        self._queue: SimpleQueue[Callable[[], T]] = SimpleQueue()
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

    def replace_stuck(self) -> None:
        """Allow one more thread, since one is stuck."""
        with self._lock:
            self._limit += 1
            start = self._queued > self._idle
            if start:
                self._count += 1
        if start:
            self._start()

    def retire_one(self) -> None:
        """Take that allowance back: the stuck thread has ended its chore."""
        with self._lock:
            self._limit -= 1

    def _start(self) -> None:
        threading.Thread(target=self._work, name="volmgr-worker", daemon=True).start()

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
                self._queued -= 1
            try:
                result = chore()
            except Exception:  # a chore classifies its own errors: this one is our bug
                log.exception("a chore failed unexpectedly")
                continue
            self._deliver(result)
