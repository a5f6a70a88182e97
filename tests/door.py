"""A socket in front of the daemon's own: says when somebody has asked the daemon through it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_CHUNK = 1 << 16


class Door:
    """Passes on what clients and the daemon say to each other, unchanged."""

    def __init__(self, path: Path, behind: Path) -> None:
        self.path = path
        self._behind = behind
        self._asked = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._porter = threading.Thread(target=self._serve, daemon=True)
        self._porter.start()

    def __enter__(self) -> Self:
        """It is open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it, with every connection through it."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._porter.join()
        for each in self._sockets[1:]:
            _hang_up(each)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()
        self.path.unlink()

    def until_asked(self, patience: float) -> None:
        """Return when a question has reached the daemon; `patience` in seconds."""
        assert self._asked.wait(patience), "nobody asked the daemon"

    def _serve(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, daemon = self._listener.accept()[0], socket.socket(socket.AF_UNIX)
                self._sockets += client, daemon
                daemon.connect(str(self._behind))
                for ways in ((client, daemon), (daemon, client)):
                    thread = threading.Thread(target=self._pass_on, args=ways, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # one of them has gone
            while data := source.recv(_CHUNK):
                target.sendall(data)
                self._asked.set()
        _hang_up(target)


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # the other side was first
        connection.shutdown(socket.SHUT_RDWR)
