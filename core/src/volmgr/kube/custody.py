"""Pods that a server has no longer, kept when it may not be the server that had them.

Another cluster, or one that was restored from an old backup, lists no Pod of ours: that is not a reason to delete what
they wrote. `ROOT/volmgr/sources/cluster.json` says which server spoke last, and which Pods wait for a human.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from volmgr import records
from volmgr.errors import OperationError

if TYPE_CHECKING:
    from volmgr.host.interface import Files
    from volmgr.host.paths import Paths

log = logging.getLogger("volmgr.kube")

INTERVAL = 60.0
"""Seconds between two writes of how new is what the server says."""
_KIND = "cluster"


@dataclass(frozen=True, slots=True)
class Speaker:
    """Which server spoke: the UID of the own Node, address and authorities, and how new what it said is."""

    node_uid: str
    place: str
    version: str


@dataclass(frozen=True, slots=True)
class CustodyRecord:
    """What is on disk: who spoke last, the UIDs that are kept, and why."""

    speaker: Speaker
    kept: frozenset[str] = frozenset()
    doubt: str = ""


def doubt(before: Speaker, now: Speaker) -> str:
    """Say why a server may not be the one that spoke before; empty when it is."""
    if is_older(now.version, before.version):
        return (
            f"what it says is older than what was said before (resourceVersion {now.version} after {before.version}):"
            " it was restored from a backup, or is another cluster"
        )
    if before.node_uid != now.node_uid and before.place != now.place:
        return (
            f"address or authority are others, and the Node has the UID {now.node_uid} and had {before.node_uid}:"
            " it is another cluster"
        )
    return ""


def is_older(version: str, than: str) -> bool:
    """Compare resourceVersions; those of one server grow."""
    return version.isdigit() and than.isdigit() and int(version) < int(than)


class Custody:
    """Decides which Pods may leave; on the thread of Kubernetes mode.

    `place` is that of the server now, `clock` is in seconds.
    """

    def __init__(self, files: Files, paths: Paths, place: Callable[[], str], clock: Callable[[], float]) -> None:
        self._files = files
        self._path = paths.state / "sources/cluster.json"
        self._place = place
        self._clock = clock
        self._node_uid = ""
        self._record = self._read()
        self._written = self._clock()

    @property
    def doubt(self) -> str:
        """Why Pods are kept."""
        return self._record.doubt if self._record is not None else ""

    def saw_node(self, uid: str) -> bool:
        """Learn the UID of the own Node; True when it was not known."""
        was_unknown, self._node_uid = not self._node_uid, uid
        return was_unknown

    def keep(self, missing: Mapping[str, str], version: str) -> frozenset[str]:
        """Give those that must stay of the origins, with UIDs, that a server of this version does not list.

        All, as long as the own Node was not read.
        """
        if not self._node_uid:
            return frozenset(missing)
        now, before = Speaker(self._node_uid, self._place(), version), self._record
        why = doubt(before.speaker, now) if before is not None and missing else ""
        known = before.kept if before is not None else frozenset[str]()
        kept = {origin: uid for origin, uid in missing.items() if why or uid in known}
        self._write(CustodyRecord(now, frozenset(kept.values()), (why or self.doubt) if kept else ""))
        return frozenset(kept)

    def heard(self, version: str) -> None:
        """Take note how new is what the server says; written down once in a while."""
        record = self._record
        if record is None or not is_older(record.speaker.version, version):
            return
        newer = replace(record, speaker=replace(record.speaker, version=version))
        if self._clock() >= self._written + INTERVAL:
            self._write(newer)
        else:
            self._record = newer

    def accept(self) -> None:
        """Believe the server: nothing is kept any more. Raises OperationError."""
        if self._record is not None and self._record.kept:
            accepted = CustodyRecord(self._record.speaker)
            self._save(accepted)
            self._record = accepted

    def _read(self) -> CustodyRecord | None:
        with suppress(OperationError, msgspec.ValidationError):
            body = records.read(self._files, self._path, _KIND)
            return msgspec.convert(body, CustodyRecord, strict=True) if body is not None else None
        return None

    def _write(self, record: CustodyRecord) -> None:
        if record == self._record:
            return
        self._record, self._written = record, self._clock()
        try:
            self._save(record)
        except OperationError as error:  # the older one that is there doubts no less
            log.warning("which API server spoke last cannot be recorded: %s", error)

    def _save(self, record: CustodyRecord) -> None:
        records.write(self._files, self._path, _KIND, msgspec.to_builtins(record), durable=True)
