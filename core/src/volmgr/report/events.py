"""The event log: a bounded ring that streams to whoever listens, deduplicated and counted."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Severity(StrEnum):
    """Kubernetes' two kinds of event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened; `number` grows by one with each, `at` is Unix time in seconds."""

    number: int
    at: float
    severity: Severity
    reason: str
    message: str
    pod: str = ""
    pod_uid: str = ""
    volume: str = ""
    count: int = 1


class EventLog:
    """The ring of events and its listeners. Recorded on the reconciler's thread, read on any."""

    def __init__(self, clock: Callable[[], float], capacity: int) -> None:
        """Start empty; `clock` gives Unix time in seconds, `capacity` is how many events are kept."""
        self._clock = clock
        self._capacity = capacity
        self._events: deque[Event] = deque(maxlen=capacity)
        self._number = 0
        self._last: dict[tuple[str, str, str, str], Event] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._listeners: list[Callable[[Event], None]] = []

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Tell of each event, on the thread that records it: a listener may look, and must not wait."""
        self._listeners.append(listener)

    def record(
        self,
        severity: Severity,
        reason: str,
        message: str,
        *,
        pod: str = "",
        pod_uid: str = "",
        volume: str = "",
    ) -> Event:
        """Add an event; one that repeats is counted (its `count` grows) and streamed again."""
        key = (reason, message, pod_uid, volume)
        with self._changed:
            self._number += 1
            last = self._last.get(key)
            event = Event(
                number=self._number,
                at=self._clock(),
                severity=severity,
                reason=reason,
                message=message,
                pod=pod,
                pod_uid=pod_uid,
                volume=volume,
            )
            if last is not None:
                event = replace(event, count=last.count + 1)
            if len(self._last) >= self._capacity:
                self._last.clear()
            self._last[key] = event
            self._events.append(event)
            self._changed.notify_all()
        for listener in self._listeners:
            listener(event)
        return event

    def after(self, number: int) -> tuple[Event, ...]:
        """Give the kept events with a higher number."""
        with self._changed:
            return tuple(event for event in self._events if event.number > number)

    def wait_after(self, number: int, timeout: float | None = None) -> tuple[Event, ...] | None:
        """Block until there is an event with a higher number; None when closed, empty on timeout (seconds)."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._number > number, timeout)
            found = tuple(event for event in self._events if event.number > number)
            return None if self._closed and not found else found

    @property
    def last_number(self) -> int:
        """The number of the newest event."""
        return self._number

    def close(self) -> None:
        """Let every listener end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
