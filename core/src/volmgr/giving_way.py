"""Letting others run beside what takes a worker long: it may hang on a dead server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from volmgr.desk import Desk
    from volmgr.timers import Timer

T = TypeVar("T")

SLOW = 0.25
"""Seconds after which work gives way to others: what hangs on a dead server keeps only its own Pods waiting."""


class GivingWay:
    """Of one piece of work for a worker: when it turns slow, others get room until it is over."""

    def __init__(self, desk: Desk, then: Callable[[], None] | None = None, *, at_most: float = SLOW) -> None:
        """Call `then` when it is not over after SLOW or `at_most` seconds, be it that it waits for a worker."""
        self._desk = desk
        self._then = then
        self._begun: float | None = None
        self._is_slow = False
        self._timer: Timer = desk.timers.at(desk.outside.monotonic() + min(SLOW, at_most), self._give_way)

    def noting(self, chore: Callable[[], T]) -> Callable[[], T]:
        """Give the work as the worker is to run it: what only waits for a worker takes none from others."""

        def noted() -> T:
            self._begun = self._desk.outside.monotonic()
            return chore()

        return noted

    def _give_way(self) -> None:
        if self._then is not None:
            self._then()
        self._make_room()

    def _make_room(self) -> None:
        now = self._desk.outside.monotonic()
        due = (now if self._begun is None else self._begun) + SLOW
        if due > now:
            self._timer = self._desk.timers.at(due, self._make_room)
        else:
            self._is_slow = True
            self._desk.outside.slow()

    def over(self) -> None:
        """Say that it has ended; call it once."""
        self._timer.cancel()
        if self._is_slow:
            self._desk.outside.over()
