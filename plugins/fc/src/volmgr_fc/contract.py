"""What the contract suite tries fc with: a LUN of one port, of two with multipathd, a disk by its WWID, and a device.

A fabric in memory is made for each host. On a real one, `VOLMGR_FC_LUN` names a LUN to be erased: `WWN[,WWN]:LUN`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from volmgr.plugin import DiskPaths, Host, VolumeMode
from volmgr.testing import FakeHost, Sample
from volmgr_fc.fabric import HOSTS, ONLINE, REMOTE_PORTS
from volmgr_fc.finding import look, not_found, search
from volmgr_fc.names import FibreChannelSource
from volmgr_fc.plugin import FibreChannel

PORTS = ("50060e801049cfd1", "50060e801049cfd2")
WWID = "360060e80-1049cfd1"
"""With a `-`, so that no directory's name says it."""

_LUN = 5
_SIZE = 2 << 20
_REAL = os.environ.get("VOLMGR_FC_LUN", "")


def samples(top: Path) -> Iterator[Sample]:
    """Give a LUN in each way in which it may be reached."""
    del top
    if _REAL:
        ports, _, lun = _REAL.partition(":")
        source = FibreChannelSource(target_wwns=tuple(ports.split(",")), lun=int(lun))
        yield Sample(source=source, arrange=partial(_erase, source))
        yield Sample(source=source, arrange=partial(_erase, source), spec={"mode": VolumeMode.BLOCK})
        return
    for wwns in (PORTS[:1], PORTS):
        yield Sample(source=FibreChannelSource(target_wwns=wwns, lun=_LUN), arrange=partial(_serve, wwns))
    yield Sample(source=FibreChannelSource(wwids=(WWID,), fs_type="xfs"), arrange=partial(_serve, PORTS[:1]))
    block = FibreChannelSource(target_wwns=PORTS, lun=_LUN)
    yield Sample(source=block, arrange=partial(_serve, PORTS), spec={"mode": VolumeMode.BLOCK})


def show_port(host: FakeHost, number: int, wwn: str, *, state: str = ONLINE) -> None:
    """Let SCSI host `number` be a Fibre Channel port that sees one port of a storage."""
    for path, text in (
        (HOSTS / f"host{number}/port_name", f"0x1000000000000{number:03x}"),
        (HOSTS / f"host{number}/port_state", ONLINE),
        (REMOTE_PORTS / f"rport-{number}:0-0/port_name", f"0x{wwn}"),
        (REMOTE_PORTS / f"rport-{number}:0-0/port_state", state),
        (REMOTE_PORTS / f"rport-{number}:0-0/scsi_target_id", "0"),
    ):
        host.mkdir(path.parent)
        host.put(path, f"{text}\n".encode())


def _serve(wwns: tuple[str, ...], host: Host) -> None:
    """Let each of these ports lead to one disk, which no kernel has looked for yet."""
    if not isinstance(host, FakeHost):
        return
    host.storage.multipathd = len(wwns) > 1
    lun = None
    for number, wwn in enumerate(wwns, 2):
        show_port(host, number, wwn)
        links = (f"by-path/pci-0000:00:0{number}.0-fc-0x{wwn}-lun-{_LUN}",)
        lun = host.storage.plug((number, 0, 0, _LUN), lun or WWID, size=_SIZE, links=links)


def _erase(source: FibreChannelSource, host: Host) -> None:
    """Take a LUN from the host that had it before, and empty it: then it is as if nobody had looked for it yet."""
    volume = "volume of the contract"
    paths = DiskPaths(host, FibreChannel.name, host.paths.plugin(FibreChannel.name) / "contract", volume)
    where = partial(look, source, host)
    over = host.scsi.map_over(where().disks)
    for device in (*(disk.device for disk in where().disks), *([over.device] if over is not None else [])):
        _free(device, host)
    disk = paths.connect(where, several=len(source.ports) > 1, search=partial(search, source, host))
    if disk is None:
        raise not_found(source, volume, host)
    # All of it: ext4 has its superblock in many places.
    host.commands.run(("blkdiscard", "--zeroout", "--force", str(disk.device)))
    paths.take_away(where)
    paths.forget()


def _free(device: Path, host: Host) -> None:
    """Unmount a device, and let go of what locks it for Pods, wherever that is."""
    for loop in host.block.find_loops(device):
        host.block.detach_loop(loop)
    for entry in host.mounts.table():
        if entry.source == str(device) or entry.root == f"/{device.name}":
            host.mounts.unmount(entry.target)
