"""What the contract suite tries iscsi with: on FakeHost a target in memory, on a real host one of LIO's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import Host, ObjectMeta, ScsiAddress, Secret, SecretReference, VolumeMode
from volmgr.testing import FakeHost, Lun, Sample
from volmgr_iscsi.fake_initiator import FakeInitiator
from volmgr_iscsi.source import IscsiSource

IQN = "iqn.2026-01.io.volmgr:contract"
PORTALS = ("127.0.0.1", "127.0.0.2:3260")
WWID = "36001405c0ffee"
_CHAP = {
    "node.session.auth.username": "user1",
    "node.session.auth.password": "secret12345678",
}


def samples(top: Path) -> Iterator[Sample]:
    """Give a LUN over one portal and over two, with CHAP and an initiator name, and as a device."""
    del top
    plain = IscsiSource(target_portal=PORTALS[0], iqn=IQN, lun=1)
    yield Sample(source=plain, arrange=fake_network)
    yield Sample(
        source=IscsiSource(target_portal=PORTALS[0], portals=PORTALS[1:], iqn=IQN, lun=1, fs_type="xfs"),
        arrange=fake_network,
    )
    yield Sample(
        source=IscsiSource(
            target_portal=PORTALS[0],
            iqn=IQN,
            lun=1,
            initiator_name="iqn.2026-01.io.volmgr:other",
            chap_auth_session=True,
            secret_ref=SecretReference(name="chap"),
        ),
        objects=(Secret(metadata=ObjectMeta(name="chap"), data={key: text.encode() for key, text in _CHAP.items()}),),
        arrange=fake_network,
    )
    yield Sample(source=plain, spec={"mode": VolumeMode.BLOCK}, arrange=fake_network)


class FakeStorage:
    """FakeHost's storage, as sessions lead to it: a WWID is one disk, whatever leads there."""

    def __init__(self, host: FakeHost) -> None:
        self._host = host
        self.disks: dict[str, Lun] = {}

    def attach(self, address: ScsiAddress, wwid: str) -> None:
        """Let a disk be behind an address."""
        self.disks[wwid] = self._host.storage.plug(address, self.disks.get(wwid, wwid))

    def release(self, address: ScsiAddress) -> None:
        """Let nothing be there; the kernel forgets it with its session."""
        disk = self._host.storage.disk_at(address)
        if disk is not None:
            self._host.storage.remove(disk)
        if address in self._host.storage.mapped:
            self._host.storage.unplug(address)


def fake_network(host: Host) -> FakeInitiator | None:
    """Let a host in memory have open-iscsi, and a target with one LUN; a real one has what was started for it."""
    if not isinstance(host, FakeHost):
        return None
    for directory in ("/dev/disk/by-id", "/dev/disk/by-path", "/dev/mapper", "/sys/class/scsi_device", "/sys/block"):
        host.mkdir(directory)
    initiator = FakeInitiator(host, FakeStorage(host), host.machine.silent)
    host.programs["iscsiadm"] = initiator.program
    initiator.map(initiator.target(IQN, *PORTALS), 1, WWID)
    host.storage.multipathd = True
    return initiator
