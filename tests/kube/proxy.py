"""A TCP proxy before the API server: a network that a test takes away and gives back. TLS passes through."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar, cast

from tests.kube.servers import Port

T = TypeVar("T")
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes a close send RST, as a machine does that forgot its connections."""


class Proxy:
    """Connections to one port of loopback, on a thread of its own; each verb has taken effect when it returns."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.accepted = 0
        """Connections since the start."""
        self.is_stalled = False
        self.latency = 0.0
        self.ends: set[_End] = set()
        self._port = Port()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens on loopback, whenever it does."""
        return self._port.number

    @property
    def url(self) -> str:
        """What to put into a kubeconfig instead of the server's."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        """Connections of clients that are open now."""
        return self._call(lambda: sum(end.is_client for end in self.ends))

    @property
    def lossy_connections(self) -> int:
        """Connections of clients that have lost bytes."""
        return self._call(lambda: sum(end.is_client and end.has_lost for end in self.ends))

    @property
    def delayed_bytes(self) -> int:
        """Bytes that are on their way."""
        return self._call(lambda: sum(end.delayed_bytes for end in self.ends))

    def __enter__(self) -> Self:
        self._thread.start()
        self._await_listener()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(asyncio.sleep(0))  # what `cut` still has to close
        self._loop.close()
        self._port.close()

    def cut(self) -> None:
        """Reset every connection, as when the server's machine dies; new ones are accepted."""
        self._call(self._reset)

    def refuse(self) -> None:
        """Refuse new connections; those that are open stay."""
        self._call(self._close_listener)

    def stall(self) -> None:
        """Accept everything and pass nothing on, as when packets are lost."""
        self._set(stalled=True)

    def delay(self, seconds: float) -> None:
        """Let whatever comes from now on take longer, each way."""
        self._set(latency=seconds)

    def resume(self) -> None:
        """Be a good network again. A connection that has lost bytes is reset: TLS could not go on."""
        self._set(stalled=False, latency=0.0)
        self._call(lambda: self._reset(lossy_only=True))
        self._await_listener()

    def _reset(self, *, lossy_only: bool = False) -> None:
        for end in list(self.ends):
            if end.has_lost or not lossy_only:
                end.reset()

    def _set(self, *, stalled: bool = False, latency: float = 0.0) -> None:
        def change() -> None:
            self.is_stalled, self.latency = stalled, latency

        self._call(change)

    def _await_listener(self) -> None:
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await self._loop.create_server(
                lambda: _End(self, None), "127.0.0.1", self._port.number, reuse_port=True
            )

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _call(self, action: Callable[[], T]) -> T:
        async def call() -> T:
            return action()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result()


class _End(asyncio.Protocol):
    """One of the two sockets of a connection; a client's until it knows its `other`."""

    def __init__(self, proxy: Proxy, other: _End | None) -> None:
        self._proxy = proxy
        self._other = other
        self._queue: deque[tuple[float, bytes]] = deque()
        self._loop = asyncio.get_running_loop()
        self._opening: asyncio.Task[None] | None = None
        self.is_client = other is None
        self.has_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._proxy.ends.add(self)
        if self.is_client:
            self._proxy.accepted += 1
            if self._proxy.is_stalled:
                self.has_lost = True  # also when it never sends: nobody is at the other end
            else:
                self._transport.pause_reading()
                self._opening = self._loop.create_task(self._open())

    def data_received(self, data: bytes) -> None:
        if self._proxy.is_stalled or self._other is None:
            self.has_lost = True
            return
        self._queue.append((self._loop.time() + self._proxy.latency, data))
        self._pass_on()

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other._transport.pause_reading()  # noqa: SLF001 - of the same class

    def resume_writing(self) -> None:
        if self._other is not None:
            self._other._transport.resume_reading()  # noqa: SLF001 - of the same class

    def connection_lost(self, exc: Exception | None) -> None:
        self._proxy.ends.discard(self)
        if self._other is None:
            return
        if exc is not None:
            self._other.reset()
        elif not self._proxy.is_stalled:  # what is lost includes the news of the end
            while self._queue:
                self._other._transport.write(self._queue.popleft()[1])  # noqa: SLF001 - of the same class
            self._other._transport.close()  # noqa: SLF001 - of the same class
        else:
            self._other.has_lost = True

    @property
    def delayed_bytes(self) -> int:
        return sum(len(data) for _, data in self._queue)

    def reset(self) -> None:
        """End it as rudely as possible."""
        if self._opening is not None:
            self._opening.cancel()
        socket_ = cast("socket.socket", self._transport.get_extra_info("socket"))
        if socket_.fileno() >= 0:
            socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort()

    async def _open(self) -> None:
        try:
            _, other = await self._loop.create_connection(
                lambda: _End(self._proxy, self), "127.0.0.1", self._proxy.target
            )
        except OSError:
            self.reset()
        else:
            self._other = other
            self._transport.resume_reading()

    def _pass_on(self) -> None:
        assert self._other is not None
        while self._queue and self._queue[0][0] <= self._loop.time():
            self._other._transport.write(self._queue.popleft()[1])  # noqa: SLF001 - of the same class
        if self._queue:
            self._loop.call_at(self._queue[0][0], self._pass_on)
