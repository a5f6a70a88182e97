"""Servers as this machine reaches them, by connections that are closed at once."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence

from volmgr.errors import OperationError, UnansweredError

Address = tuple[int, object]
"""A family of addresses, and one of these as `connect` takes it."""


def addresses_of(server: str, port: int) -> Sequence[Address]:
    """Ask whoever knows names; takes as long as that one does. Raises OSError, and UnicodeError for what is no name."""
    found = socket.getaddrinfo(server, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


class LocalNetwork:
    """The network of this machine."""

    def __init__(self, resolve: Callable[[str, int], Sequence[Address]] = addresses_of) -> None:
        self._resolve = resolve

    def reach(self, server: str, port: int, *, within: float) -> None:
        """Connect to one address of the server after the other, each with its share of the time that is left.

        The time begins when the addresses are known: a name server that is slow says nothing of this one.
        """
        attempt = f"connect to {server} on TCP port {port}"
        try:
            found = self._resolve(server, port)
        except (OSError, UnicodeError) as error:
            raise OperationError(
                f"cannot {attempt}: nobody knows that name ({_reason(error)}); correct it, or see whether this node's"
                " name server answers"
            ) from error
        until = time.monotonic() + within
        problem = silence = f"no answer within {within:g} s"
        for number, (family, address) in enumerate(found):
            left = max(0.0, until - time.monotonic())
            problem = _problem(family, address, left / (len(found) - number), silence)
            if not problem:
                return
        raise UnansweredError(f"cannot {attempt}: {problem}")


def _problem(family: int, address: object, seconds: float, silence: str) -> str:
    """Say why nobody answers at an address; empty: somebody does."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(address)  # type: ignore[arg-type]
    except (TimeoutError, BlockingIOError):  # without any time left it does not block
        return silence
    except OSError as error:  # also a family that this machine has not
        return _reason(error)
    return ""


def _reason(error: OSError | UnicodeError) -> str:
    return (error.strerror or "" if isinstance(error, OSError) else str(error)).lower()
