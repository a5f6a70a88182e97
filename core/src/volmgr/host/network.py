"""Servers as this machine reaches them, by connections that are closed at once."""

from __future__ import annotations

import socket
import time

from volmgr.errors import OperationError, UnansweredError


class LocalNetwork:
    """The network of this machine."""

    def reach(self, server: str, port: int, *, within: float) -> None:
        """Connect to one address of the server after the other, in the time that is given for all of them."""
        until = time.monotonic() + within
        attempt = f"connect to {server} on TCP port {port}"
        try:
            found = socket.getaddrinfo(server, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise OperationError(
                f"cannot {attempt}: nobody knows that name ({str(error.strerror).lower()}); correct it, or see whether"
                " this node's name server answers"
            ) from error
        problem = silence = f"no answer within {within:g} s"
        for family, kind, protocol, _, address in found:
            left = until - time.monotonic()
            if left <= 0:
                break
            problem = _problem(socket.socket(family, kind, protocol), address, left, silence)
            if not problem:
                return
        raise UnansweredError(f"cannot {attempt}: {problem}")


def _problem(connection: socket.socket, address: object, seconds: float, silence: str) -> str:
    """Say why nobody answers at an address; empty: somebody does."""
    with connection:
        connection.settimeout(seconds)
        try:
            connection.connect(address)  # type: ignore[arg-type]
        except TimeoutError:
            return silence
        except OSError as error:
            return str(error.strerror).lower()
    return ""
