"""What the volumes of one target share, its sessions: who had them first, who needs them still. Facts, no counts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from volmgr.plugin import Host, NotReconstructible
from volmgr_iscsi.connection import Connection
from volmgr_iscsi.portals import Portal
from volmgr_iscsi.records import Records, Remembered
from volmgr_iscsi.sessions import Session, sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """One volume among those of its target and interface; `others` are what is known of these, whoever mounted them."""

    connection: Connection
    others: tuple[Remembered, ...]
    host: Host

    @classmethod
    def of(cls, connection: Connection, directory: Path, places: Iterable[Path], host: Host) -> Self:
        """Give that of a volume; `places` are the directories of all."""
        found: list[Remembered] = []
        for place in places:
            if place != directory:
                with suppress(NotReconstructible):  # if it is in use, its disk says so
                    found.append(Records(host).known(place))
        mine = (connection.iqn, connection.interface)
        others = tuple(each for each in found if (each.connection.iqn, each.connection.interface) == mine)
        return cls(connection=connection, others=others, host=host)

    def foreign(self) -> tuple[str, ...]:
        """Say with which portals of a volume that is not connected somebody else has a session."""
        there = {each.portal for each in sessions(self.connection.iqn, self.connection.interface, self.host)}
        now = [each for each in self.others if each.boot_id in ("", self.host.kernel.boot_id)]
        ours = {place for each in now for place in each.connection.places}
        if any(not each.boot_id for each in now):  # a kubelet's, of which perhaps one portal is known, and no other
            ours = there
        wanted = there - (ours - {Portal.parse(text) for each in now for text in each.foreign})
        return tuple(text for text in self.connection.portals if Portal.parse(text) in wanted)

    def needs(self, session: Session) -> bool:
        """Say whether a session has a disk of another volume, or one that somebody uses, the volume's own included.

        One that does not run is not opened, which could wait for it, and is taken for used.
        """
        luns = {each.connection.lun for each in self.others}
        return any(
            disk.address.lun in luns or not disk.is_running or not self.host.block.is_free(disk.device)
            for disk in self.host.scsi.disks(host=session.host)
            if session.has(disk.address)
        )
