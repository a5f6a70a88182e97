"""What an API server sends, read: pages of lists, lines of watches, and what it says when it refuses. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

import msgspec

from volmgr.kube.resources import Resource

T = TypeVar("T")

WORDS_LIMIT = 200
"""Characters of an answer that is no Status and is quoted all the same."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One object as the server sent it: `raw` is its JSON, which in a list has neither apiVersion nor kind."""

    namespace: str
    name: str
    uid: str
    version: str
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list; `further` is the token of the next page, empty at the last."""

    version: str
    further: str
    seen: tuple[Seen, ...]


class EventKind(Enum):
    """What an event of a watch says of its object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch: the object it speaks of, or the refusal, which ends the watch."""

    kind: EventKind
    seen: Seen
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The server's own words; `code` is HTTP's, `retry_after` is seconds, 0 when not said."""

    code: int
    message: str
    reason: str = ""
    retry_after: float = 0.0


class _Meta(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    version: str = msgspec.field(name="resourceVersion", default="")


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _ListMeta(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")
    further: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    kind: str
    apiVersion: str  # noqa: N815 - as on the wire
    metadata: _ListMeta
    items: list[msgspec.Raw] | None


class _Envelope(msgspec.Struct):
    type: EventKind
    object: msgspec.Raw


class _Details(msgspec.Struct):
    retry_after: float = msgspec.field(name="retryAfterSeconds", default=0.0)


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_object = msgspec.json.Decoder(_Object)
_list = msgspec.json.Decoder(_List)
_envelope = msgspec.json.Decoder(_Envelope)
_status = msgspec.json.Decoder(_Status)


def seen_of(raw: bytes | msgspec.Raw) -> Seen:
    """Read who an object is; raises ValueError when it is none."""
    meta = _decoded(_object, raw).metadata
    return Seen(meta.namespace, meta.name, meta.uid, meta.version, bytes(raw))


def read_page(body: bytes, resource: Resource) -> Page:
    """Read a part of a list; raises ValueError when it is none.

    Whatever is not in a list has gone: what only looks like an empty one (a login page, another kind) must be none.
    """
    page = _decoded(_list, body)
    if (page.kind, page.apiVersion) != (f"{resource.kind}List", resource.api_version) or not page.metadata.version:
        found = f"{page.kind or 'something'} of {page.apiVersion or 'no version'}"
        raise ValueError(f"{found} with resourceVersion {page.metadata.version!r} is no list of {resource.plural}")
    return Page(page.metadata.version, page.metadata.further, tuple(seen_of(item) for item in page.items or ()))


def read_event(line: bytes) -> Event:
    """Read a line of a watch; raises ValueError when it is no event."""
    envelope = _decoded(_envelope, line)
    seen = seen_of(envelope.object)
    if envelope.type is EventKind.ERROR:
        return Event(envelope.type, seen, _refusal(_status.decode(envelope.object)))
    return Event(envelope.type, seen)


def read_refusal(code: int, headers: Mapping[str, str], body: bytes) -> Refusal:
    """Read why a request was refused; what is no Status is quoted. `headers` are by lower-case name."""
    waits = _seconds(headers.get("retry-after", ""))
    try:
        said = _refusal(_status.decode(body))
    except ValueError:
        said = Refusal(code, "")
    words = said.message or " ".join(body.decode(errors="replace").split())[:WORDS_LIMIT]
    return Refusal(code, words, said.reason, waits or said.retry_after)


def _refusal(status: _Status) -> Refusal:
    waits = status.details.retry_after if status.details is not None else 0.0
    return Refusal(status.code, status.message, status.reason, waits)


def _seconds(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0  # the other form, a date, no API server sends


def _decoded(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    try:
        return decoder.decode(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class Lines:
    """Cuts a stream into its lines, each of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give the lines that end in the next bytes; raises ValueError at one that is too long."""
        *whole, rest = data.split(b"\n")
        for part in whole:
            self._keep(part)
            line = b"".join(self._parts)
            self._parts, self._size = [], 0
            if line:
                yield line
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise ValueError(f"an event of more than {self._limit} bytes")
        if part:
            self._parts.append(part)
