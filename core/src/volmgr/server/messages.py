"""A strict reader of HTTP/1.1 requests, and replies as bytes.

Not http.server: it costs 10 ms of CPU and 2 MB at start and 29 µs a request (this: 10 µs), takes a whole timeout per
line from a slow client, and reads a body sent in chunks as the next request.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from volmgr import plain_json

if TYPE_CHECKING:
    import socket

HEAD_LIMIT = 16 << 10
"""Bytes of a request line and its headers."""
BODY_LIMIT = 11 << 20
"""Bytes of a body: the longest manifest (10 MiB), and room for its JSON."""
FIELDS_LIMIT = 20
"""Parts of a query."""
READ_TIMEOUT = 10.0
"""Seconds from the first byte of a request to its last."""
_CHUNK = 64 << 10
_METHODS = frozenset({"GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"})

REASONS: Mapping[int, str] = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    422: "Unprocessable Content",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    505: "HTTP Version Not Supported",
}


class HttpError(Exception):
    """A request that is answered with an error; after a `fatal` one the connection can serve no other."""

    def __init__(self, status: int, detail: str, *, fatal: bool = False) -> None:
        self.status = status
        self.detail = detail
        self.fatal = fatal
        super().__init__(detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; `path` is its parts, each decoded, `raw` the path as it came."""

    method: str
    raw: str
    path: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    keep_alive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str


class Reader:
    """Requests of one connection, one after the other."""

    def __init__(self, connection: socket.socket, timeout: float = READ_TIMEOUT) -> None:
        """Read from a blocking socket; `timeout` is for a whole request, idle time before it is free."""
        self._connection = connection
        self._timeout = timeout
        self._buffer = bytearray()
        self._deadline = 0.0

    def next(self) -> Request | None:
        """Block for the next request; None when the client has gone; raises HttpError."""
        if not self._buffer:
            if self._connection.gettimeout() is not None:
                self._connection.settimeout(None)
            self._buffer += self._connection.recv(_CHUNK)
            if not self._buffer:
                return None
        self._deadline = time.monotonic() + self._timeout
        end = self._read_head()
        head = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        method, target, version, headers = _parse_head(head)
        body = self._read_body(headers)
        raw, _, query = target.partition("?")
        try:
            path = tuple(unquote(part, errors="strict") for part in raw.strip("/").split("/") if part)
            pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=FIELDS_LIMIT)
        except ValueError as error:
            raise HttpError(400, f"the path or its query cannot be read: {error}") from None
        return Request(
            method=method,
            raw=raw,
            path=path,
            query=dict(pairs),
            body=body,
            keep_alive=version == "HTTP/1.1" and headers.get("connection", "").lower() != "close",
        )

    def _read_head(self) -> int:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > HEAD_LIMIT:
                break
            self._more()
        if end < 0 or end > HEAD_LIMIT:
            raise HttpError(431, f"request line and headers exceed {HEAD_LIMIT} bytes", fatal=True)
        return end

    def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if "transfer-encoding" in headers:
            raise HttpError(501, "transfer codings are not understood; send a Content-Length", fatal=True)
        text = headers.get("content-length", "0")
        if not (text.isascii() and text.isdigit()):
            raise HttpError(400, f"Content-Length is no number: {text[:20]!r}", fatal=True)
        length = int(text[:20])
        if length > BODY_LIMIT:
            raise HttpError(413, f"the body has {length} bytes; at most {BODY_LIMIT} are read", fatal=True)
        if length and headers.get("expect", "").lower() == "100-continue":
            self._connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(self._buffer) < length:
            self._more()
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body

    def _more(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise HttpError(408, f"the request did not end within {self._timeout:g} s", fatal=True)
        self._connection.settimeout(left)
        try:
            data = self._connection.recv(_CHUNK)
        except TimeoutError:
            raise HttpError(408, f"the request did not end within {self._timeout:g} s", fatal=True) from None
        if not data:
            raise ConnectionResetError
        self._buffer += data


def _parse_head(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    try:
        first, *lines = head.decode("ascii").split("\r\n")
        method, target, version = first.split(" ")
    except ValueError:
        raise HttpError(400, "not an HTTP/1.1 request", fatal=True) from None
    if not target.startswith("/") or not version.startswith("HTTP/"):
        raise HttpError(400, "not an HTTP/1.1 request", fatal=True)
    if version not in {"HTTP/1.1", "HTTP/1.0"}:
        raise HttpError(505, f"{version[:20]} is not spoken here; use HTTP/1.1", fatal=True)
    if method not in _METHODS:
        raise HttpError(501, f"method {method[:20]!r} is not known", fatal=True)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not name or name != name.strip():
            raise HttpError(400, "malformed header line", fatal=True)
        if key in headers and key in {"content-length", "transfer-encoding"}:
            raise HttpError(400, f"{name} is given twice", fatal=True)
        headers[key] = value.strip()
    return method, target, version, headers


def reply(status: int, body: bytes, content_type: str = "application/json", *, close: bool = False) -> bytes:
    """Give a whole response."""
    return _head(status, content_type, f"Content-Length: {len(body)}\r\n", close=close) + body


def stream_head(content_type: str, extra: str = "") -> bytes:
    """Give the head of a response that comes in chunks."""
    return _head(200, content_type, f"Transfer-Encoding: chunked\r\n{extra}", close=True)


def chunk(data: bytes) -> bytes:
    """Give one chunk; an empty one ends the response."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def json(value: object, status: int = 200, *, close: bool = False) -> bytes:
    """Give a response with a value as JSON."""
    return reply(status, plain_json.encode(value) + b"\n", close=close)


def problem(status: int, detail: str, kind: str = "about:blank", *, close: bool = False) -> bytes:
    """Give an error response."""
    value = Problem(type=kind, title=REASONS[status], status=status, detail=detail)
    return reply(status, plain_json.encode(value) + b"\n", "application/problem+json", close=close)


def _head(status: int, content_type: str, extra: str, *, close: bool) -> bytes:
    connection = "Connection: close\r\n" if close else ""
    return f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {content_type}\r\n{extra}{connection}\r\n".encode()
