"""What is asked of the API server, one request at a time; blocking, called on request threads."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from volmgr.kube.watch import WatchTarget


class PatchKind(Enum):
    """How a patch is to be applied, by its media type."""

    STRATEGIC = "application/strategic-merge-patch+json"
    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"


class Api(Protocol):
    """The requests; each raises ApiError, and gives the server's JSON."""

    @property
    def address(self) -> str:
        """Of the server, such as https://192.0.2.1:6443, for messages."""
        ...

    def get(self, path: str, query: Mapping[str, str] = {}) -> bytes:
        """Read one object, or a page of a list."""
        ...

    def create(self, path: str, body: Mapping[str, object]) -> bytes:
        """POST an object to its collection, or a request to its subresource."""
        ...

    def update(self, path: str, body: Mapping[str, object]) -> bytes:
        """PUT an object in the place of another."""
        ...

    def patch(self, path: str, body: object, *, kind: PatchKind = PatchKind.STRATEGIC) -> bytes:
        """Change parts of an object."""
        ...

    def delete(self, path: str) -> None:
        """Delete an object."""
        ...

    def watch_target(self) -> WatchTarget | None:
        """Tell where watches connect to; None behind a proxy, where objects are asked for instead."""
        ...
