"""How long to wait before the next try. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable


def half_to_whole() -> float:
    """Spread what many nodes would do at the same time: a factor between a half and 1."""
    return random.uniform(0.5, 1.0)  # noqa: S311 - spreads requests, guards nothing


def longer(pause: float, first: float, longest: float) -> float:
    """Give the pause after one of `pause` seconds that did not help, 0 being none: twice that, within the bounds."""
    return min(max(2 * pause, first), longest)


class Pace:
    """Pauses that double from the first to the longest, in seconds, each shortened by `jitter`."""

    def __init__(self, first: float, longest: float, jitter: Callable[[], float] = half_to_whole) -> None:
        self._first = first
        self._longest = longest
        self._jitter = jitter
        self._next = first

    def pause(self) -> float:
        """Give the pause after one more failure."""
        pause = min(self._next, self._longest)
        self._next = longer(self._next, self._first, self._longest)
        return pause * self._jitter()

    def reset(self) -> None:
        """Begin anew: something worked."""
        self._next = self._first
