"""What is to be done later: one action a key, on a heap, so that nothing needs a timer."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator


class Deadlines:
    """Actions by key; times are seconds on whatever clock the caller uses."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, str]] = []
        self._actions: dict[str, tuple[int, Callable[[], None]]] = {}
        self._numbers = itertools.count()

    def set(self, key: str, at: float, action: Callable[[], None]) -> None:
        """Do `action` at `at`, instead of what was to be done for this key."""
        number = next(self._numbers)
        self._actions[key] = (number, action)
        heapq.heappush(self._heap, (at, number, key))

    def cancel(self, key: str) -> None:
        """Do nothing for this key."""
        self._actions.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._actions

    def next(self) -> float | None:
        """Say when the next action is due."""
        while self._heap and self._actions.get(self._heap[0][2], (-1,))[0] != self._heap[0][1]:
            heapq.heappop(self._heap)  # cancelled or replaced
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[Callable[[], None]]:
        """Take out the actions that are due, earliest first."""
        while (at := self.next()) is not None and at <= now:
            key = heapq.heappop(self._heap)[2]
            yield self._actions.pop(key)[1]
