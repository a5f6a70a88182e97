"""A driver as its developer calls it: by its socket, with an error that says what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.commands import Failure, NoAnswer
from volmgr.plugin import VolmgrError
from volmgr_csi.driver.connection import CallError, Connection, Observed
from volmgr_csi.driver.sanitizer import masked
from volmgr_csi.driver.sockets import visit

if TYPE_CHECKING:
    from volmgr_csi.driver.methods import A, Method, Q

REMEDIES: Mapping[str, str] = {
    "": "look into the driver's log: it broke the connection off",
    "ABORTED": "another call for this volume is at work; repeat the command",
    "ALREADY_EXISTS": "it is there with other options; unpublish it first, or give the same options",
    "CANCELLED": "the driver may still be at work; repeat the command",
    "DEADLINE_EXCEEDED": "the driver may still be at work; repeat the command, with a longer --timeout",
    "FAILED_PRECONDITION": "the volume or the driver is not in the state for it: not attached, in use, or not ready",
    "INTERNAL": "look into the driver's log",
    "INVALID_ARGUMENT": "compare --attribute, --parameter, --secret and --access-mode with its documentation",
    "NOT_FOUND": "name a volume that the driver has, or let one be made with --create SIZE",
    "OUT_OF_RANGE": "give another size with --create",
    "PERMISSION_DENIED": "give what it needs with --secret KEY=@FILE",
    "RESOURCE_EXHAUSTED": "there is no room for it, or the node has as many volumes as it may have",
    "UNAUTHENTICATED": "give what it needs with --secret KEY=@FILE",
    "UNAVAILABLE": "the driver, or its backend, does not answer; look into its log, then repeat the command",
    "UNIMPLEMENTED": "this driver, or this socket of it, cannot do that",
    "UNKNOWN": "look into the driver's log",
}
"""What to do, by gRPC's code; empty is no code."""

_SCHEMES = ("unix://", "unix:")


def socket_path(text: str) -> str:
    """Give the path in what drivers call an endpoint: a path, or a unix URL. Raises ValueError for another URL."""
    for scheme in _SCHEMES:
        if text.startswith(scheme):
            text = text.removeprefix(scheme)
            break
    if "://" in text or not text:
        message = f"{text!r} is no unix socket; give its path, such as /var/lib/kubelet/plugins/NAME/csi.sock"
        raise ValueError(message)
    return os.path.abspath(text)


@dataclass(slots=True)
class Caller:
    """Calls the driver behind one socket; each call may take `timeout` seconds."""

    connection: Connection
    timeout: float

    def __call__(self, method: Method[Q, A], question: Q) -> A:
        """Call it; raises CallError."""
        return self.connection.call(method, question, self.timeout)


@contextmanager
def calling(path: str, timeout: float, observe: Callable[[Observed], None]) -> Generator[Caller]:
    """Have the driver behind a socket; raises NoAnswer when nobody listens there."""
    _look(path)
    connection = Connection(path, path, observe)
    try:
        yield Caller(connection, timeout)
    finally:
        connection.close()


@contextmanager
def failures_said(secrets: Iterable[str] = ()) -> Generator[None]:
    """Turn errors into failures of the command: code, the driver's words, and what to do; secrets are masked."""
    try:
        yield
    except CallError as error:
        text = f"{error}; {REMEDIES.get(error.code, REMEDIES['UNKNOWN'])}"
        raise Failure(masked(text, secrets)) from None
    except VolmgrError as error:
        raise Failure(masked(str(error), secrets)) from None


def _look(path: str) -> None:
    try:
        visit(path).close()
    except BlockingIOError:  # its backlog is full: it is slow, and there
        return
    except OSError as error:
        remedy = {
            errno.ENOENT: "start the driver, or name the socket that its --endpoint says",
            errno.ECONNREFUSED: "the socket is of a driver that has ended; start it",
            errno.EACCES: "run volmgr as root",
        }.get(error.errno or 0, "name the socket that the driver's --endpoint says")
        message = f"no driver answers on {path}: {error.strerror}; {remedy}"
        raise NoAnswer(message) from None
