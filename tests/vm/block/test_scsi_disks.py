"""`host.scsi` on the real kernel: made-up disks, and those of an iSCSI target with two portals."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.servers.backstores import Backstore
from tests.vm.servers.guest import put, settled, tell
from tests.vm.servers.iscsid import Iscsid
from tests.vm.servers.lio import Lio, Target
from tests.vm.servers.multipathd import Multipathd
from tests.vm.servers.scsi_debug import ScsiDebug, cut, mend
from volmgr.errors import BusyError, OperationError
from volmgr.host.filesystems import DeviceMount
from volmgr.host.interface import Host, MultipathMap, ScsiAddress, ScsiDisk
from volmgr.host.local import local_host

IQN = "iqn.2026-01.io.test:scsi"
PORTALS = ("127.0.0.1", "127.0.0.2")
MIB = 1 << 20
PATIENCE = 120.0
"""Seconds that the guest, which is emulated, may take for a disk or a map."""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return local_host(tmp_path)


@pytest.fixture
def debug() -> Iterator[ScsiDebug]:
    with ScsiDebug(luns=2) as debug:
        yield debug


class Storage:
    """A target with one disk, LUN 1, and a session to each of its portals that scans nothing by itself."""

    def __init__(self, host: Host, lio: Lio) -> None:
        self.host = host
        self.lio = lio
        self.target: Target = lio.target(IQN, portals=PORTALS)
        self.disk: Backstore = lio.backstore("a")
        self.target.map(1, self.disk)
        for portal in PORTALS:
            tell("iscsiadm", "-m", "node", "-T", IQN, "-p", f"{portal}:3260", "-o", "new")
        tell("iscsiadm", "-m", "node", "-T", IQN, "--login")

    @property
    def hosts(self) -> tuple[int, ...]:
        """The SCSI hosts of the sessions."""
        found = (os.path.realpath(each) for each in Path("/sys/class/iscsi_session").iterdir())
        return tuple(sorted(int(match[1]) for each in found if (match := re.search(r"/host(\d+)/", each))))

    def path(self, number: int = 0, lun: int = 1) -> ScsiDisk:
        """Let the kernel look for a LUN by one session, and give the disk."""
        address = ScsiAddress(self.hosts[number], 0, 0, lun)
        self.host.scsi.scan(address.host, channel=0, target=0, lun=lun)
        found = self.host.scsi.awaited(lambda: self.host.scsi.disk_at(address), deadline=PATIENCE)
        assert found is not None
        return found

    def whole_map(self) -> MultipathMap:
        """Give the map over both paths, when multipathd has made it."""
        paths = {self.path(0), self.path(1)}

        def look() -> MultipathMap | None:
            found = self.host.scsi.map_over(tuple(paths))
            return found if found is not None and found.size and len(found.disks) == 2 else None

        found = self.host.scsi.awaited(look, deadline=PATIENCE)
        assert found is not None
        assert set(found.disks) == paths
        return found


@pytest.fixture(scope="module")
def initiator() -> Iterator[Iscsid]:
    with Iscsid() as initiator, initiator.configured("node.session.scan = manual"):
        yield initiator


@pytest.fixture
def storage(host: Host, initiator: Iscsid) -> Iterator[Storage]:
    with Lio() as lio:
        storage = Storage(host, lio)
        yield storage
        for disk in host.scsi.disks():
            over = host.scsi.map_over([disk])
            if over is not None:
                host.scsi.remove_map(over)
        settled()
        initiator.clear()


# Disks


def test_a_disk_says_who_it_is_as_udev_writes_it_and_the_kernel_remembers_the_same(
    host: Host, debug: ScsiDebug, storage: Storage
) -> None:
    storage.path()
    settled()
    disks = host.scsi.disks()
    assert len(disks) == 3
    for disk in disks:
        identity = host.scsi.identity(disk)
        assert host.scsi.remembered_identity(disk) == identity
        assert host.scsi.disk_of(Path(f"/dev/disk/by-id/scsi-{identity}")) == disk
    assert host.scsi.identity(storage.path()) == storage.disk.wwid


def test_a_removed_disk_is_gone_and_comes_again_by_a_scan_of_its_address_alone(host: Host, debug: ScsiDebug) -> None:
    first, second = host.scsi.disks()
    for disk in (first, second, first):
        host.scsi.remove(disk)
    assert host.scsi.disks() == ()
    host.scsi.scan(debug.host, channel=0, target=0, lun=second.address.lun)
    assert host.scsi.awaited(lambda: host.scsi.disk_at(second.address)) is not None
    assert host.scsi.disk_at(first.address) is None


def test_a_disk_that_is_mounted_or_held_is_not_removed(host: Host, debug: ScsiDebug, tmp_path: Path) -> None:
    disk = host.scsi.disks()[0]
    target = tmp_path / "mnt"
    target.mkdir()
    host.filesystems.ensure_mounted(DeviceMount(device=disk.device, target=target, owner="a test"))
    for trouble in (mend, cut):  # one that does not answer is not opened, and its mount is seen all the same
        trouble(disk)
        with pytest.raises(BusyError, match="in use"):
            host.scsi.remove(disk)
    mend(disk)
    host.mounts.unmount(target)
    tell("dmsetup", "create", "t-linear", "--table", f"0 2048 linear {disk.device} 0")
    with pytest.raises(BusyError, match="held by dm-"):
        host.scsi.remove(disk)
    assert host.scsi.map_over([disk]) is None  # I75
    tell("dmsetup", "remove", "t-linear")
    host.scsi.remove(disk)
    assert host.scsi.disk_at(disk.address) is None


def test_a_write_that_was_lost_at_the_last_closing_fails_the_flush_and_not_that_of_blockdev(
    host: Host, debug: ScsiDebug, tmp_path: Path
) -> None:
    disk = host.scsi.disks()[0]
    target = tmp_path / "mnt"
    target.mkdir()
    host.filesystems.ensure_mounted(DeviceMount(device=disk.device, target=target, owner="a test"))
    (target / "file").write_bytes(bytes(MIB))
    settled()
    cut(disk)
    host.mounts.unmount(target)  # and nobody says that what was written is lost
    with pytest.raises(OperationError, match="cannot flush"):
        host.scsi.flush(disk.device)
    mend(disk)
    assert subprocess.run(["blockdev", "--flushbufs", disk.device], check=False).returncode == 0
    with pytest.raises(OperationError, match="cannot flush"):
        host.scsi.flush(disk.device)
    host.scsi.flush(disk.device)  # it was told once: what is lost is lost


def test_a_disk_without_its_path_cannot_be_asked_nor_rescanned(host: Host, debug: ScsiDebug) -> None:
    disk = host.scsi.disks()[0]
    cut(disk)
    for call in (host.scsi.identity, host.scsi.rescan):
        with pytest.raises(OperationError, match="cannot "):
            call(disk)
    host.scsi.remove(disk)
    assert host.scsi.disk_at(disk.address) is None


# Storage


def test_only_the_lun_that_was_asked_for_appears(host: Host, storage: Storage) -> None:
    storage.target.map(2, storage.lio.backstore("b"))
    assert host.scsi.disks() == ()
    storage.path(lun=2)
    assert [disk.address.lun for disk in host.scsi.disks()] == [2]


def test_a_lun_number_that_was_given_to_another_disk_is_noticed_and_taken_anew(host: Host, storage: Storage) -> None:
    """I72."""
    before = storage.path()
    other = storage.lio.backstore("b")
    storage.target.unmap(1)
    storage.target.map(1, other)
    again = storage.path()
    assert again.address == before.address
    assert host.scsi.remembered_identity(again) == storage.disk.wwid
    assert host.scsi.identity(again) == other.wwid
    host.scsi.remove(again)
    assert host.scsi.remembered_identity(storage.path()) == other.wwid


def test_a_lun_that_was_taken_away_does_not_answer_and_can_be_removed(host: Host, storage: Storage) -> None:
    disk = storage.path()
    storage.target.unmap(1)
    with pytest.raises(OperationError, match="cannot ask"):
        host.scsi.identity(disk)
    host.scsi.remove(disk)
    assert host.scsi.disks() == ()


def test_a_grown_disk_has_its_size_after_a_rescan(host: Host, storage: Storage) -> None:
    disk = storage.path()
    storage.disk.grow(2 * disk.size)
    assert host.scsi.rescan(disk).size == 2 * disk.size == host.block.size(disk.device)


# Maps


def test_a_map_over_two_paths_is_found_grown_and_taken_away(host: Host, storage: Storage) -> None:
    assert not host.scsi.multipath_runs()
    with Multipathd():
        assert host.scsi.multipath_runs()
        over = storage.whole_map()
        assert over.wwid == storage.disk.wwid
        assert host.scsi.map_of(Path("/dev/mapper") / over.name) == over
        with pytest.raises(BusyError, match=f"held by {over.kernel_name}"):
            host.scsi.remove(over.disks[0])
        storage.disk.grow(2 * over.size)
        for disk in over.disks:
            host.scsi.rescan(disk)
        host.scsi.grow_map(over)
        assert host.block.size(over.device) == 2 * over.size
        host.scsi.grow_map(over)
        host.scsi.remove_map(over)
        host.scsi.remove_map(over)
        assert host.scsi.map_over(over.disks) is None
        for disk in over.disks:
            host.scsi.flush(disk.device)
        for disk in over.disks:
            host.scsi.remove(disk)
        assert host.scsi.disks() == ()


@pytest.mark.slow
def test_a_map_that_is_used_stays(host: Host, storage: Storage, tmp_path: Path) -> None:
    target = tmp_path / "mnt"
    target.mkdir()
    with Multipathd():
        over = storage.whole_map()
        host.filesystems.ensure_mounted(DeviceMount(device=over.device, target=target, owner="a test"))
        with pytest.raises(BusyError, match="in use"):
            host.scsi.remove_map(over)
        host.mounts.unmount(target)
        held = os.open(over.device, os.O_RDONLY)
        with pytest.raises(BusyError, match=over.name):
            host.scsi.remove_map(over)
        os.close(held)
        host.scsi.remove_map(over)


def test_a_map_without_a_path_that_would_wait_for_one_fails_what_is_lost_and_goes_then(
    host: Host, storage: Storage
) -> None:
    """I74: the failed flush stops the removal."""
    with Multipathd():
        over = storage.whole_map()
        tell("dmsetup", "message", over.name, "0", "queue_if_no_path")
        with subprocess.Popen(
            ["sh", "-c", f"exec 3>{over.device}; head -c {MIB} /dev/zero >&3; echo; read end"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdin is not None
            writer.stdout.readline()  # it is written, into memory
            for disk in over.disks:
                cut(disk)
                tell("dmsetup", "message", over.name, "0", f"fail_path {number(disk)}")
            writer.stdin.close()  # its end closes the device, which waits for a path until somebody says otherwise
            with pytest.raises(OperationError):
                host.scsi.remove_map(over)
            assert host.scsi.map_of(over.device) is not None
        for disk in over.disks:
            mend(disk)
            tell("dmsetup", "message", over.name, "0", f"reinstate_path {number(disk)}")
        host.scsi.remove_map(over)
        assert host.scsi.map_of(over.device) is None


def number(disk: ScsiDisk) -> str:
    return Path(f"/sys/block/{disk.name}/dev").read_text().strip()


def test_a_path_that_comes_late_is_awaited_and_not_looked_for_again_and_again(host: Host, storage: Storage) -> None:
    looks: list[ScsiDisk | None] = []
    address = ScsiAddress(storage.hosts[0], 0, 0, 1)

    def look() -> ScsiDisk | None:
        if not looks:
            scan = Path(f"/sys/class/scsi_host/host{address.host}/scan")
            put(scan, f"{address.channel} {address.target} {address.lun}")
        looks.append(host.scsi.disk_at(address))
        return looks[-1]

    assert host.scsi.awaited(look) is not None
    assert len(looks) < 20
