"""A host in memory with open-iscsi and a target."""

from __future__ import annotations

from pathlib import Path

from volmgr.testing import FakeHost
from volmgr_iscsi.contract import FakeStorage
from volmgr_iscsi.fake_initiator import FakeInitiator, FakeTarget

IQN = "iqn.2026-01.io.test:target1"
WWID = "36001405aa"
DATABASE = Path("/etc/iscsi")


class Site:
    """A host in memory with open-iscsi, and a target on two portals with a disk as LUN 0."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.initiator = FakeInitiator(self.host, FakeStorage(self.host), self.host.machine.silent)
        self.host.programs["iscsiadm"] = self.initiator.program
        self.target: FakeTarget = self.initiator.target(IQN, "10.0.0.1", "10.0.0.2")
        self.initiator.map(self.target, 0, WWID)

    def commands(self) -> list[str]:
        """Give what iscsiadm was asked for since the last time, and forget it."""
        said, self.initiator.commands[:] = list(self.initiator.commands), []
        return said

    def records(self) -> list[str]:
        """Name each record of open-iscsi."""
        tree = self.host.tree(DATABASE)
        return sorted(str(path.relative_to(DATABASE)) for path, what in tree.items() if what.startswith("file"))

    @property
    def is_clean(self) -> bool:
        return not (self.records() or self.initiator.sessions or self.host.storage.known or self.host.storage.maps)
