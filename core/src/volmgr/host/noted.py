"""Helpers that must not be forgotten: whoever runs an operation is told of each before it is let run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StartedHelper:
    """A helper that does nothing yet; `until` is its deadline in seconds of the monotonic clock."""

    name: str
    pid: int
    until: float


Note = Callable[[StartedHelper], Callable[[], None]]
"""Told of a helper before it is let run; gives what is called when it has ended."""

current: ContextVar[Note | None] = ContextVar("current", default=None)
"""Who is told of what this thread runs; None: nobody has to know."""


@contextmanager
def noted(note: Note) -> Generator[None]:
    """Have every helper noted that this thread runs within and that changes something: it may outlive the daemon."""
    before = current.set(note)
    try:
        yield
    finally:
        current.reset(before)
