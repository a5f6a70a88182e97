"""An HTTP proxy, as `proxy-url` of a kubeconfig names one: it opens tunnels and sees nothing of what goes through."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

_CHUNK = 1 << 16


class _Tunnel(BaseHTTPRequestHandler):
    def do_CONNECT(self) -> None:
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as far:
            self.send_response(200)
            self.end_headers()
            assert isinstance(self.server, HttpProxy)
            self.server.opened(self.path, self.connection, far)
            with suppress(OSError):
                _shuttle(self.connection, far)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server has it
        del format, args


class HttpProxy(ThreadingHTTPServer):
    """One on loopback inside its `with`; `targets` are those that it was asked for."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.targets: list[str] = []
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self.serve_forever, name="http-proxy", daemon=True)

    @property
    def url(self) -> str:
        """What `proxy-url` is to say."""
        return f"http://127.0.0.1:{self.server_port}"

    def opened(self, target: str, *ends: socket.socket) -> None:
        """Take note of a tunnel."""
        self.targets.append(target)
        self._open += ends

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self.server_close()


def _shuttle(one: socket.socket, other: socket.socket) -> None:
    """Pass on what comes from either end until one of them closes."""
    with selectors.DefaultSelector() as ready:
        ready.register(one, selectors.EVENT_READ, other)
        ready.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in ready.select():
                assert isinstance(key.fileobj, socket.socket)
                data = key.fileobj.recv(_CHUNK)
                if not data:
                    return
                key.data.sendall(data)
