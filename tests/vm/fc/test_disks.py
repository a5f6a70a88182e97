"""The type itself on a real fabric: paths that come and go, who a disk is, growth, and the order in which it goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.vm.fc.site import MIB, Site, Writer, assert_sound, numbers
from tests.vm.servers.fibre_channel import FibreChannel
from tests.vm.servers.guest import settled
from tests.vm.servers.multipathd import Multipathd, slaves
from volmgr.host.interface import Host
from volmgr.host.local import local_host
from volmgr.plugin import OperationError
from volmgr.testing import FaultHost, Volume
from volmgr_fc.names import FibreChannelSource
from volmgr_fc.plugin import FibreChannel as FibreChannelType
from volmgr_fc.settings import FibreChannelSettings

SETTINGS = FibreChannelSettings(disk_wait=5.0, map_wait=30.0)


@pytest.fixture
def host(site: Site, top: Path) -> Iterator[Host]:
    """This guest, with an empty root; no disk of the fabric is left when the test has ended."""
    host = local_host(top).with_settings(SETTINGS)
    yield host
    left = [entry.target for entry in host.mounts.below(host.paths.root)]
    for target in left:
        host.mounts.unmount(target, lazy=True)
    assert left == []
    assert (site.fabric.disks(), site.multipathd.maps()) == ((), {})
    assert [path for path in (top / "volmgr/fc").rglob("*") if path.is_file()] == []


def lun(fabric: FibreChannel, number: int, *, name: str = "pv-1", **spec: object) -> Volume:
    """Give a volume of a LUN at both ports."""
    source = FibreChannelSource(target_wwns=fabric.wwns, lun=number)
    return Volume(FibreChannelType(), source, name=name, spec_fields=spec)


def scan(fabric: FibreChannel, number: int) -> None:
    """Let the node know a LUN, as some scan of somebody else does."""
    Path(f"/sys/class/scsi_host/host{fabric.host()}/scan").write_text(f"- - {number}")
    settled()


def give_back(volume: Volume, host: Host) -> None:
    volume.unmount(host)
    volume.unmount_device(host)


def test_one_path_is_found_by_its_port_and_nothing_stays(host: Host, fabric: FibreChannel) -> None:
    disk = fabric.backstore("one")
    fabric.map(1, disk, cards=("eth1",))
    fabric.map(12, fabric.backstore("other"))
    ready = lun(fabric, 1).set_up(host)
    assert ready.device_path == f"/dev/{fabric.disks()[0]}"
    assert len(fabric.disks()) == 1
    ready.mount(host)
    (ready.target(host) / "file").write_text("written")
    assert ready.reconstruct(host).spec.source == ready.source
    give_back(ready, host)
    assert_sound(disk)


def test_a_disk_is_found_by_its_wwid(host: Host, fabric: FibreChannel) -> None:
    disk = fabric.backstore("wwid")
    fabric.map(3, disk)
    source = FibreChannelSource(wwids=(disk.wwid,))
    ready = Volume(FibreChannelType(), source, name="pv-1").set_up(host)
    assert host.scsi.identity(host.scsi.disks()[-1]) == disk.wwid
    assert len(fabric.disks()) == 2
    ready.unmount_device(host)


def test_a_mounted_volume_whose_lun_was_given_away_is_refused_and_the_other_disk_not_touched(
    host: Host, fabric: FibreChannel
) -> None:
    old, new = fabric.backstore("mounted"), fabric.backstore("stranger")
    fabric.map(8, old, cards=("eth1",))
    ready = lun(fabric, 8).set_up(host)
    fabric.unmap(8)
    fabric.map(8, new, cards=("eth1",))
    with pytest.raises(OperationError, match=f"leads to the disk {new.wwid} now, and the volume in use is {old.wwid}"):
        ready.mount_device(host)
    fabric.unmap(8)
    fabric.map(8, old, cards=("eth1",))
    ready.mount_device(host)
    ready.unmount_device(host)
    assert new.file.read_bytes().strip(b"\0") == b""


def test_a_path_that_is_lost_under_io_and_returns_loses_nothing(
    host: Host, fabric: FibreChannel, multipath: Multipathd
) -> None:
    disk = fabric.backstore("paths")
    disk.format()
    fabric.map(6, disk)
    ready = lun(fabric, 6).set_up(host)
    ((name, wwid),) = multipath.maps().items()
    assert (wwid, len(slaves(Path(ready.device_path)))) == (disk.wwid, 2)
    ready.mount(host)
    with Writer(ready.target(host)) as writer:
        with writer.pause:
            fabric.cut_off("eth1")
        multipath.until_paths(name, ["active", "failed"])
        writer.until_more()
        (told,) = {notice.reason for notice in ready.mount_device(host).notices}
        assert told == "PathsDegraded"
        fabric.reconnect("eth1")
        fabric.until_remote_ports(2)
        multipath.until_paths(name, ["active", "active"])
        writer.until_more()
    assert ready.mount_device(host).notices == ()
    assert numbers(ready.target(host)) == writer.count
    give_back(ready, host)
    assert_sound(disk)


def test_the_map_goes_before_its_paths_and_what_was_written_is_there(
    host: Host, fabric: FibreChannel, multipath: Multipathd
) -> None:
    disk = fabric.backstore("order")
    fabric.map(6, disk)
    faulty = FaultHost(host)
    ready = lun(fabric, 6).set_up(faulty)
    assert list(multipath.maps().values()) == [disk.wwid]
    ready.mount(faulty)
    (ready.target(host) / "file").write_bytes(b"dirty" * MIB)
    faulty.trace.clear()
    give_back(ready, faulty)
    changes = [verb for verb in faulty.verbs if verb in {"scsi.remove_map", "scsi.flush", "scsi.remove"}]
    assert changes == ["scsi.remove_map", "scsi.flush", "scsi.flush", "scsi.remove", "scsi.remove"]
    assert_sound(disk)
    again = lun(fabric, 6).set_up(host)
    again.mount(host)
    assert (again.target(host) / "file").read_bytes() == b"dirty" * MIB
    give_back(again, host)


def test_of_two_luns_of_the_storage_each_goes_alone_in_whichever_order(
    host: Host, fabric: FibreChannel, multipath: Multipathd
) -> None:
    both: list[Volume] = []
    for number in (1, 12):
        fabric.map(number, fabric.backstore(f"lun{number}"))
        both.append(lun(fabric, number, name=f"pv-{number}").set_up(host))
        both[-1].mount(host)
    for first, second in (both, both[::-1]):
        assert len(multipath.maps()) == 2
        give_back(first, host)
        assert (len(fabric.disks()), len(multipath.maps())) == (2, 1)
        (second.target(host) / "file").write_text("still here")
        first.set_up(host).mount(host)
    for each in both:
        give_back(each, host)


def test_a_lun_number_that_was_given_to_another_disk_is_never_the_old_one(
    host: Host, fabric: FibreChannel, multipath: Multipathd
) -> None:
    old, new = fabric.backstore("old"), fabric.backstore("new")
    fabric.map(7, old)
    scan(fabric, 7)
    eventually(lambda: list(multipath.maps().values()) == [old.wwid], "the map of the old disk")
    fabric.unmap(7)
    fabric.map(7, new)
    ready = lun(fabric, 7).set_up(host)
    assert list(multipath.maps().values()) == [new.wwid]
    ready.mount(host)
    (ready.target(host) / "file").write_text("for the new one")
    give_back(ready, host)
    assert_sound(new)
    assert old.file.read_bytes().strip(b"\0") == b""


@pytest.mark.slow
def test_a_mounted_volume_grows_with_its_paths_and_its_map(
    host: Host, fabric: FibreChannel, multipath: Multipathd
) -> None:
    disk = fabric.backstore("growing")
    fabric.map(9, disk)
    ready = lun(fabric, 9).set_up(host)
    assert len(multipath.maps()) == 1
    ready.mount(host)
    (ready.target(host) / "file").write_text("before")
    was = os.statvfs(ready.target(host)).f_blocks
    disk.grow(128 * MIB)
    assert ready.expand(host, new_size=128 * MIB).size == 128 * MIB
    assert os.statvfs(ready.target(host)).f_blocks > 1.8 * was
    assert (ready.target(host) / "file").read_text() == "before"
    give_back(ready, host)
    assert_sound(disk)


@pytest.mark.slow
def test_what_kubelet_left_is_given_back(host: Host, fabric: FibreChannel, multipath: Multipathd) -> None:
    fabric.map(14, fabric.backstore("kubelet"))
    ready = lun(fabric, 14).set_up(host)
    assert len(multipath.maps()) == 1
    host.files.remove_tree(host.paths.state / "fc")
    (found,) = FibreChannelType().devices(host)
    assert found.spec is not None
    assert found.spec.source == ready.source
    replace(ready, plugin=FibreChannelType(), device_path="").unmount_device(host)


def test_the_doctor_finds_what_volumes_need(host: Host, fabric: FibreChannel, multipath: Multipathd) -> None:
    del fabric, multipath
    found = {each.check: each for each in FibreChannelType().requirements(host)}
    assert [name for name, each in found.items() if not each.met] == []
    assert "is online" in found["fc_host"].detail
