"""The network of disks in memory does to disks what storages, cables, kernels and multipathd do."""

from __future__ import annotations

from pathlib import Path

import pytest

from volmgr.errors import BusyError, OperationError
from volmgr.host.filesystems import DeviceMount
from volmgr.host.interface import ScsiAddress, ScsiDisk
from volmgr.testing import FakeHost

MIB = 1 << 20
A, B = ScsiAddress(2, 0, 0, 1), ScsiAddress(3, 0, 0, 1)
TARGET = Path("/srv/data")
LINK = "by-path/pci-0000:00:05.0-fc-0x5006-lun-1"


@pytest.fixture
def host() -> FakeHost:
    host = FakeHost()
    host.mkdir(TARGET)
    return host


def found(host: FakeHost, address: ScsiAddress = A) -> ScsiDisk:
    disk = host.scsi.disk_at(address)
    assert disk is not None
    return disk


def mount(host: FakeHost, device: Path) -> None:
    host.filesystems.ensure_mounted(DeviceMount(device=device, target=TARGET, owner="a test"))


def test_nobody_knows_what_was_plugged_before_it_is_looked_for(host: FakeHost) -> None:
    host.storage.plug(A, "3600a")
    host.storage.plug((2, 0, 0, 2), "3600b")
    assert host.scsi.disks() == ()
    host.scsi.scan(2, channel=0, target=0, lun=1)
    assert [disk.address for disk in host.scsi.disks()] == [A]
    assert host.scsi.disks(host=2, identities={"3600a"}) == host.scsi.disks()
    assert host.scsi.disks(host=3) == host.scsi.disks(identities={"3600b"}) == ()


def test_a_known_disk_has_its_device_and_its_links_until_it_is_removed(host: FakeHost) -> None:
    host.storage.plug(A, "3600a", links=[LINK])
    host.scsi.scan(2)
    disk = found(host)
    for name in ("/dev/sdb", f"/dev/disk/{LINK}", "/dev/disk/by-id/scsi-3600a"):
        assert host.scsi.disk_of(Path(name)) == disk
    assert host.files.names(Path("/sys/class/scsi_device/2:0:0:1/device/block")) == ("sdb",)
    host.scsi.remove(disk)
    host.scsi.remove(disk)
    assert host.scsi.disk_of(Path("/dev/sdb")) is None
    assert host.files.names(Path("/sys/class/scsi_device")) == ()
    assert host.files.names(Path("/dev/disk/by-path")) == ()


def test_what_is_on_a_disk_is_seen_by_each_path_and_by_the_map(host: FakeHost) -> None:
    host.storage.multipathd = True
    lun = host.storage.plug(A, "3600a")
    host.storage.plug(B, lun)
    host.scsi.scan(2)
    mount(host, found(host).device)
    host.put(TARGET / "file", b"x")
    host.mounts.unmount(TARGET)
    host.scsi.scan(3)
    over = host.scsi.map_over([found(host, B)])
    assert over is not None
    mount(host, over.device)
    assert host.content(TARGET / "file") == b"x"
    assert host.mounts.table()[-1].source == "/dev/dm-0"


def test_paths_are_held_by_their_map_and_the_map_by_its_mount(host: FakeHost) -> None:
    host.storage.multipathd = True
    host.storage.plug(B, host.storage.plug(A, "3600a"))
    host.scsi.scan(2)
    host.scsi.scan(3)
    over = host.scsi.map_over([found(host)])
    assert over is not None
    assert not host.block.is_free(Path("/dev/sdb"))
    mount(host, over.device)
    with pytest.raises(BusyError):
        host.scsi.remove_map(over)
    host.mounts.unmount(TARGET)
    with pytest.raises(BusyError):
        host.scsi.remove(over.disks[0])
    host.scsi.remove_map(over)
    host.scsi.remove_map(over)
    for disk in over.disks:
        host.scsi.remove(disk)
    assert (host.scsi.disks(), host.storage.maps, host.storage.flushed) == ((), (), [Path("/dev/dm-0")])


def test_without_multipathd_and_with_too_few_paths_there_is_no_map(host: FakeHost) -> None:
    host.storage.plug(B, host.storage.plug(A, "3600a"))
    host.scsi.scan(2)
    host.scsi.scan(3)
    assert host.scsi.map_over(host.scsi.disks()) is None
    host.storage.multipathd = True
    host.storage.plug((2, 0, 0, 7), "3600b")
    host.scsi.scan(2)
    assert host.scsi.map_over([found(host, ScsiAddress(2, 0, 0, 7))]) is None


def test_a_number_that_now_leads_to_another_disk_is_noticed_only_by_asking(host: FakeHost) -> None:
    host.storage.plug(A, "3600a")
    host.scsi.scan(2)
    host.storage.plug(A, "3600b")
    host.scsi.scan(2)
    disk = found(host)
    assert (host.scsi.identity(disk), host.scsi.remembered_identity(disk)) == ("3600b", "3600a")
    host.scsi.remove(disk)
    host.scsi.scan(2)
    assert host.scsi.remembered_identity(found(host)) == "3600b"


def test_a_disk_without_its_cable_or_its_storage_does_not_answer(host: FakeHost) -> None:
    host.storage.plug(A, "3600a")
    host.scsi.scan(2)
    host.storage.cut(2)
    assert found(host).state == "transport-offline"
    for call in (host.scsi.identity, host.scsi.rescan):
        with pytest.raises(OperationError, match="it does not answer"):
            call(found(host))
    with pytest.raises(OperationError, match="cannot flush"):
        host.scsi.flush(found(host).device)
    host.storage.mend(2)
    assert host.scsi.identity(found(host)) == "3600a"
    host.storage.unplug(A)
    assert found(host).state == "running"
    with pytest.raises(OperationError, match="it does not answer"):
        host.scsi.identity(found(host))


def test_a_map_works_with_its_last_path_and_not_without_it(host: FakeHost) -> None:
    host.storage.multipathd = True
    host.storage.plug(B, host.storage.plug(A, "3600a"))
    host.scsi.scan(2)
    host.scsi.scan(3)
    host.storage.cut(2)
    host.scsi.flush(Path("/dev/dm-0"))
    host.storage.cut(3)
    with pytest.raises(OperationError, match="cannot flush"):
        host.scsi.flush(Path("/dev/dm-0"))


def test_growth_is_seen_path_by_path_and_then_by_the_map(host: FakeHost) -> None:
    host.storage.multipathd = True
    lun = host.storage.plug(A, "3600a", size=16 * MIB)
    host.storage.plug(B, lun)
    host.scsi.scan(2)
    host.scsi.scan(3)
    lun.grow(32 * MIB)
    over = host.scsi.map_over(host.scsi.disks())
    assert over is not None
    assert host.scsi.rescan(over.disks[0]).size == 32 * MIB
    host.scsi.grow_map(over)
    assert host.block.size(over.device) == 16 * MIB
    host.scsi.rescan(over.disks[1])
    host.scsi.grow_map(over)
    assert host.block.size(over.device) == 32 * MIB


def test_what_is_slow_comes_while_somebody_waits_for_it(host: FakeHost) -> None:
    host.storage.multipathd = host.storage.slow = True
    host.storage.plug(B, host.storage.plug(A, "3600a"))
    host.scsi.scan(2)
    host.scsi.scan(3)
    assert host.scsi.disk_at(A) is None
    assert host.scsi.awaited(lambda: host.scsi.disk_at(A)) is not None
    assert host.scsi.awaited(lambda: host.scsi.map_over(host.scsi.disks())) is not None


def test_what_does_not_come_takes_all_the_time_that_it_was_given(host: FakeHost) -> None:
    began = host.now
    assert host.scsi.awaited(lambda: None, deadline=12.0) is None
    assert host.now - began == 12.0
    assert host.scsi.awaited(lambda: None, deadline=12.0, cancelled=lambda: True) is None
    assert host.now - began == 12.0


def test_a_boot_forgets_disks_and_maps_and_the_storage_keeps_what_is_on_them(host: FakeHost) -> None:
    host.storage.multipathd = True
    host.storage.plug(B, host.storage.plug(A, "3600a"))
    host.scsi.scan(2)
    mount(host, found(host).device)
    host.put(TARGET / "file", b"x")
    host.reboot()
    assert (host.scsi.disks(), host.storage.maps, host.table) == ((), (), {})
    assert not host.files.names(Path("/dev/disk/by-id"))
    host.scsi.scan(2)
    mount(host, found(host).device)
    assert host.content(TARGET / "file") == b"x"


def test_there_are_names_for_more_disks_than_letters(host: FakeHost) -> None:
    for lun in range(60):
        host.storage.plug((2, 0, 0, lun), f"3600{lun}")
    host.scsi.scan(2)
    names = [disk.name for disk in host.scsi.disks()]
    assert len(set(names)) == 60
    assert {"sdb", "sdz", "sdaa", "sdaz", "sdbi"} <= set(names)


def test_a_scsi_host_that_is_not_there_cannot_be_scanned(host: FakeHost) -> None:
    with pytest.raises(OperationError, match="cannot scan SCSI host 9: there is none"):
        host.scsi.scan(9)
