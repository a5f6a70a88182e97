"""A heap of deadlines: what is to happen later, without a thread or a tick."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(order=True, slots=True)
class Timer:
    """Something due at a time of the reconciler's clock; `cancel()` takes it back."""

    when: float
    number: int
    action: Callable[[], None] | None = field(compare=False)

    def cancel(self) -> None:
        """Let the timer pass without effect."""
        self.action = None


class Timers:
    """Timers by due time."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._numbers = itertools.count()

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        """Run `action` at a time."""
        timer = Timer(when, next(self._numbers), action)
        heapq.heappush(self._heap, timer)
        return timer

    def next_due(self) -> float | None:
        """Give the time of the next timer."""
        while self._heap and self._heap[0].action is None:
            heapq.heappop(self._heap)
        return self._heap[0].when if self._heap else None

    def run_due(self, now: float) -> None:
        """Run what is due."""
        while (when := self.next_due()) is not None and when <= now:
            action = heapq.heappop(self._heap).action
            if action is not None:
                action()
