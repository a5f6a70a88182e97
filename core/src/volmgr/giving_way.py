"""Letting others run beside what takes a worker long: it may hang on a dead server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volmgr.desk import Desk
    from volmgr.timers import Timer

SLOW = 0.25
"""Seconds after which work gives way to others: what hangs on a dead server keeps only its own Pods waiting."""


class GivingWay:
    """Of one piece of work on a worker, from its start: when it turns slow, others get room until it is over."""

    def __init__(self, desk: Desk, then: Callable[[], None] | None = None, *, at_most: float = SLOW) -> None:
        """Call `then` when it turns slow, after SLOW or `at_most` seconds."""
        self._desk = desk
        self._then = then
        self._is_slow = False
        self._timer: Timer = desk.timers.at(desk.outside.monotonic() + min(SLOW, at_most), self._give_way)

    def _give_way(self) -> None:
        self._is_slow = True
        self._desk.outside.slow()
        if self._then is not None:
            self._then()

    def over(self) -> None:
        """Say that it has ended; call it once."""
        self._timer.cancel()
        if self._is_slow:
            self._desk.outside.over()
