"""The way to one driver: its socket, and a channel that is open only while it is used. Imports grpc lazily.

An open channel of grpc wakes some ten times a second and has threads of its own; a closed one has none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.plugin import OperationError, UncertainError, VolmgrError

if TYPE_CHECKING:
    import grpc

    from volmgr_csi.methods import A, Method, Q

MESSAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of one message."""

NOT_FINAL = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"})
"""Codes after which the call may still be at work, or be done; kubelet's isFinalError."""


class CallError(VolmgrError):
    """A call of a driver failed: `code` is gRPC's name, empty where no status came; `details` the driver's words."""

    def __init__(self, driver: str, method: str, code: str, details: str) -> None:
        self.driver = driver
        self.method = method
        self.code = code
        self.details = details
        super().__init__(f"{method} of csi driver {driver} failed: {code or 'no status'}: {details or 'no message'}")

    @property
    def is_final(self) -> bool:
        """Say whether nothing of the call is left, nor at work."""
        return bool(self.code) and self.code not in NOT_FINAL

    def as_outcome(self) -> VolmgrError:
        """Give the error by which an operation says this."""
        return OperationError(str(self)) if self.is_final else UncertainError(str(self))


@dataclass(frozen=True, slots=True)
class Observed:
    """One call that ended: for metrics, and for who measures what the driver took."""

    driver: str
    method: str
    code: str
    seconds: float


class Connection:
    """The way to the driver that serves a socket; calls may come from any thread, and at once."""

    def __init__(self, driver: str, socket: str, observe: Callable[[Observed], None] = lambda _call: None) -> None:
        self.driver = driver
        self.socket = socket
        self._observe = observe
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._running = 0
        self._idle_since = 0.0

    def call(self, method: Method[Q, A], question: Q, timeout: float) -> A:
        """Ask, within `timeout` seconds; raises CallError."""
        import grpc

        started = time.monotonic()
        code = ""
        try:
            with self._used() as channel:
                ask = channel.unary_unary(
                    method.path,
                    request_serializer=method.question.SerializeToString,
                    response_deserializer=method.read,
                )
                answer = ask(question, timeout=max(timeout, 0.001))
            code = "OK"
        except grpc.RpcError as error:
            status: object = error  # grpc raises what is both, which its types do not say
            details = ""
            if isinstance(status, grpc.Call):
                code, details = status.code().name, " ".join((status.details() or "").split())
            raise CallError(self.driver, method.name, code, details) from None
        finally:
            self._observe(Observed(self.driver, method.name, code, time.monotonic() - started))
        return answer

    def close_if_idle(self, idle: float) -> float | None:
        """Close the channel after `idle` seconds without a call; give the seconds left, or None when it is closed."""
        with self._lock:
            if self._channel is None:
                return None
            if self._running:
                return idle
            left = self._idle_since + idle - time.monotonic()
            if left > 0:
                return left
            channel, self._channel = self._channel, None
        channel.close()
        return None

    def close(self) -> None:
        """Close the channel; calls that run end with an error that is not final."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    @contextmanager
    def _used(self) -> Generator[grpc.Channel]:
        with self._lock:
            self._running += 1
            if self._channel is None:
                self._channel = _open(self.socket)
            channel = self._channel
        try:
            yield channel
        finally:
            with self._lock:
                self._running -= 1
                self._idle_since = time.monotonic()


def _open(socket: str) -> grpc.Channel:
    import grpc

    options = (
        ("grpc.max_receive_message_length", MESSAGE_LIMIT),
        ("grpc.use_local_subchannel_pool", 1),  # else a new channel waits as long as one that failed before it
        ("grpc.default_authority", "localhost"),
    )
    return grpc.insecure_channel(f"unix:{socket}", options=options)
