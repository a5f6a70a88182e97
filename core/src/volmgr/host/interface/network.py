"""Servers as this node reaches them."""

from __future__ import annotations

from typing import Protocol


class Network(Protocol):
    """The network between this node and the servers that its volumes come from."""

    def reach(self, server: str, port: int, *, within: float) -> None:
        """Raise UnansweredError unless somebody listens on a TCP port, and answers within so many seconds.

        `server` is a name or an address, one of IPv6 without brackets. Raises OperationError for a name that nobody
        knows.
        """
        ...
