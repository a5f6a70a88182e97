"""Helpers that must not be forgotten: whoever runs an operation is told of each before it is let run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StartedHelper:
    """A helper that does nothing yet; `until` is its deadline in seconds of the monotonic clock."""

    name: str
    pid: int
    until: float


Note = Callable[[StartedHelper], Callable[[], None]]
"""Told of a helper before it is let run; gives what is called when it has ended."""


@dataclass(frozen=True, slots=True)
class StuckHelper:
    """A helper that was to end and has not: it waits in the kernel, and may still do what it was asked for."""

    name: str
    pid: int
    ended: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Notebook:
    """Of one operation: who is told of its helpers, and which of them are stuck."""

    note: Note
    stuck: list[StuckHelper] = field(default_factory=list[StuckHelper])


current: ContextVar[Notebook | None] = ContextVar("current", default=None)
"""Who is told of what this thread runs; None: nobody has to know."""


@contextmanager
def noted(note: Note) -> Generator[Notebook]:
    """Have every helper noted that this thread runs within and that changes something: it may outlive the daemon."""
    notebook = Notebook(note)
    before = current.set(notebook)
    try:
        yield notebook
    finally:
        current.reset(before)
