"""What is to be done later, one action a key."""

from __future__ import annotations

from collections.abc import Callable

from volmgr.timers import Timer, Timers


class Deadlines:
    """Timers by key; times are seconds on whatever clock the caller uses."""

    def __init__(self) -> None:
        self._timers = Timers()
        self._by_key: dict[str, Timer] = {}

    def set(self, key: str, at: float, action: Callable[[], None]) -> None:
        """Do `action` at `at`, instead of what was to be done for this key."""
        self.cancel(key)

        def run() -> None:
            del self._by_key[key]
            action()

        self._by_key[key] = self._timers.at(at, run)

    def cancel(self, key: str) -> None:
        """Do nothing for this key."""
        timer = self._by_key.pop(key, None)
        if timer is not None:
            timer.cancel()

    def __contains__(self, key: object) -> bool:
        return key in self._by_key

    def next_due(self) -> float | None:
        """Say when the next action is due."""
        return self._timers.next_due()

    def run_due(self, now: float) -> None:
        """Do what is due, earliest first."""
        self._timers.run_due(now)
