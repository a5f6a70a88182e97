"""What is remembered of a connected LUN beside kubelet's `iscsi.json`, which its mount hides and which says less.

One file for each in `ROOT/volmgr/iscsi/connections/`, written before anything is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from volmgr.plugin import Checkpoints, Host, NotReconstructible, OperationError
from volmgr_iscsi import iscsi_json
from volmgr_iscsi.connection import Connection
from volmgr_iscsi.portals import Portal
from volmgr_iscsi.source import IscsiSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A connection, and what became of it. Portals are as in `connection.portals`."""

    connection: Connection
    target_portal: str
    """As the manifest has it: the volume's name has it, and a port less than the directory, perhaps."""
    foreign: tuple[str, ...] = ()
    """Portals with which somebody had a session before us: those are used, and left alone."""
    missing: tuple[str, ...] = ()
    """Portals that could not be logged in at."""
    tries: int = 0
    """How often they were tried again."""
    asking: tuple[str, ...] = ()
    """Portals that are just being asked by records with secrets, which go also when we are killed."""
    boot_id: str = ""
    """In which boot it was connected, since its sessions end with that; empty: by a kubelet, nobody knows when."""

    @property
    def source(self) -> IscsiSource:
        """The source that the volume has, as far as it can be told."""
        return replace(self.connection.source, target_portal=self.target_portal)


class Records:
    """Those of one host."""

    def __init__(self, host: Host) -> None:
        self._files = host.files
        self._mounts = host.mounts
        self._checkpoints = Checkpoints(host, "iscsi", "connections", durable=False)

    def write(self, directory: Path, remembered: Remembered) -> None:
        """Remember what is known of the volume that has this directory."""
        fields = {
            "connection": json.loads(iscsi_json.encode(remembered.connection)),
            "target_portal": remembered.target_portal,
            "foreign": remembered.foreign,
            "missing": remembered.missing,
            "tries": remembered.tries,
            "asking": remembered.asking,
            "boot_id": remembered.boot_id,
        }
        self._checkpoints.write(self._checkpoints.name_of(directory), fields)

    def read(self, directory: Path) -> Remembered | None:
        """Give what is remembered; None for nothing, or what cannot be read."""
        body = self._checkpoints.read(self._checkpoints.name_of(directory))
        try:
            return None if body is None else _decoded(body)
        except (ValueError, KeyError, TypeError):
            return None

    def forget(self, directory: Path) -> None:
        """Remember nothing of it."""
        self._checkpoints.remove(self._checkpoints.name_of(directory))

    def known(self, directory: Path) -> Remembered:
        """Give what is known: kubelet's file where it can be seen, and what we remember, else the directory's name.

        Raises NotReconstructible when that says too little.
        """
        try:
            ours, theirs = self.read(directory), self._beside(directory)
        except OperationError as problem:  # of one volume alone: others are found all the same
            raise NotReconstructible(str(problem)) from problem
        if theirs is not None:
            same = ours is not None and ours.connection == theirs
            return ours if ours is not None and same else Remembered(connection=theirs, target_portal=theirs.portals[0])
        if ours is not None:
            return ours
        try:
            named = Connection.of_directory(directory)
        except ValueError as problem:
            raise NotReconstructible(str(problem)) from None
        return Remembered(connection=named, target_portal=named.portals[0])

    def write_beside(self, directory: Path, connection: Connection) -> None:
        """Write kubelet's file, which its mount will hide."""
        self._files.write(directory / iscsi_json.FILE, iscsi_json.encode(connection), iscsi_json.MODE)

    def remove_beside(self, directory: Path) -> None:
        """Remove it; gone is success."""
        self._files.remove_file(directory / iscsi_json.FILE)

    def _beside(self, directory: Path) -> Connection | None:
        if self._mounts.is_mount_point(directory):
            return None  # a file of this name is the volume's own: its Pods write it, and its storage may be silent
        try:
            data = self._files.read(directory / iscsi_json.FILE)
            return None if data is None else iscsi_json.decode(data)
        except (ValueError, RecursionError):
            return None

    def is_beside(self, directory: Path) -> bool:
        """Say whether kubelet's file can be seen."""
        return self._files.info(directory / iscsi_json.FILE) is not None

    def is_remembered(self, directory: Path) -> bool:
        """Say whether something is remembered of it."""
        return self._checkpoints.has(self._checkpoints.name_of(directory))


def _decoded(fields: Mapping[str, object]) -> Remembered:
    return Remembered(
        connection=iscsi_json.decode(json.dumps(fields["connection"]).encode()),
        target_portal=_portals([fields["target_portal"]])[0],
        foreign=_portals(fields["foreign"]),
        missing=_portals(fields["missing"]),
        tries=int(str(fields["tries"])),
        asking=_portals(fields.get("asking", [])),
        boot_id=str(fields["boot_id"]),
    )


def _portals(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("it has no list of portals")  # noqa: TRY004 - the file is wrong, not the program
    found = tuple(map(str, cast("list[object]", value)))
    for text in found:
        Portal.parse(text)
    return found
