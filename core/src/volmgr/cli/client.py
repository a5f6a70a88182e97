"""The daemon's API from the other side of its socket: HTTP over a unix socket, keep-alive, standard library only.

Not http.client, which takes 25 ms to import: a whole command has 150.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from volmgr import SOCKET

TIMEOUT = 30.0
"""Seconds that the daemon may take to answer what it need not wait for."""
GRACE = 15.0
"""Seconds that an answer may come later than the timeout it was asked with."""
RETRY = 0.05
"""Seconds between attempts to reach a daemon that has just gone: it is being started again."""
RESTART = 30.0
"""Seconds within which a daemon that has just gone is expected back."""
_CHUNK = 64 << 10
_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class Unreachable(Exception):
    """Nobody answers on the socket."""


class Dropped(Exception):
    """The daemon closed the connection instead of answering: it ends, or executes itself anew."""


class Refused(Exception):
    """The daemon answered with an error."""

    def __init__(self, status: int, detail: str) -> None:
        self.status = status
        super().__init__(detail)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


def quote(text: str) -> str:
    """Give text as one part of a path (urllib.parse takes 10 ms to import)."""
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in text.encode())


class Client:
    """One connection to the daemon, opened when it is first needed and again when it was closed."""

    def __init__(self, path: str = SOCKET) -> None:
        """Talk to the daemon on this socket."""
        self.path = path
        self._socket: socket.socket | None = None
        self._buffer = bytearray()

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._buffer.clear()

    def get(self, target: str, timeout: float = TIMEOUT) -> bytes:
        """Give the body of an answer; raises Unreachable, Dropped or Refused."""
        return self.request("GET", target, timeout=timeout)

    def post(self, target: str, body: bytes = b"", timeout: float = TIMEOUT) -> bytes:
        """As `get`, for what changes something."""
        return self.request("POST", target, body, timeout=timeout)

    def request(self, method: str, target: str, body: bytes = b"", *, timeout: float = TIMEOUT) -> bytes:
        """Send a request and give the body of its answer; raises Unreachable, Dropped or Refused."""
        response = self.answer(method, target, body, timeout=timeout)
        if response.status >= 400:  # noqa: PLR2004 - HTTP's own line between answers and errors
            raise Refused(response.status, _detail(response.body))
        return response.body

    def answer(self, method: str, target: str, body: bytes = b"", *, timeout: float = TIMEOUT) -> Response:
        """Send a request and give its answer, error or not; raises Unreachable or Dropped."""
        connection = self._connect()
        connection.settimeout(timeout)
        try:
            self._send(connection, method, target, body)
            response = self._read_head()
            length = int(response.headers.get("content-length", "0"))
            while len(self._buffer) < length:
                self._more()
        except TimeoutError:
            self.close()
            message = f"the daemon on {self.path} did not answer within {timeout:g} s; see its log"
            raise Unreachable(message) from None
        except OSError as error:
            self.close()
            raise Dropped(str(error)) from error
        data = bytes(self._buffer[:length])
        del self._buffer[:length]
        if response.headers.get("connection", "").lower() == "close":
            self.close()
        return Response(response.status, response.headers, data)

    def wait(self, pod: str, condition: str, timeout: float) -> bytes:
        """Wait for a Pod, over restarts of the daemon; raises Refused (504 at the timeout) or Unreachable."""
        deadline = time.monotonic() + timeout
        self._connect()
        while True:
            left = max(0.0, deadline - time.monotonic())
            target = f"/v1/pods/{quote(pod)}/wait?for={condition}&timeout={left:.3f}"
            try:
                return self.get(target, timeout=left + GRACE)
            except Dropped:
                self._reconnect(deadline)

    def follow(self, after: int = 0) -> Iterator[bytes]:
        """Give events as lines of JSON, over reloads and restarts, until the daemon ends; raises Unreachable.

        A stream that ends in order is either the last one, or that of a daemon that executes itself anew: then the
        socket still listens, and another execution answers on it.
        """
        instance, ended = "", False
        self._connect()
        while True:
            try:
                now = self._start_stream(after, instance)
                if ended and now == instance:
                    return
                instance, ended = now, False
                for line in self._chunked_lines():
                    after = _number(line)
                    yield line
                ended = True
            except OSError:
                pass  # it was cut off
            self.close()
            try:
                self._reconnect(time.monotonic() + (0 if ended else RESTART))
            except Unreachable:
                if ended:
                    return
                raise

    def _start_stream(self, after: int, instance: str) -> str:
        """Ask for events to come, and give the name of this execution of the daemon: another one counts anew."""
        known = f"&instance={instance}" if instance else ""
        connection = self._connect()
        connection.settimeout(None)
        self._send(connection, "GET", f"/v1/events?follow=true&after={after}{known}", b"")
        return self._read_head().headers.get("volmgr-instance", "")

    def await_end(self, timeout: float) -> bool:
        """Block until the daemon closes this connection, as it does when it executes itself anew."""
        if self._socket is None:
            return True
        self._socket.settimeout(timeout)
        try:
            ended = not self._socket.recv(1)
        except TimeoutError:
            return False
        except OSError:
            ended = True
        self.close()
        return ended

    def daemon_pid(self) -> int:
        """Give the process ID of whoever listens."""
        from volmgr.host.peers import peer_of  # `volmgr --help` need not pay for it

        return peer_of(self._connect()).pid

    def _connect(self) -> socket.socket:
        if self._socket is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(self.path)
            except OSError as error:
                connection.close()
                problem = error.strerror or str(error)
                if isinstance(error, PermissionError):
                    raise Unreachable(f"{self.path} may not be used ({problem}); run volmgr as root") from None
                message = (
                    f"no daemon answers on {self.path} ({problem}); start one with `systemctl start volmgrd`"
                    f" or `volmgrd --socket {self.path}`, or name another socket with --socket"
                )
                raise Unreachable(message) from None
            self._socket = connection
        return self._socket

    def _reconnect(self, deadline: float) -> None:
        """Connect to a daemon that has just gone, trying until the deadline."""
        while True:
            try:
                self._connect()
            except Unreachable:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(RETRY)
            else:
                return

    def _send(self, connection: socket.socket, method: str, target: str, body: bytes) -> None:
        length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
        head = f"{method} {target} HTTP/1.1\r\nHost: volmgr\r\n{length}\r\n".encode("ascii")
        with suppress(BrokenPipeError):  # it may have answered (with a refusal) before it read everything
            connection.sendall(head + body)

    def _read_head(self) -> Response:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._more()
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return Response(int(first.split(" ")[1]), headers)

    def _chunked_lines(self) -> Iterator[bytes]:
        while True:
            while (end := self._buffer.find(b"\r\n")) < 0:
                self._more()
            size = int(self._buffer[:end], 16)
            while len(self._buffer) < end + size + 4:
                self._more()
            data = bytes(self._buffer[end + 2 : end + 2 + size])
            del self._buffer[: end + size + 4]
            if not size:
                return
            yield from data.splitlines()

    def _more(self) -> None:
        if self._socket is None:
            raise ConnectionResetError
        data = self._socket.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("the connection was closed")
        self._buffer += data


def _detail(body: bytes) -> str:
    import json

    try:
        problem: object = json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
    if not isinstance(problem, dict):
        return str(problem)
    members = cast("dict[str, object]", problem)
    return str(members.get("detail", members.get("reasons", members)))


def _number(line: bytes) -> int:
    import json

    return int(json.loads(line)["number"])
