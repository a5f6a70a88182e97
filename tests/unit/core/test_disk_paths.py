"""The paths of one disk: who they lead to, which device is given, and in which order they go."""

from pathlib import Path

import pytest

from volmgr.disk_paths import DEGRADED, ConnectedDisk, DiskPaths, Look, Sight
from volmgr.errors import BusyError, OperationError
from volmgr.host.interface import SCSI_DEADLINE, Host, ScsiAddress, ScsiDisk
from volmgr.testing import FakeHost, Fault, FaultHost

ONE, TWO = ScsiAddress(2, 0, 0, 5), ScsiAddress(3, 0, 0, 5)
SDB, SDC, DM = Path("/dev/sdb"), Path("/dev/sdc"), Path("/dev/dm-0")
WWID, OTHER = "36001405aa", "36001405bb"


def paths(host: Host, name: str = "one") -> DiskPaths:
    return DiskPaths(host, "kubernetes.io/disk", host.paths.plugins / "kubernetes.io/disk" / name, f"volume {name}")


def at(*addresses: ScsiAddress) -> Look:
    return lambda: Sight(addresses=addresses)


BOTH = at(ONE, TWO)


def connect(host: Host, look: Look = BOTH, *, several: bool = False, in_use: bool = False) -> ConnectedDisk:
    found = paths(host).connect(look, several=several, in_use=in_use)
    assert found is not None
    return found


def host_with_a_disk(*, by: tuple[ScsiAddress, ...] = (ONE, TWO), multipathd: bool = False) -> FakeHost:
    host = FakeHost()
    host.storage.multipathd = multipathd
    lun = host.storage.plug(by[0], WWID)
    for address in by[1:]:
        host.storage.plug(address, lun)
    return host


def asked(host: FaultHost) -> list[str]:
    """Name the disks that were asked who they are."""
    calls = (call for call in host.trace if call.verb == "scsi.identity")
    return [disk.name for call in calls for disk in call.args if isinstance(disk, ScsiDisk)]


def devices(host: FakeHost) -> list[Path]:
    return [disk.device for disk in host.storage.known]


# Finding and giving


def test_the_kernel_is_let_look_for_the_one_lun_where_it_has_no_disk_yet() -> None:
    faulty = FaultHost(host_with_a_disk(by=(ONE,)))
    faulty.inner.scsi.scan(2)
    assert connect(faulty, at(ONE)).device == SDB
    assert "scsi.scan" not in faulty.verbs
    faulty = FaultHost(host_with_a_disk(by=(ONE,)))
    connect(faulty, at(ONE))
    (call,) = (call for call in faulty.trace if call.verb == "scsi.scan")
    assert (call.args, call.kwargs) == ((2,), {"channel": 0, "target": 0, "lun": 5, "deadline": SCSI_DEADLINE})


def test_no_look_of_the_kernel_takes_longer_than_the_request_may() -> None:
    faulty = FaultHost(host_with_a_disk(by=(ONE,)))
    target = faulty.paths.plugins / "kubernetes.io/disk/one"
    DiskPaths(faulty, "kubernetes.io/disk", target, "volume one", deadline=faulty.clock() + 7).connect(at(ONE))
    (call,) = (call for call in faulty.trace if call.verb == "scsi.scan")
    assert call.kwargs["deadline"] == 7


def test_what_the_kernel_has_asked_to_find_it_is_not_asked_again_and_what_it_knew_is() -> None:
    faulty = FaultHost(host_with_a_disk())
    faulty.inner.scsi.scan(3)
    connect(faulty)
    assert asked(faulty) == ["sdb"]  # that of host 3
    faulty.trace.clear()
    connect(faulty)
    assert sorted(asked(faulty)) == ["sdb", "sdc"]


def test_a_disk_that_could_not_be_asked_later_is_asked_at_once() -> None:
    host = FakeHost()
    host.storage.plug(ONE, "8iqn.2026-01.io.test:disk")
    faulty = FaultHost(host, [Fault(1, OperationError("no such page"), verb="scsi.identity", times=9)])
    with pytest.raises(OperationError, match="no such page"):
        paths(faulty).connect(at(ONE))


def test_a_disk_that_appears_late_is_waited_for() -> None:
    host = host_with_a_disk(by=(ONE,))
    host.storage.slow = True
    assert connect(host, at(ONE)).device == SDB


def test_no_disk_after_the_wait_is_said_by_none_and_nothing_stays() -> None:
    host = FakeHost()
    host.mkdir("/sys/class/scsi_host/host2")
    before, began = host.tree(), host.now
    assert paths(host).connect(at(ONE), disk_wait=7) is None
    assert (host.tree(), host.now - began) == (before, 7)


def test_a_host_that_cannot_be_scanned_is_told_unless_another_path_has_the_disk() -> None:
    with pytest.raises(OperationError, match="SCSI host 2"):
        paths(FakeHost()).connect(at(ONE))
    assert connect(host_with_a_disk(by=(TWO,))).device == SDB


def test_where_no_address_is_known_the_type_searches() -> None:
    host = host_with_a_disk(by=(ONE,))

    def look() -> Sight:
        disk = host.scsi.disk_of(Path(f"/dev/disk/by-id/scsi-{WWID}"))
        return Sight(disks=(disk,) if disk else ())

    found = paths(host).connect(look, search=lambda: host.scsi.scan(2))
    assert found == ConnectedDisk(device=SDB)


def test_the_map_over_the_paths_is_the_device_and_it_is_waited_for() -> None:
    host = host_with_a_disk(multipathd=True)
    host.storage.slow = True
    assert connect(host) == ConnectedDisk(device=DM)
    assert connect(host) == ConnectedDisk(device=DM)


def test_without_multipathd_the_first_path_is_the_device_and_that_is_told() -> None:
    host = host_with_a_disk()
    found = connect(host)
    assert found.device == SDB
    (notice,) = found.notices
    assert (notice.reason, "multipathd does not run" in notice.message) == (DEGRADED, True)


def test_a_map_that_does_not_come_is_waited_for_only_so_long_and_that_is_told() -> None:
    host = host_with_a_disk(multipathd=True)
    host.storage.paths_of_a_map = 3
    began = host.now
    (notice,) = connect(host).notices
    assert "multipathd made no map of them" in notice.message
    assert host.now - began == 10
    assert connect(host, in_use=True).device == SDB
    assert host.now - began == 10


def test_one_path_of_several_waits_for_its_map_too() -> None:
    host = host_with_a_disk(by=(ONE,), multipathd=True)
    host.storage.paths_of_a_map = 1
    host.storage.slow = True
    assert connect(host, at(ONE), several=True).device == DM


# Who the disk is


def test_what_the_kernel_only_remembers_is_removed_and_looked_for_anew() -> None:
    host = host_with_a_disk(multipathd=True)
    host.scsi.scan(2)
    host.scsi.scan(3)
    for address in (ONE, TWO):
        host.storage.plug(address, OTHER)
    assert connect(host).device == DM
    assert [over.wwid for over in host.storage.maps] == [OTHER]
    assert {host.scsi.remembered_identity(disk) for disk in host.storage.known} == {OTHER}


def test_a_path_whose_lun_was_taken_away_is_no_path() -> None:
    host = host_with_a_disk()
    connect(host)
    host.storage.unplug(ONE)
    assert connect(host).device == SDC
    host.storage.unplug(TWO)
    assert paths(host).connect(BOTH) is None
    assert devices(host) == []


def test_a_stale_disk_that_somebody_uses_is_never_taken_away_from_them() -> None:
    host = host_with_a_disk(by=(ONE,))
    host.scsi.scan(2)
    host.busy[SDB] = ("vgs",)
    host.storage.plug(ONE, OTHER)
    with pytest.raises(BusyError, match="vgs"):
        paths(host).connect(at(ONE))
    assert devices(host) == [SDB]


def test_paths_to_different_disks_are_refused_and_named() -> None:
    host = host_with_a_disk(by=(ONE,))
    host.storage.plug(TWO, OTHER)
    with pytest.raises(OperationError) as caught:
        paths(host).connect(BOTH)
    for word in ("volume one", f"/dev/sdb (2:0:0:5) to {WWID}", f"/dev/sdc (3:0:0:5) to {OTHER}"):
        assert word in str(caught.value)
    paths(host).take_away(BOTH)
    assert devices(host) == []


def test_a_volume_in_use_must_be_the_disk_that_it_was() -> None:
    host = host_with_a_disk(by=(ONE,))
    connect(host, at(ONE))
    host.storage.plug(ONE, OTHER)
    with pytest.raises(OperationError, match=f"leads to the disk {OTHER} now, and the volume in use is {WWID}"):
        paths(host).connect(at(ONE), in_use=True)
    assert devices(host) == [SDB]
    assert connect(host, at(ONE)).device == SDB  # nobody uses it: it may be another one


def test_a_map_of_another_disk_is_refused() -> None:
    host = host_with_a_disk(multipathd=True)
    connect(host)
    for address in (ONE, TWO):
        host.storage.plug(address, OTHER)
    host.busy[DM] = ("vgs",)
    with pytest.raises(BusyError):
        paths(host).connect(BOTH)


def test_a_path_that_is_down_is_told_and_the_others_serve() -> None:
    host = host_with_a_disk(multipathd=True)
    connect(host)
    host.storage.cut(2)
    found = connect(host)
    assert found.device == DM
    (notice,) = found.notices
    assert "/dev/sdb (2:0:0:5, transport-offline)" in notice.message


def test_when_no_path_answers_that_is_told_and_all_stays() -> None:
    host = host_with_a_disk()
    connect(host)
    host.storage.cut(2)
    host.storage.cut(3)
    with pytest.raises(OperationError, match="no path answers"):
        paths(host).connect(BOTH)
    assert devices(host) == [SDB, SDC]


def test_a_volume_that_is_used_by_one_path_goes_on_with_that_one() -> None:
    host = host_with_a_disk()
    connect(host)
    host.busy[SDC] = ("mount",)
    assert connect(host, in_use=True).device == SDC
    host.storage.cut(3)
    assert connect(host, in_use=True).device == SDC


# Growing


def test_a_disk_grows_by_all_its_paths_and_their_map() -> None:
    host = host_with_a_disk(multipathd=True)
    connect(host)
    lun, _ = host.storage.mapped[ONE]
    lun.grow(32 << 20)
    assert paths(host).grow(BOTH) == DM
    assert [host.block.size(device) for device in (SDB, SDC, DM)] == [32 << 20] * 3


def test_a_disk_does_not_grow_while_a_path_cannot() -> None:
    host = host_with_a_disk(multipathd=True)
    connect(host)
    host.storage.cut(3)
    with pytest.raises(OperationError, match="/dev/sdc"):
        paths(host).grow(BOTH)
    with pytest.raises(OperationError, match="no path to it is known"):
        paths(host, "two").grow(at())


# Taking away


def test_the_map_is_flushed_and_removed_then_each_path_is_flushed_then_each_is_removed() -> None:
    faulty = FaultHost(host_with_a_disk(multipathd=True))
    connect(faulty)
    faulty.trace.clear()
    paths(faulty).take_away(BOTH)
    changes = [call for call in faulty.trace if call.verb in {"scsi.remove_map", "scsi.flush", "scsi.remove"}]
    assert [call.verb.removeprefix("scsi.") for call in changes] == ["remove_map", "flush", "flush", "remove", "remove"]
    assert [call.args[0] for call in changes[1:3]] == [SDB, SDC]
    paths(faulty).take_away(BOTH)


@pytest.mark.parametrize("device", [DM, SDB, SDC])
def test_a_flush_that_fails_stops_it_and_the_next_try_goes_on(device: Path) -> None:
    host = host_with_a_disk(multipathd=True)
    connect(host)
    host.storage.unflushable.add(device)
    with pytest.raises(OperationError, match=f"cannot flush {device}"):
        paths(host).take_away(BOTH)
    assert devices(host) == [SDB, SDC]
    assert bool(host.storage.maps) is (device == DM)
    host.storage.unflushable.clear()
    paths(host).take_away(BOTH)
    assert (devices(host), host.storage.maps) == ([], ())


def test_a_path_that_is_down_need_not_be_flushed_where_a_map_was() -> None:
    host = host_with_a_disk(multipathd=True)
    connect(host)
    host.storage.cut(2)
    paths(host).take_away(BOTH)
    assert devices(host) == []
    host = host_with_a_disk(by=(ONE,))
    connect(host, at(ONE))
    host.storage.cut(2)
    with pytest.raises(OperationError, match="cannot flush /dev/sdb"):
        paths(host).take_away(at(ONE))


def test_paths_of_which_nothing_else_leads_to_the_volume_go_too() -> None:
    host = host_with_a_disk(multipathd=True)
    connect(host)
    paths(host).take_away(at())
    assert (devices(host), host.storage.maps) == ([], ())


def test_a_disk_in_use_and_one_that_is_another_volume_s_stay() -> None:
    host = host_with_a_disk(by=(ONE,))
    connect(host, at(ONE))
    host.busy[SDB] = ("vgs",)
    with pytest.raises(BusyError, match="vgs"):
        paths(host).take_away(at(ONE))
    host.busy.clear()
    host.scsi.remove(host.storage.known[0])
    host.storage.plug(ONE, OTHER)
    host.scsi.scan(2)
    paths(host).take_away(at(ONE))
    assert devices(host) == [SDB]


def test_what_was_never_connected_as_this_volume_is_left_to_who_uses_it() -> None:
    host = host_with_a_disk(by=(ONE,))
    host.scsi.scan(2)
    host.busy[SDB] = ("vgs",)
    paths(host).take_away(at(ONE))
    assert devices(host) == [SDB]
    host.busy.clear()
    paths(host).take_away(at(ONE))
    assert devices(host) == []


def test_who_a_disk_was_is_forgotten_and_a_damaged_record_says_nothing() -> None:
    host = host_with_a_disk(by=(ONE,))
    connect(host, at(ONE))
    top = host.paths.state / "disk/disks"
    (name,) = host.files.names(top)
    for damage in (b"{", b"[]", b"", b'{"identity": 7}'):
        host.put(top / name, damage)
        assert connect(host, at(ONE), in_use=True).device == SDB
    paths(host).forget()
    assert host.files.names(top) == ()
    paths(host).forget()
