"""The API server: accepts on the reconciler's thread, serves each connection on a thread of its own.

The daemon's selector drives it, so that idle means idle: an open connection blocks in recv() without a timeout.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from volmgr.host.peers import peer_of
from volmgr.server import messages
from volmgr.server.routes import respond
from volmgr.server.stream import EventStream

if TYPE_CHECKING:
    from volmgr.server.engine import Engine

log = logging.getLogger(__name__)

CONNECTIONS = 1024
"""Connections served at a time; each is a thread."""
REFUSED_KEPT = 16
"""Connections of clients that are not served, and that may not have read so yet."""
SEND_TIMEOUT = 30.0
"""Seconds that a client may take to read what it asked for."""
_NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})


class ApiServer:
    """Serves one engine on one listening socket."""

    def __init__(self, engine: Engine, listener: socket.socket, allowed_uids: frozenset[int]) -> None:
        """Serve root and the users of `allowed_uids`; `listener` must not block."""
        self._engine = engine
        self._listener = listener
        self._allowed = allowed_uids | {0}
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._spare = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._refused: deque[socket.socket] = deque()

    def fileno(self) -> int:
        """Give the descriptor that is readable when somebody connects."""
        return self._listener.fileno()

    def accept_ready(self) -> None:
        """Accept whoever has connected; never blocks, never raises."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    self._turn_away()
                return
            refusal = self._refusal(connection)
            if refusal:
                self._refuse(connection, refusal)
                continue
            with self._lock:
                self._connections.add(connection)
            try:
                threading.Thread(target=self._serve, args=(connection,), name="api", daemon=True).start()
            except RuntimeError as error:  # no thread is to be had
                with self._lock:
                    self._connections.discard(connection)
                self._refuse(connection, messages.problem(503, f"{error}; try again", close=True))

    def connections(self) -> tuple[socket.socket, ...]:
        """Give the connections that are open."""
        with self._lock:
            return tuple(self._connections)

    def close(self) -> None:
        """Stop listening, and end every connection after the answer it is giving."""
        self._listener.close()
        os.close(self._spare)
        for connection in self.connections():
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        while self._refused:
            self._refused.popleft().close()

    def _refuse(self, connection: socket.socket, refusal: bytes) -> None:
        """Answer whoever is not served; the newest stay open, since who still sends would get a broken pipe instead."""
        with suppress(OSError):
            connection.settimeout(0)
            connection.send(refusal)
            connection.shutdown(socket.SHUT_WR)
        self._refused.append(connection)
        if len(self._refused) > REFUSED_KEPT:
            self._refused.popleft().close()

    def _turn_away(self) -> None:
        """Let one client go when descriptors have run out: else the listener stays readable, and the loop spins."""
        log.warning("no file descriptor is left for an API connection; raise LimitNOFILE")
        os.close(self._spare)
        with suppress(OSError):
            self._listener.accept()[0].close()
        self._spare = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    def _refusal(self, connection: socket.socket) -> bytes:
        """Say why a connection is not served; empty when it is."""
        uid = peer_of(connection).uid
        if uid not in self._allowed:
            return messages.problem(403, f"user {uid} may not use this socket", close=True)
        if len(self._connections) >= CONNECTIONS:
            return messages.problem(503, f"{CONNECTIONS} connections are open; close some", close=True)
        return b""

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError):
                reader = messages.Reader(connection)
                while self._serve_one(connection, reader):
                    pass
        except Exception:  # a thread has nobody to raise to, and the other connections are served
            log.exception("bug: an API connection ended with an unknown error")
        finally:
            with self._lock:
                self._connections.discard(connection)

    def _serve_one(self, connection: socket.socket, reader: messages.Reader) -> bool:
        """Answer one request; False when the connection is over."""
        try:
            request = reader.next()
            if request is None:
                return False
            answer = respond(self._engine, request)
            keep = request.keep_alive
        except messages.HttpError as error:
            answer = messages.problem(error.status, error.detail, close=error.fatal)
            keep = not error.fatal
        if isinstance(answer, EventStream):
            connection.settimeout(SEND_TIMEOUT)
            answer.send(connection)
            return False
        _send(connection, answer)
        return keep


def _send(connection: socket.socket, answer: bytes) -> None:
    """Send at once what the socket takes, nearly always all: a timeout costs three calls that each yield the GIL."""
    try:
        sent = connection.send(answer, socket.MSG_DONTWAIT)
    except BlockingIOError:
        sent = 0
    if sent < len(answer):
        connection.settimeout(SEND_TIMEOUT)
        connection.sendall(memoryview(answer)[sent:])
