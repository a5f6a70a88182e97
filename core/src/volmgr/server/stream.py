"""Events as they happen: one JSON object a line, each sent at once."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr import plain_json
from volmgr.report.times import rfc3339
from volmgr.server import messages
from volmgr.server.messages import HttpError, Request

if TYPE_CHECKING:
    from volmgr.report.events import Event, EventLog
    from volmgr.server.engine import Engine

JSON_LINES = "application/jsonl"
_EXECUTION = os.urandom(8).hex()
HANGUP_CHECK = 30.0
"""Seconds between two looks at whether a client that follows is still there; nobody follows: no look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReport:
    """One event; `count` says how often it has happened."""

    number: int
    at: str | None
    severity: str
    reason: str
    message: str
    pod: str
    pod_uid: str
    volume: str
    count: int


@dataclass(frozen=True, slots=True)
class EventStream:
    """A response that ends when its client or the daemon goes."""

    events: EventLog
    after: int

    def send(self, connection: socket.socket) -> None:
        """Send events until there are no more; raises OSError when the client has gone."""
        connection.sendall(messages.stream_head(JSON_LINES, f"Volmgr-Instance: {instance(self.events)}\r\n"))
        after = self.after
        while True:
            found = self.events.wait_after(after, HANGUP_CHECK)
            if found is None:
                connection.sendall(messages.chunk(b""))
                return
            if found:
                connection.sendall(messages.chunk(_lines(found)))
                after = found[-1].number
            elif _has_hung_up(connection):
                return


def follow_events(engine: Engine, request: Request, argument: str) -> bytes | EventStream:
    """Give the kept events after a number; with `follow`, also those to come."""
    del argument
    text = request.query.get("after", "0")
    if not (text.isascii() and text.isdigit()):
        raise HttpError(400, f"after={text[:20]!r} is no number of an event")
    here = instance(engine.events)
    after = int(text[:20]) if request.query.get("instance", here) == here else 0
    if request.query.get("follow", "false") in {"true", "1", ""}:
        return EventStream(engine.events, after)
    return messages.reply(200, _lines(engine.events.after(after)), JSON_LINES)


def instance(events: EventLog) -> str:
    """Name a log in this execution of the daemon: a client that comes back with another name starts at event 0."""
    return f"{_EXECUTION}-{id(events):x}"


def _lines(events: tuple[Event, ...]) -> bytes:
    return b"".join(plain_json.encode(_report(event)) + b"\n" for event in events)


def _report(event: Event) -> EventReport:
    return EventReport(
        number=event.number,
        at=rfc3339(event.at),
        severity=event.severity.value,
        reason=event.reason,
        message=event.message,
        pod=event.pod,
        pod_uid=event.pod_uid,
        volume=event.volume,
        count=event.count,
    )


def _has_hung_up(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
