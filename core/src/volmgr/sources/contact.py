"""When an API server was last heard of, over restarts: `ROOT/volmgr/sources/kubernetes.json`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from volmgr import records
from volmgr.errors import OperationError

if TYPE_CHECKING:
    from volmgr.host.interface import Files
    from volmgr.host.paths import Paths

INTERVAL = 60.0
"""Seconds; it is written down no more often while the server is heard of."""
_KIND = "contact"


class Contact:
    """Written seldom, and not durably: nothing but times in reports depends on it. Unix time in seconds, 0 unknown."""

    def __init__(self, files: Files, paths: Paths) -> None:
        self._files = files
        self._path = paths.state / "sources/kubernetes.json"
        self._written: float | None = None

    @property
    def recorded(self) -> float:
        """When it was, as far as that was written down."""
        if self._written is None:
            body: dict[str, object] | None = None
            with suppress(OperationError):
                body = records.read(self._files, self._path, _KIND)
            at = (body or {}).get("at")
            self._written = float(at) if isinstance(at, (int, float)) else 0.0
        return self._written

    def heard(self, at: float, *, lost: bool = False) -> None:
        """Write down when the server was heard of: at once when it is `lost` now, else once in a while."""
        if at > self.recorded + (0.0 if lost else INTERVAL):
            self._written = at
            with suppress(OperationError):
                records.write(self._files, self._path, _KIND, {"at": at})
