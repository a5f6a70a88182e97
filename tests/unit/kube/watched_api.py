"""The API server in memory, with watches: real connections without a network, and a history of what has changed."""

from __future__ import annotations

import functools
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import h11

from tests.unit.kube.memory_api import Document, MemoryApi, is_in
from tests.unit.kube.scripted_server import chunk, event_line
from volmgr.kube.access import Access
from volmgr.kube.errors import ApiError
from volmgr.kube.watch import Line, WatchTarget
from volmgr.model.kube import KubeSettings


@dataclass(frozen=True)
class _Change:
    kind: str
    path: str
    document: Document


@dataclass(frozen=True)
class _Listener:
    path: str
    query: Mapping[str, str]
    connection: socket.socket

    @property
    def name(self) -> str:
        """What it watches: one object, or a collection."""
        _, _, name = self.query.get("fieldSelector", "").partition("=")
        return f"{self.path}/{name}" if name else self.path

    @property
    def is_there(self) -> bool:
        """Whether the other end is open."""
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except ConnectionResetError:
            return False

    def hear(self, change: _Change) -> None:
        if self.is_there and is_in(change.path, change.document, self.path, self.query):
            self.connection.sendall(chunk(event_line(change.kind, change.document)))


@dataclass(frozen=True, slots=True)
class _Target(WatchTarget):
    server: WatchedApi

    def connect(self, path: str, query: Mapping[str, str]) -> Line:
        ours = self.server.open_watch(path, query)
        http = h11.Connection(h11.CLIENT)
        http.send(h11.Request(method="GET", target=path, headers=[("Host", "memory")]))
        http.send(h11.EndOfMessage())
        return Line(ours, http, self.access.session())


class WatchedApi(MemoryApi):
    """Tells its watches of each change; `close` it."""

    def __init__(self) -> None:
        super().__init__()
        self._history: list[_Change] = []
        self._listeners: list[_Listener] = []

    def put(self, path: str, document: Mapping[str, Any]) -> Document:
        with self._lock:
            kind = "MODIFIED" if path in self.objects else "ADDED"
            kept = super().put(path, document)
            self._tell(_Change(kind, path, kept))
            return kept

    def delete(self, path: str) -> None:
        with self._lock:
            gone = self.objects.get(path)
            super().delete(path)
            self._version += 1
            if gone is not None:
                metadata = {**gone["metadata"], "resourceVersion": str(self._version)}
                self._tell(_Change("DELETED", path, {**gone, "metadata": metadata}))

    def watch_target(self) -> WatchTarget | None:
        return _Target(_access(), KubeSettings(watch_silence=1e6), self)  # no bookmarks come

    def open_watch(self, path: str, query: Mapping[str, str]) -> socket.socket:
        """Open a watch that hears of all that has changed since the version it names, and give its other end."""
        with self._lock:
            if self.down:
                raise ApiError(f"cannot reach {self.address}: no answer (connection refused)")
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            listener = _Listener(path, query, theirs)
            theirs.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for change in self._history:
                if int(change.document["metadata"]["resourceVersion"]) > int(query["resourceVersion"]):
                    listener.hear(change)
            self._listeners.append(listener)
            return ours

    @property
    def watched(self) -> list[str]:
        """Give what is watched now, sorted."""
        return sorted(each.name for each in self._listeners if each.is_there)

    def cut(self) -> None:
        """End every watch without a word."""
        for each in self._listeners:
            each.connection.close()
        self._listeners.clear()

    def _tell(self, change: _Change) -> None:
        self._history.append(change)
        for each in self._listeners:
            each.hear(change)


@functools.cache
def _access() -> Access:
    return Access("memory", MemoryApi.address, lambda _configuration, _scratch: ())
