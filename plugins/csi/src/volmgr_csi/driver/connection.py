"""The way to one driver: its socket, and a channel that is open only while it is used. Imports grpc lazily.

An open channel of grpc wakes some ten times a second and has threads of its own; a closed one has none. A channel
that lost its driver waits longer and longer before it connects again: it is left, and the next call opens another.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from volmgr.plugin import OperationError, UncertainError, VolmgrError
from volmgr_csi.driver.sanitizer import brief, sanitized
from volmgr_csi.driver.sockets import Address, Stamp, is_answering, stamp_of

if TYPE_CHECKING:
    import grpc

    from volmgr_csi.driver.methods import A, Method, Q

MESSAGE_LIMIT = 16 * 1024 * 1024
"""Bytes of one message."""

NOT_FINAL = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"})
"""Codes after which the call may still be at work, or be done; kubelet's isFinalError."""

UNAVAILABLE = "UNAVAILABLE"
"""The code of a call that lost its driver, or did not reach it."""

UNIMPLEMENTED = "UNIMPLEMENTED"
"""The code of a call that a driver does not serve."""

_SHORTEST = 0.001  # seconds: grpc takes no deadline that has passed


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


@dataclass(eq=False, slots=True)
class _Open:
    """A channel, and how many calls use it."""

    channel: grpc.Channel
    address: Address
    users: int = 0
    is_confirmed: bool = False

    def close(self) -> None:
        self.channel.close()
        self.address.close()


def _nobody(_connection: Connection) -> None:
    """Tell nobody."""


@dataclass(eq=False, slots=True)
class Connection:
    """The way to the driver that serves a socket; calls may come from any thread, and at once."""

    driver: str
    socket: str
    observe: Callable[[Observed], None] = lambda _call: None
    rested: Callable[[Connection], None] = _nobody
    """Is called when no call runs any more: whoever closes idle channels has a deadline now."""
    lost: Callable[[Connection], None] = _nobody
    """Is called when a call lost its driver: what is known of it may be of one that is no more."""
    confirms: bool = False
    """Who answers is asked for its name first: nobody registers it now, and another driver may serve its socket."""
    served: Stamp | None = None
    """Which socket lay there when the driver was asked what it can do."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: _Open | None = None
    _running: int = 0
    _idle_since: float = 0.0
    _closed: bool = False

    def call(self, method: Method[Q, A], question: Q, timeout: float) -> A:
        """Ask, within `timeout` seconds; raises CallError."""
        started = time.monotonic()
        code = ""
        try:
            with self._used(method.name) as lent:
                if self.confirms and not lent.is_confirmed:
                    self._confirm(lent, timeout)
                answer = self._ask(lent.channel, method, question, timeout - (time.monotonic() - started))
            code = "OK"
        except CallError as error:
            code = error.code
            raise
        finally:
            self.observe(Observed(self.driver, method.name, code, time.monotonic() - started))
            if code == UNAVAILABLE:
                self.lost(self)
        return answer

    def is_answering(self) -> bool:
        """Say whether somebody listens at the socket; takes no time, and is no call."""
        return is_answering(self.socket)

    @property
    def is_replaced(self) -> bool:
        """Whether another socket lies there than when the driver was asked what it can do."""
        return self.served is not None and stamp_of(self.socket) not in {None, self.served}

    @property
    def is_closed(self) -> bool:
        """Whether no call can be made by it any more."""
        return self._closed

    def close_if_idle(self, idle: float) -> float | None:
        """Close the channel after `idle` seconds without a call; give the seconds left, or None when it is closed.

        While calls run there is nothing to wait for: `rested` says when they have ended.
        """
        with self._lock:
            if self._open is None or self._running:
                return None
            left = self._idle_since + idle - time.monotonic()
            if left > 0:
                return left
            leaving, self._open = self._open, None
        leaving.close()
        return None

    def reopen(self) -> None:
        """Let further calls go by a new channel: another socket is there now."""
        with self._lock:
            unused = self._leave()
        if unused is not None:
            unused.close()

    def close(self) -> None:
        """Let no further call begin; the channel closes when the last one that runs has ended."""
        with self._lock:
            self._closed = True
            unused = self._leave()
        if unused is not None:
            unused.close()

    def abort(self) -> None:
        """Let no further call begin, and those that run end at once."""
        with self._lock:
            self._closed = True
            leaving, self._open = self._open, None
            is_used = leaving is not None and leaving.users > 0
        if leaving is not None and is_used:
            leaving.channel.close()  # who uses it last closes the rest
        elif leaving is not None:
            leaving.close()

    def _leave(self) -> _Open | None:
        """Let no further call use the channel; give it unless a call does: who uses it last closes it."""
        leaving, self._open = self._open, None
        return None if leaving is None or leaving.users else leaving

    def _ask(self, channel: grpc.Channel, method: Method[Q, A], question: Q, timeout: float) -> A:
        from volmgr_csi.driver.quiet_grpc import grpc

        ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method.path)
        try:
            answer = ask(question.SerializeToString(), timeout=max(timeout, _SHORTEST))
        except grpc.RpcError as error:
            raise self._failure(method.name, error, question) from None
        except ValueError as error:  # the channel was closed below the call
            raise CallError(self.driver, method.name, "", str(error)) from None
        try:
            return method.read(answer)
        except Exception as error:  # protobuf's; what the driver did is not known
            raise CallError(self.driver, method.name, "", f"its answer cannot be read: {error}") from error

    def _failure(self, method: str, error: Exception, question: object) -> CallError:
        from volmgr_csi.driver.quiet_grpc import grpc

        if not isinstance(error, grpc.Call):
            return CallError(self.driver, method, "", str(error))
        return CallError(self.driver, method, error.code().name, sanitized(error.details() or "", question))

    def _confirm(self, lent: _Open, timeout: float) -> None:
        """Make sure that it is still this driver that answers; raises CallError."""
        from volmgr_csi.driver import methods
        from volmgr_csi.v1 import csi_pb2 as csi

        method = methods.PLUGIN_INFO
        try:
            found = self._ask(lent.channel, method, csi.GetPluginInfoRequest(), timeout).name
        except CallError as error:
            if error.code != UNIMPLEMENTED:
                raise
        else:
            if found != self.driver:
                text = f"{self.socket} is served by csi driver '{brief(found)}' now"
                raise CallError(self.driver, method.name, UNAVAILABLE, text)
        lent.is_confirmed = True

    @contextmanager
    def _used(self, method: str) -> Generator[_Open]:
        with self._lock:
            if self._closed:
                text = f"the way to it by {self.socket} is closed: another was taken, or the daemon ends"
                raise CallError(self.driver, method, UNAVAILABLE, text)
            if self._open is None:
                self._open = self._opened(method)
            lent = self._open
            lent.users += 1
            self._running += 1
        spoiled = False
        try:
            yield lent
        except CallError as error:
            spoiled = error.code in {"", UNAVAILABLE}
            raise
        finally:
            self._give_back(lent, spoiled=spoiled)

    def _give_back(self, lent: _Open, *, spoiled: bool) -> None:
        with self._lock:
            lent.users -= 1
            self._running -= 1
            self._idle_since = time.monotonic()
            if spoiled and self._open is lent:
                self._open = None
            is_left = (self._closed or self._open is not lent) and not lent.users
            is_resting = self._open is not None and not self._running
        if is_left:
            lent.close()
        if is_resting:
            self.rested(self)

    def _opened(self, method: str) -> _Open:
        from volmgr_csi.driver.quiet_grpc import grpc

        options = (
            ("grpc.max_receive_message_length", MESSAGE_LIMIT),
            ("grpc.use_local_subchannel_pool", 1),  # else a new channel waits as long as one that failed before it
            ("grpc.default_authority", "localhost"),
            ("grpc.enable_retries", 0),  # who made a call knows what it may have done, and repeats it
        )
        try:
            address = Address(self.socket)
        except OSError as error:
            text = f"its socket {self.socket} is not there: {error.strerror}"
            raise CallError(self.driver, method, UNAVAILABLE, text) from None
        return _Open(grpc.insecure_channel(f"unix:{address.path}", options=options), address)
