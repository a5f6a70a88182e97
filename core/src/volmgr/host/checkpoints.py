"""Checkpoints, as kubelet calls them: small versioned JSON files of a volume type, below `ROOT/volmgr/<type>`.

Never secret data. Composed of the host's services, so it works on each kind of host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from volmgr.host.interface import Host

VERSION = 1
"""The format; a higher one was written by a newer volmgr and is left alone."""

Body = Mapping[str, object]


class Checkpoints:
    """The records of one kind, by name; each name is that of a file."""

    def __init__(self, host: Host, owner: str, kind: str, *, durable: bool = True) -> None:
        """Use `ROOT/volmgr/<owner>/<kind>`; what is `durable` survives a power cut."""
        self._files = host.files
        self._root = host.paths.root
        self._durable = durable
        self._kind = kind
        self._top = host.paths.state / owner / kind

    def name_of(self, place: Path) -> str:
        """Name a record after a path below the root directory, whatever is in that path and however long it is."""
        return sha256(str(place.relative_to(self._root)).encode(errors="surrogateescape")).hexdigest()

    def path(self, name: str) -> Path:
        """Give where a record lies."""
        return self._top / f"{name}.json"

    def names(self) -> tuple[str, ...]:
        """Give every name, damaged records' too."""
        found = self._files.names(self._top)
        return tuple(name.removesuffix(".json") for name in found if name.endswith(".json") and name[0] != ".")

    def has(self, name: str) -> bool:
        """Say whether there is a record, be it damaged."""
        return self._files.info(self.path(name)) is not None

    def read(self, name: str) -> Body | None:
        """Give a record; None when it is missing, damaged or newer than this code. Raises OperationError."""
        data = self._files.read(self.path(name))
        try:
            body: object = json.loads(data) if data else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(body, dict):
            return None
        fields = cast("dict[str, object]", body)
        version = fields.pop("version", None)
        if fields.pop("kind", "") != self._kind or not isinstance(version, int) or version > VERSION:
            return None
        return fields

    def write(self, name: str, body: Body) -> None:
        """Write a record; raises OperationError, and what was there stays."""
        self._files.ensure_directory(self._top, 0o700, parents_mode=0o700)
        text = json.dumps({"kind": self._kind, "version": VERSION, **body}, sort_keys=True)
        self._files.write(self.path(name), f"{text}\n".encode(), 0o600, durable=self._durable)

    def remove(self, name: str) -> None:
        """Remove a record; missing is success."""
        self._files.remove_file(self.path(name), durable=self._durable)
