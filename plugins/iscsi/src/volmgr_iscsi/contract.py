"""What the contract suite tries iscsi with: a LUN over one portal and over two, with CHAP, and as a device.

A host in memory has a target in memory. A real one must have the target IQN on PORTALS, which lets everybody in without
CHAP; its LUN, erased each time and large enough for xfs, is the block device `VOLMGR_ISCSI_DISK` of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from volmgr.plugin import Host, ObjectMeta, ScsiAddress, Secret, SecretReference, VolumeMode
from volmgr.testing import FakeHost, Lun, Sample
from volmgr_iscsi.fake_initiator import FakeInitiator
from volmgr_iscsi.iscsiadm import NO_OBJECTS
from volmgr_iscsi.sessions import sessions
from volmgr_iscsi.source import DEFAULT_INTERFACE, IscsiSource

IQN = "iqn.2026-01.io.volmgr:contract"
LUN = 1
PORTALS = ("127.0.0.1", "127.0.0.2:3260")
CHAP = {"node.session.auth.username": "user1", "node.session.auth.password": "secret12345678"}

_WWID = "36001405c0ffee"
_REAL = os.environ.get("VOLMGR_ISCSI_DISK", "")


def samples(top: Path) -> Iterator[Sample]:
    """Give a LUN over one portal and over two, with CHAP and an initiator name, and as a device."""
    del top
    plain = IscsiSource(target_portal=PORTALS[0], iqn=IQN, lun=LUN)
    yield Sample(source=plain, arrange=_arrange)
    yield Sample(source=replace(plain, portals=PORTALS[1:], fs_type="xfs"), arrange=_arrange)
    own = replace(plain, initiator_name="iqn.2026-01.io.volmgr:other")
    chap = replace(own, chap_auth_session=True, secret_ref=SecretReference(name="chap"))
    secret = Secret(metadata=ObjectMeta(name="chap"), data={key: text.encode() for key, text in CHAP.items()})
    yield Sample(source=own if _REAL else chap, objects=(secret,), arrange=_arrange)
    yield Sample(source=plain, spec={"mode": VolumeMode.BLOCK}, arrange=_arrange)


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


def _arrange(host: Host) -> None:
    """Let a host in memory have open-iscsi and a target; of a real one, take the LUN from who had it, and empty it."""
    if not isinstance(host, FakeHost):
        _erase(host)
        return
    for directory in ("/dev/disk/by-id", "/dev/disk/by-path", "/dev/mapper", "/sys/class/scsi_device", "/sys/block"):
        host.mkdir(directory)
    initiator = FakeInitiator(host, FakeStorage(host), host.machine.silent)
    host.programs["iscsiadm"] = initiator.program
    initiator.map(initiator.target(IQN, *PORTALS), LUN, _WWID)
    host.storage.multipathd = True


def _erase(host: Host) -> None:
    for interface in (DEFAULT_INTERFACE, f"{PORTALS[0]}:3260:data"):
        for session in sessions(IQN, interface, host):
            disk = host.scsi.disk_at(session.address(LUN))
            for entry in host.mounts.table() if disk is not None else ():
                if disk is not None and (entry.source == str(disk.device) or entry.root == f"/{disk.name}"):
                    for loop in host.block.find_loops(entry.target):
                        host.block.detach_loop(loop)
                    host.mounts.unmount(entry.target)
            host.commands.run(("iscsiadm", "-m", "session", "-r", str(session.number), "--logout"))
    host.commands.run(("iscsiadm", "-m", "node", "-T", IQN, "-o", "delete"), accept=(0, NO_OBJECTS))
    host.commands.run(("blkdiscard", "--zeroout", "--force", _REAL))  # all of it: backups of superblocks are found
