"""What appears while operations run: one of them may be about to say that it waits for that. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volmgr.operations import Operation


class Appearances:
    """Counts them, so that what one costs depends neither on how many operations run nor on how many things appear."""

    def __init__(self) -> None:
        self._count = 0
        self._last: OrderedDict[str, int] = OrderedDict()
        """How many there had been when something appeared last; the latest is the last."""
        self._begun: OrderedDict[Operation, int] = OrderedDict()
        """How many there had been when each operation began; the oldest is the first."""

    def begin(self, operation: Operation) -> None:
        """Take note that an operation runs."""
        self._begun[operation] = self._count

    def note(self, what: str) -> None:
        """Take note that something appeared."""
        if self._begun:
            self._count += 1
            self._last[what] = self._count
            self._last.move_to_end(what)

    def end(self, operation: Operation, what: str) -> bool:
        """Take note that an operation has ended; say whether this appeared while it ran."""
        begun = self._begun.pop(operation, self._count)
        appeared = self._last.get(what, 0) > begun
        oldest = next(iter(self._begun.values()), self._count)
        while self._last and next(iter(self._last.values())) <= oldest:
            self._last.popitem(last=False)
        return appeared
