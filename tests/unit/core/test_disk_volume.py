"""What all volume types of network disks share, by one that knows its disks by LUN numbers alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from volmgr.errors import BusyError, DeviceLostError, NotReconstructible, OperationError
from volmgr.host.interface import Host, ScsiAddress
from volmgr.plugin import (
    ConnectedDisk,
    DiskVolume,
    Expand,
    Handles,
    MountDevice,
    Sight,
    UnmountDevice,
    VolumeMode,
    VolumeSpec,
)
from volmgr.testing import FakeHost, Fault, FaultHost, Volume, pod

MIB = 1 << 20
HOSTS = (2, 3)
"""The SCSI hosts by which the storage is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LunSource:
    """Which disk it is."""

    lun: int
    fs_type: str = ""


class Lun(DiskVolume[LunSource]):
    """Give a Pod a LUN of the only storage that there is."""

    name = "example.com/lun"
    handles = (Handles("lun", source=LunSource),)

    def volume_name(self, spec: VolumeSpec[LunSource]) -> str:
        return str(spec.source.lun)

    def _directory(self, spec: VolumeSpec[LunSource]) -> str:
        return f"lun-{spec.source.lun}"

    def _fs_type(self, source: LunSource) -> str:
        return source.fs_type

    def _connect(self, request: MountDevice[LunSource], host: Host) -> ConnectedDisk:
        disk = self._disk(request, host).connect(
            lambda: sight(request.spec.source.lun), in_use=self._is_used(request, host)
        )
        if disk is None:
            raise OperationError(f"no disk has LUN {request.spec.source.lun}")
        return disk

    def _disconnect(self, request: UnmountDevice, host: Host) -> None:
        lun = int(request.target.name.removeprefix("lun-"))
        self._disk(request, host).take_away(lambda: sight(lun), device=request.device_path)

    def _grow(self, request: Expand[LunSource], host: Host) -> Path:
        return self._disk(request, host).grow(lambda: sight(request.spec.source.lun))

    def _places(self, top: Path, host: Host) -> Iterable[Path]:
        return [top / name for name in host.files.names(top) if name.startswith("lun-")]

    def _rebuilt(self, place: Path, host: Host) -> LunSource:
        del host
        number = place.name.removeprefix("lun-")
        if not number.isdecimal():
            raise NotReconstructible(f"{place} names no LUN")
        return LunSource(lun=int(number))


def sight(lun: int) -> Sight:
    return Sight(addresses=tuple(ScsiAddress(number, 0, 0, lun) for number in HOSTS))


@pytest.fixture
def host() -> FakeHost:
    """A node with multipathd, and a storage that shows LUN 1 by two hosts."""
    host = FakeHost()
    host.storage.multipathd = True
    host.storage.plug((3, 0, 0, 1), host.storage.plug((2, 0, 0, 1), "3600a"))
    return host


@pytest.fixture(params=VolumeMode, ids=str)
def volume(request: pytest.FixtureRequest) -> Volume:
    return Volume(Lun(), LunSource(lun=1), spec_fields={"mode": request.param})


FILES = Volume(Lun(), LunSource(lun=1))
BLOCK = Volume(Lun(), LunSource(lun=1), spec_fields={"mode": VolumeMode.BLOCK})


def test_a_pod_gets_the_map_over_all_paths_and_nothing_is_left_afterwards(host: FakeHost, volume: Volume) -> None:
    before = volume.set_up(host)
    before.mount(host)
    assert before.device_path == "/dev/dm-0"
    assert host.files.info(before.target(host), follow=True) is not None
    before.unmount(host)
    before.unmount_device(host)
    before.detach(host)
    assert (host.scsi.disks(), host.storage.maps, host.table, host.block.find_loops(Path("/dev/dm-0"))) == (
        (),
        (),
        {},
        (),
    )
    directory = before.device_target(host)
    assert directory is not None
    assert host.files.info(directory) is None


def test_everything_is_done_twice_without_a_difference(host: FakeHost, volume: Volume) -> None:
    once = volume.set_up(host)
    once.mount(host)
    after = host.tree()
    twice = once.set_up(host)
    twice.mount(host)
    assert (twice, host.tree()) == (once, after)
    for _ in range(2):
        twice.unmount(host)
    for _ in range(2):
        twice.unmount_device(host)
    assert host.table == {}


def test_a_second_pod_has_what_the_first_one_wrote(host: FakeHost) -> None:
    first = FILES.set_up(host)
    first.mount(host)
    second = replace(first, pod=pod("second"))
    second.set_up(host).mount(host)
    host.put(first.target(host) / "file", b"x")
    first.unmount(host)
    assert host.content(second.target(host) / "file") == b"x"


def test_a_volume_that_cannot_be_mounted_is_given_back(host: FakeHost, volume: Volume) -> None:
    host.programs.pop("blkid")  # nobody can say what is on the disk
    if volume.is_block:
        host.storage.unplug((2, 0, 0, 1))
        host.storage.unplug((3, 0, 0, 1))
    with pytest.raises(OperationError):
        volume.set_up(host)
    assert (host.scsi.disks(), host.storage.maps, host.table) == ((), (), {})


def test_a_volume_in_use_stays_when_it_cannot_be_mounted_once_more(host: FakeHost) -> None:
    FILES.set_up(host).mount(host)
    faults = FaultHost(host, [Fault(1, OperationError("no"), verb="scsi.map_over")])
    with pytest.raises(OperationError, match="no"):
        FILES.set_up(faults)
    assert len(host.scsi.disks()) == 2
    assert len(host.table) == 2


def test_the_disk_goes_in_order_and_stays_where_a_flush_fails(host: FakeHost) -> None:
    """I74."""
    volume = FILES.set_up(host)
    seen = FaultHost(host)
    host.storage.unflushable.add(Path("/dev/dm-0"))
    with pytest.raises(OperationError, match="cannot flush /dev/dm-0"):
        volume.unmount_device(seen)
    assert len(host.storage.maps) == 1
    host.storage.unflushable = {Path("/dev/sdc")}
    with pytest.raises(OperationError, match="cannot flush /dev/sdc"):
        volume.unmount_device(seen)
    assert len(host.scsi.disks()) == 2
    host.storage.unflushable.clear()
    seen = FaultHost(host)
    volume.unmount_device(seen)
    changing = ("mounts.unmount", "scsi.remove_map", "scsi.flush", "scsi.remove")
    assert [verb for verb in seen.verbs if verb in changing] == [
        "mounts.unmount",
        "scsi.flush",
        "scsi.flush",
        "scsi.remove",
        "scsi.remove",
    ]
    assert host.scsi.disks() == ()


def test_a_disk_that_somebody_else_has_is_not_taken_from_him(host: FakeHost) -> None:
    volume = FILES.set_up(host)
    host.busy[Path("/dev/dm-0")] = ("123 (dd)",)
    with pytest.raises(BusyError, match=r"123 \(dd\)"):
        volume.unmount_device(host)
    host.busy.clear()
    volume.unmount_device(host)
    assert host.scsi.disks() == ()


def test_a_mount_of_the_node_that_is_gone_is_never_replaced_by_a_bare_directory(host: FakeHost) -> None:
    """I09."""
    volume = FILES.set_up(host)
    directory = volume.device_target(host)
    assert directory is not None
    host.mounts.unmount(directory)
    with pytest.raises(DeviceLostError, match=f"nothing is mounted on {directory}"):
        volume.mount(host)
    assert host.files.info(volume.target(host)) is None
    volume.set_up(host).mount(host)
    assert host.mounts.is_mount_point(volume.target(host))


def test_what_was_written_into_a_bare_directory_is_kept_and_named(host: FakeHost) -> None:
    """I09."""
    volume = FILES.set_up(host)
    volume.mount(host)
    target, directory = volume.target(host), volume.device_target(host)
    assert directory is not None
    host.mounts.unmount(target)
    host.mounts.unmount(directory)
    host.put(target / "precious", b"x")
    host.put(directory / "precious", b"x")
    with pytest.raises(OperationError, match=f"{target}"):
        volume.unmount(host)
    with pytest.raises(OperationError, match=f"{directory}"):
        volume.unmount_device(host)
    assert host.content(target / "precious") == host.content(directory / "precious") == b"x"


def test_a_path_that_is_down_is_told_to_the_pods_owner(host: FakeHost) -> None:
    FILES.set_up(host)
    host.storage.cut(3)
    notices = FILES.mount_device(host).notices
    assert [notice.reason for notice in notices] == ["PathsDegraded"]
    assert "/dev/sdc (3:0:0:1, transport-offline)" in notices[0].message


def test_a_grown_disk_is_larger_for_the_pod(host: FakeHost, volume: Volume) -> None:
    mounted = volume.set_up(host)
    mounted.mount(host)
    host.storage.mapped[ScsiAddress(2, 0, 0, 1)][0].grow(64 * MIB)
    assert mounted.expand(host).size == 64 * MIB
    if not volume.is_block:
        assert host.mounts.file_system(mounted.target(host)).size == 64 * MIB


def test_what_a_restarted_daemon_finds_is_the_volume_that_it_was(host: FakeHost, volume: Volume) -> None:
    mounted = volume.set_up(host)
    mounted.mount(host)
    found = mounted.reconstruct(host)
    assert found.spec is not None
    assert (found.spec.source, found.spec.mode, found.spec.name) == (LunSource(lun=1), mounted.spec.mode, "data")
    (device,) = Lun().devices(host)
    assert device.target == mounted.device_target(host)
    assert device.spec is not None
    assert device.spec.source == LunSource(lun=1)
    assert device.pod_uids == (("uid-web",) if volume.is_block else ())


def test_a_pods_directory_that_lost_its_mount_says_nothing(host: FakeHost, volume: Volume) -> None:
    mounted = volume.set_up(host)
    mounted.mount(host)
    for path in (mounted.target(host), *(path for path in host.table if volume.is_block)):
        host.mounts.unmount(path)
    with pytest.raises(NotReconstructible, match="does not say which volume it is"):
        mounted.reconstruct(host)


def test_after_a_reboot_what_was_connected_is_found_by_its_directory_and_can_be_let_go(host: FakeHost) -> None:
    FILES.set_up(host)
    host.mkdir(host.paths.plugin(Lun.name) / "lun-x")
    host.reboot()
    found = {device.target.name: device for device in Lun().devices(host)}
    assert found["lun-x"].problem.endswith("lun-x names no LUN")
    assert found["lun-1"].spec is not None
    FILES.unmount_device(host)
    assert host.files.info(found["lun-1"].target) is None


def test_a_lun_number_that_leads_to_another_disk_serves_neither_a_new_pod_nor_an_old_one(host: FakeHost) -> None:
    """I72."""
    volume = FILES.set_up(host)
    volume.mount(host)
    host.storage.plug((2, 0, 0, 1), "3600b")
    with pytest.raises(OperationError, match="leads to the disk 3600b now, and the volume in use is 3600a"):
        volume.mount_device(host)
    host.storage.plug((3, 0, 0, 1), host.storage.plug((2, 0, 0, 1), "3600b"))
    volume.unmount(host)
    volume.unmount_device(host)
    again = FILES.set_up(host)
    assert host.scsi.identity(host.scsi.disks()[0]) == host.scsi.remembered_identity(host.scsi.disks()[0]) == "3600b"
    assert again.device_path == "/dev/dm-0"
