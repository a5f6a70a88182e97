"""Which files need not be read at a start: each is as it was when all that it said was recorded. No decisions.

One record for each manifests directory, `ROOT/volmgr/sources/<source>.files.json`; losing it costs time only.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from typing import cast

from volmgr import records
from volmgr.errors import OperationError
from volmgr.host.interface import Files
from volmgr.host.paths import Paths

_log = logging.getLogger(__name__)

_KIND = "files"


class Unchanged:
    """By name of a file: the stamp that it had when it was read, and a digest of what it said.

    `edition` names the code that reads: what another edition read may mean something else to this one.
    """

    def __init__(self, files: Files, paths: Paths, source: str, edition: str) -> None:
        self._files = files
        self._path = paths.state / "sources" / f"{source}.files.json"
        self._edition = edition
        self._entries: dict[str, tuple[str, str]] = {}
        self.is_written = True
        """Whether the record says what is known here."""

    def load(self) -> None:
        """Read the record; one that is damaged or of another edition says nothing."""
        try:
            body = records.read(self._files, self._path, _KIND)
        except OperationError as error:
            _log.info("every manifest is read: %s", error)
            return
        if body is None or body.get("edition") != self._edition or not isinstance(body.get("files"), dict):
            return
        for name, entry in cast("dict[str, object]", body["files"]).items():
            match entry:
                case [str(stamp), str(said)] if stamp and said:
                    self._entries[name] = stamp, said
                case _:
                    pass

    def entry(self, name: str) -> tuple[str, str]:
        """Give a file's stamp and the digest; both are empty for one that has to be read."""
        return self._entries.get(name, ("", ""))

    def put(self, name: str, stamp: str, said: str) -> None:
        """Take note of a file that was read."""
        if self._entries.get(name) != (stamp, said):
            self._entries[name] = stamp, said
            self.is_written = False

    def forget(self, name: str) -> None:
        """Let a file be read."""
        if self._entries.pop(name, None) is not None:
            self.is_written = False

    def keep(self, names: Container[str]) -> None:
        """Forget all other files: one that comes back is read."""
        for name in tuple(self._entries):
            if name not in names:
                self.forget(name)

    def write(self) -> None:
        """Bring the record up to date."""
        try:
            body = {"edition": self._edition, "files": self._entries}
            records.write(self._files, self._path, _KIND, body)
        except OperationError as error:
            _log.info("which manifests were read is not recorded, so a start reads all: %s", error)
        else:
            self.is_written = True
