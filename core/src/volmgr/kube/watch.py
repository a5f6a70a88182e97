"""One watch: connected on a request thread, then read without blocking by the thread that owns it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlencode, urlsplit

import h11

from volmgr import __version__
from volmgr.errors import OperationError
from volmgr.kube.access import Access, Session
from volmgr.kube.attempt import Attempt
from volmgr.kube.errors import ApiError
from volmgr.kube.thread import KubeThread
from volmgr.kube.wire import Event, EventKind, Lines, read_event, read_refusal
from volmgr.model.kube import KubeSettings
from volmgr.timers import Timer

CONNECT_TIMEOUT = 10.0
"""Seconds for the connection, and again for the TLS handshake; client-go's TLSHandshakeTimeout."""
BOOKMARK_INTERVAL = 60.0
"""Seconds between bookmarks; kube-apiserver's defaultBookmarkFrequency."""
REFUSAL_LIMIT = 1 << 16
"""Bytes that are read of the answer that refuses a watch."""
READS_PER_TURN = 64
"""Reads before others have their turn; one is a record of TLS, 16 KiB."""
_CHUNK = 1 << 16
"""Bytes read at once: more than a record of TLS, so that nothing stays behind deciphered, where no selector sees it."""
_TCP_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),  # client-go's dialer: every 30 s
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000),  # milliseconds; counts for what was sent, too
)


@dataclass(frozen=True, slots=True)
class Line:
    """A connection on which a watch was asked for: the socket no longer blocks."""

    socket: socket.socket = field(repr=False)
    http: h11.Connection = field(repr=False)
    session: Session


@dataclass(frozen=True, slots=True)
class WatchTarget:
    """Where watches connect to, and with what."""

    access: Access
    settings: KubeSettings

    def attempt(self, path: str) -> Attempt:
        """Name a watch, for messages."""
        return Attempt("watch", path, self.access.address, self.access.origin)

    def connect(self, path: str, query: Mapping[str, str]) -> Line:
        """Connect and ask; blocks, on a request thread. Raises ApiError."""
        attempt = self.attempt(path)
        try:
            session = self.access.session()
            headers = self.access.headers()
            address = urlsplit(self.access.address)
            request = h11.Request(
                method="GET",
                target=f"{address.path}{path}?{urlencode(query)}",
                headers=[
                    ("Host", address.netloc),
                    ("Accept", "application/json"),
                    ("User-Agent", f"volmgr/{__version__}"),
                    *headers.items(),
                ],
            )
            http = h11.Connection(h11.CLIENT)
            asked = (http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b"")
            return Line(_connected(self.access.address, session, asked), http, session)
        except (OSError, ValueError) as error:
            raise attempt.unanswered(error, self.access.missed()) from error
        except OperationError as error:
            raise attempt.failed(str(error)) from error


class WatchSink(Protocol):
    """Hears of a watch; all on its thread."""

    def opened(self) -> None:
        """Learn that the server agreed."""
        ...

    def heard(self, event: Event) -> None:
        """Take an event other than an error."""
        ...

    def ended(self, error: ApiError | None) -> None:
        """Learn that there is no more, and why; None: the server had promised no more."""
        ...


class Watch:
    """Reads one connection until it ends; all on the thread of Kubernetes mode."""

    def __init__(
        self, thread: KubeThread, target: WatchTarget, path: str, query: Mapping[str, str], sink: WatchSink
    ) -> None:
        self._thread = thread
        self._target = target
        self._path = path
        self._query = query
        self._sink = sink
        self._attempt = target.attempt(path)
        self._lines = Lines(target.settings.object_limit)
        self._line: Line | None = None
        self._stopped = False
        self._answer: h11.Response | None = None
        self._refusal = b""
        self._heard = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to connect."""
        self._thread.ask(self._connect, self._connected, self._end, self._path.rpartition("/")[2])

    def stop(self) -> None:
        """Hear nothing any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._line is not None:
            line, self._line = self._line, None
            self._thread.forget(line.socket)
            line.socket.close()

    def _connect(self) -> Line:
        line = self._target.connect(self._path, self._query)
        if self._stopped:  # meanwhile: nobody may be there any more to close it
            line.socket.close()
            raise self._attempt.failed("it is no longer wanted")
        return line

    def _connected(self, line: Line) -> None:
        if self._stopped:
            line.socket.close()
            return
        self._line = line
        self._heard = self._thread.now()
        self._thread.watch(line.socket, self._read)
        self._timer = self._thread.later(self._bound, self._look)
        self._read()

    @property
    def _cut(self) -> ApiError:
        return self._attempt.failed("the connection was cut; it is made again")

    @property
    def _bound(self) -> float:
        """Seconds for which it may be silent."""
        settings = self._target.settings
        return settings.request_timeout if self._answer is None else BOOKMARK_INTERVAL + settings.watch_silence

    def _look(self) -> None:
        left = self._heard + self._bound - self._thread.now()
        if left > 0:  # one timer a watch, however many events there were
            self._timer = self._thread.later(left, self._look)
        else:
            self._target.access.missed()
            self._end(self._attempt.failed(f"nothing has come for {self._bound:g} s; it is asked for again"))

    def _read(self) -> None:
        for _ in range(READS_PER_TURN):
            if self._line is None:
                return
            try:
                data = self._line.socket.recv(_CHUNK)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                return
            except OSError as error:
                self._end(self._attempt.unanswered(error))
                return
            self._heard = self._thread.now()
            self._take(self._line.http, data)

    def _take(self, http: h11.Connection, data: bytes) -> None:
        try:
            http.receive_data(data)
            while self._line is not None:
                match http.next_event():
                    case h11.Response() as answer:
                        self._take_answer(answer)
                    case h11.Data() as body:
                        self._take_body(bytes(body.data))
                    case h11.EndOfMessage():
                        self._finish()
                    case h11.NEED_DATA | h11.PAUSED:
                        return
                    case h11.ConnectionClosed():
                        self._end(self._cut)
                    case _:
                        pass  # 1xx
        except h11.RemoteProtocolError as error:
            self._end(self._attempt.failed(f"the server sent what is no HTTP: {error}") if data else self._cut)
        except ValueError as error:
            self._end(self._attempt.failed(f"the server sent what is no event: {error}"))

    def _take_answer(self, answer: h11.Response) -> None:
        self._answer = answer
        self._target.access.reached()
        if answer.status_code == HTTPStatus.OK:
            self._sink.opened()

    def _take_body(self, data: bytes) -> None:
        if self._answer is None or self._answer.status_code != HTTPStatus.OK:
            self._refusal += data
            if len(self._refusal) > REFUSAL_LIMIT:
                self._finish()
            return
        for text in self._lines.feed(data):
            event = read_event(text)
            if event.kind is EventKind.ERROR and event.refusal is not None:
                self._end(self._attempt.refused(event.refusal))
            else:
                self._sink.heard(event)
            if self._line is None:
                return

    def _finish(self) -> None:
        if self._answer is None or self._line is None or self._answer.status_code == HTTPStatus.OK:
            self._end(None)
            return
        if self._answer.status_code == HTTPStatus.UNAUTHORIZED:
            self._target.access.distrust(self._line.session)
        headers = {name.decode(): value.decode(errors="replace") for name, value in self._answer.headers}
        self._end(self._attempt.refused(read_refusal(self._answer.status_code, headers, self._refusal)))

    def _end(self, error: ApiError | None) -> None:
        if not self._stopped:
            self.stop()
            self._sink.ended(error)


def _connected(address: str, session: Session, asked: bytes) -> socket.socket:
    parts = urlsplit(address)
    host = parts.hostname or ""
    plain = socket.create_connection((host, parts.port or (443 if session.tls else 80)), CONNECT_TIMEOUT)
    try:
        for level, option, value in _TCP_OPTIONS:
            plain.setsockopt(level, option, value)
        ready = plain
        if session.tls is not None:
            ready = session.tls.wrap_socket(plain, server_hostname=session.configuration.tls_server_name or host)
    except BaseException:
        plain.close()
        raise
    try:
        ready.sendall(asked)
    except BaseException:
        ready.close()
        raise
    ready.setblocking(False)  # noqa: FBT003 - socket's own signature
    return ready
