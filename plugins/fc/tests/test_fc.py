"""Volumes of fc on a fabric in memory."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from volmgr.plugin import (
    BusyError,
    DeviceMounted,
    Found,
    NotReconstructible,
    OperationError,
    ScsiAddress,
    SpecError,
    UnansweredError,
    UncertainError,
    VolumeMode,
)
from volmgr.testing import FakeHost, Fault, FaultHost, Volume, pod
from volmgr_fc.contract import PORTS, show_port
from volmgr_fc.names import FibreChannelSource
from volmgr_fc.plugin import FibreChannel
from volmgr_fc.settings import FibreChannelSettings

MIB = 1 << 20
WWID, OTHER = "360060e801049cfd100000000000000a1", "360060e801049cfd100000000000000a2"
SDB, SDC, DM = Path("/dev/sdb"), Path("/dev/sdc"), Path("/dev/dm-0")
GLOBAL = "plugins/kubernetes.io/fc"


def volume(*wwns: str, lun: int | None = 5, wwids: tuple[str, ...] = (), **spec: object) -> Volume:
    source = FibreChannelSource(target_wwns=wwns, lun=lun if wwns else None, wwids=wwids)
    return Volume(FibreChannel(), source, name="pv-1", spec_fields=spec)


def fabric(*, ports: tuple[str, ...] = PORTS, multipathd: bool = False) -> FakeHost:
    """A host each of whose ports sees one of the storage's."""
    host = FakeHost()
    host.storage.multipathd = multipathd
    for number, wwn in enumerate(ports, 2):
        show_port(host, number, wwn)
        host.mkdir(f"/sys/class/scsi_host/host{number}")
    return host


def address(number: int = 2, lun: int = 5) -> ScsiAddress:
    return ScsiAddress(number, 0, 0, lun)


def map_lun(host: FakeHost, wwid: str = WWID, *, lun: int = 5, ports: int = 2) -> None:
    """Let the first ports lead to one disk."""
    disk = host.storage.plug(address(2, lun), wwid, size=2 * MIB)
    for number in range(3, 2 + ports):
        host.storage.plug(address(number, lun), disk)


def fabric_with_a_lun(*, multipathd: bool = False) -> FakeHost:
    host = fabric(multipathd=multipathd)
    map_lun(host)
    return host


def disks(host: FakeHost) -> list[Path]:
    return [disk.device for disk in host.storage.known]


def at(host: FakeHost, name: str) -> Path:
    return host.paths.root / GLOBAL / name


# Found, mounted, given back


def test_a_lun_is_looked_for_only_where_its_ports_are() -> None:
    host = fabric(ports=(*PORTS, "50060e8000000000"))
    map_lun(host)
    faulty = FaultHost(host)
    volume(*PORTS).mount_device(faulty)
    scans = [(call.args, call.kwargs) for call in faulty.trace if call.verb == "scsi.scan"]
    where = {"channel": 0, "target": 0, "lun": 5, "deadline": 30}
    assert scans == [((2,), where), ((3,), where)]


def test_a_port_is_named_in_any_case() -> None:
    ready = volume(PORTS[0].upper()).set_up(fabric_with_a_lun())
    assert ready.device_path == "/dev/sdb"


def test_a_lun_of_no_port_that_the_kernel_knows_is_found_by_its_link_after_a_wide_scan() -> None:
    host = FakeHost()
    host.mkdir("/sys/class/fc_host/host2")
    host.storage.plug(address(), WWID, links=[f"by-path/pci-0000:41:00.0-fc-0x{PORTS[0]}-lun-5"])
    host.storage.plug(address(lun=55), OTHER, links=[f"by-path/pci-0000:41:00.0-fc-0x{PORTS[0]}-lun-55"])
    faulty = FaultHost(host)
    assert volume(PORTS[0]).mount_device(faulty).device_path == "/dev/sdb"
    (scan,) = (call for call in faulty.trace if call.verb == "scsi.scan")
    assert (scan.args, scan.kwargs) == ((2,), {"lun": 5})
    assert disks(host) == [SDB]


def test_no_host_is_scanned_for_ports_that_the_kernel_knows_and_waits_for() -> None:
    host = fabric()
    for port in range(2):
        host.put(f"/sys/class/fc_remote_ports/rport-{port + 2}:0-0/port_state", b"Blocked\n")
    map_lun(host)
    faulty = FaultHost(host)
    with pytest.raises(UnansweredError, match="is blocked on host2"):
        volume(*PORTS).mount_device(faulty)
    assert "scsi.scan" not in faulty.verbs


def test_one_mount_on_the_node_serves_all_pods_and_nothing_is_left() -> None:
    host = fabric_with_a_lun(multipathd=True)
    before = host.tree("/sys"), host.tree(host.paths.plugins)
    one = volume(*PORTS).set_up(host)
    two = replace(one, pod=pod("two"))
    for each in (one, two):
        each.mount(host)
    shared = at(host, "-".join(PORTS) + "-lun-5")
    assert host.table == dict.fromkeys((shared, one.target(host), two.target(host)), "ext4")
    entry = host.mounts.entry(shared)
    assert entry is not None
    assert (one.device_path, entry.source) == ("/dev/dm-0", "/dev/dm-0")
    for each in (one, two):
        each.unmount(host)
    one.unmount_device(host)
    assert (disks(host), host.storage.maps, host.table) == ([], (), {})
    assert host.files.names(host.paths.state / "fc/disks") == ()
    assert (host.tree("/sys"), host.files.names(at(host, ""))) == (before[0], ())


def test_a_disk_is_found_by_its_wwid_and_all_its_paths_go() -> None:
    for wwid in (WWID, WWID.upper(), WWID[1:]):
        host = fabric_with_a_lun(multipathd=True)
        ready = volume(wwids=(wwid,)).set_up(host)
        assert (ready.device_path, ready.device_target(host)) == ("/dev/dm-0", at(host, wwid))
        ready.unmount_device(host)
        assert disks(host) == []


def test_a_link_that_leads_to_another_disk_by_now_is_no_proof() -> None:
    host = fabric_with_a_lun()
    host.scsi.scan(2)
    host.link(f"/dev/disk/by-id/scsi-{'3' + '6' * 32}", "../../sdb")
    with pytest.raises(OperationError, match="no fc disk found"):
        volume(wwids=("3" + "6" * 32,)).mount_device(host)


@pytest.mark.parametrize("at_address", [(2, 0, 0, 7), (3, 0, 0, 5), (9, 0, 0, 5)])
def test_a_link_to_a_lun_that_is_older_than_the_disk_of_that_name_is_no_proof(
    at_address: tuple[int, int, int, int],
) -> None:
    """Not of another LUN, not of another port, not of a disk that is none of Fibre Channel."""
    host = fabric()
    host.storage.plug(at_address, OTHER, size=2 * MIB)
    host.scsi.scan(at_address[0])
    host.link(f"/dev/disk/by-path/pci-0000:41:00.0-fc-0x{PORTS[0]}-lun-5", "../../sdb")
    with pytest.raises(OperationError, match="no fc disk found"):
        volume(PORTS[0]).mount_device(host)
    assert disks(host) == [SDB]


def test_a_wwid_with_spaces_is_found_with_underscores() -> None:
    host = fabric_with_a_lun()
    host.scsi.scan(2)
    host.link("/dev/disk/by-id/scsi-SVENDOR__disk_1", "../../sdb")
    assert volume(wwids=("SVENDOR  disk 1",)).mount_device(host).device_path == "/dev/sdb"


def test_options_label_and_read_only_reach_the_mount() -> None:
    faulty = FaultHost(fabric_with_a_lun())
    volume(PORTS[0]).set_up(faulty).unmount_device(faulty)
    faulty.trace.clear()
    ready = volume(PORTS[0], read_only=True, mount_options=("noatime",))
    ready.mount_device(faulty, selinux_label="system_u:object_r:container_file_t:s0:c1,c2")
    (call,) = (call for call in faulty.trace if call.verb == "mounts.ensure_mounted")
    label = 'context="system_u:object_r:container_file_t:s0:c1,c2"'
    assert call.kwargs["options"] == ("defaults", "noatime", label, "ro")


def test_a_device_is_handed_over_as_it_is() -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS, mode=VolumeMode.BLOCK).set_up(host)
    assert ready.device_target(host) == at(host, "volumeDevices") / ("-".join(PORTS) + "-lun-5")
    assert ready.mount(host).device_path == "/dev/dm-0"
    assert host.machine.formatted(DM) is None
    rebuilt = ready.reconstruct(host)
    assert (rebuilt.spec.source, rebuilt.spec.mode) == (ready.source, VolumeMode.BLOCK)
    ready.unmount(host)
    ready.unmount_device(host)
    assert disks(host) == []


def test_a_volume_grows_with_its_paths_and_its_map() -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS).set_up(host)
    host.storage.mapped[address()][0].grow(8 * MIB)
    assert ready.expand(host, new_size=8 * MIB).size == 8 * MIB
    target = ready.device_target(host)
    assert target is not None
    assert host.mounts.file_system(target).size == 8 * MIB
    block = volume(*PORTS, mode=VolumeMode.BLOCK)
    assert block.expand(host).size == 8 * MIB


# What is not found


def test_a_lun_that_no_port_shows_is_told_with_what_is_seen() -> None:
    host = fabric()
    show_port(host, 4, "50060e8000000000", state="Blocked")
    host.put("/sys/class/fc_host/host3/port_state", b"Linkdown\n")
    before = host.tree()
    with pytest.raises(OperationError) as caught:
        volume(PORTS[0], "50060e8000000000", "50060e8000000001").mount_device(host)
    said = str(caught.value)
    for word in (
        "no fc disk found for volume kubernetes.io/fc/",
        "LUN 5 of 50060e801049cfd1, 50060e8000000000, 50060e8000000001",
        "port 50060e801049cfd1 is online on host2, and shows no LUN 5",
        "port 50060e8000000000 is blocked on host4",
        "port 50060e8000000001 is not seen",
        "host3 (1000000000000003) is linkdown",
        "look at zoning and cables",
    ):
        assert word in said
    assert not isinstance(caught.value, UnansweredError)
    assert host.tree() == before


def test_a_storage_none_of_whose_ports_is_online_is_silent() -> None:
    host = fabric(ports=())
    show_port(host, 2, PORTS[0], state="Not Present")
    host.mkdir("/sys/class/scsi_host/host2")
    with pytest.raises(UnansweredError, match="port 50060e801049cfd1 is not present on host2"):
        volume(PORTS[0]).mount_device(host)
    assert FibreChannel().endpoint(volume(*PORTS).spec) == f"target {', '.join(PORTS)}"
    assert FibreChannel().endpoint(volume(wwids=(WWID,)).spec) == ""


def test_a_node_without_fibre_channel_is_told_so() -> None:
    with pytest.raises(OperationError, match=r"\(this node has no Fibre Channel host\); load the driver"):
        volume(PORTS[0]).mount_device(FakeHost())
    with pytest.raises(OperationError, match=f"no fc disk found for .*: {WWID} "):
        volume(wwids=(WWID,)).mount_device(FakeHost())


def test_the_wait_for_a_disk_is_what_the_settings_say() -> None:
    host = fabric().with_settings(FibreChannelSettings(disk_wait=3))
    began = host.now
    with pytest.raises(OperationError, match="no fc disk found"):
        volume(PORTS[0]).mount_device(host)
    assert host.now - began == 3


def test_a_wait_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"^map_wait is -1; write seconds, such as 10$"):
        FibreChannelSettings(map_wait=-1)


def test_what_no_node_could_take_is_refused_unseen() -> None:
    faulty = FaultHost(fabric())
    of = volume("5006", lun=0)
    with pytest.raises(SpecError, match=r"fc\.targetWWNs\[0\]"):
        of.plugin.check(of.spec, None)
    with pytest.raises(SpecError, match=r"fc\.targetWWNs\[0\]"):
        of.mount_device(faulty)
    assert "scsi.scan" not in faulty.verbs


# Paths


def test_paths_that_are_missing_are_told() -> None:
    host = fabric_with_a_lun(multipathd=True)
    assert volume(*PORTS).mount_device(host) == DeviceMounted(device_path="/dev/dm-0")
    host = fabric(multipathd=True)
    map_lun(host, ports=1)
    made = volume(*PORTS, "50060e8000000001").mount_device(host)
    (alone, missing) = made.notices
    assert (alone.reason, "one alone is used" in alone.message) == ("PathsDegraded", True)
    said = "port 50060e8000000001 is not seen; port 50060e801049cfd2 is online on host3, and shows no LUN 5"
    assert said in missing.message


def test_a_path_that_is_lost_and_one_that_returns_are_no_reason_to_fail() -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS).set_up(host)
    host.storage.cut(2)
    (notice,) = ready.mount_device(host).notices
    assert "/dev/sdb (2:0:0:5, transport-offline)" in notice.message
    host.storage.mend(2)
    assert ready.mount_device(host).notices == ()


def test_a_volume_all_of_whose_paths_are_lost_stays_as_it_is() -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS).set_up(host)
    before = dict(host.table)
    for number in (2, 3):
        host.storage.cut(number)
    with pytest.raises(UnansweredError, match="no path answers"):
        ready.mount_device(host)
    assert (host.table, disks(host)) == (before, [SDB, SDC])


# LUN numbers that are given to another disk


def test_a_lun_number_that_was_given_to_another_disk_is_looked_for_anew() -> None:
    host = fabric_with_a_lun(multipathd=True)
    for number in (2, 3):
        host.scsi.scan(number)
    map_lun(host, OTHER)
    ready = volume(*PORTS).set_up(host)
    assert ready.device_path == "/dev/dm-0"
    assert [found.wwid for found in host.storage.maps] == [OTHER]


def test_a_volume_in_use_is_never_another_disk() -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS).set_up(host)
    before = dict(host.table)
    map_lun(host, OTHER)
    with pytest.raises(OperationError, match=f"leads to the disk {OTHER} now, and the volume in use is {WWID}"):
        ready.mount_device(host)
    assert host.table == before


def test_a_volume_that_kubelet_connected_is_never_another_disk_either() -> None:
    host = fabric_with_a_lun()
    ready = volume(PORTS[0]).set_up(host)
    host.files.remove_tree(host.paths.state / "fc")
    host.storage.plug(address(), OTHER, size=2 * MIB)
    with pytest.raises(OperationError, match=f"leads to the disk {OTHER} now, and the volume in use is {WWID}"):
        ready.mount_device(host)
    host.storage.plug(address(), WWID, size=2 * MIB)
    assert ready.mount_device(host).device_path == "/dev/sdb"


def test_a_volume_is_not_grown_to_the_size_of_another_disk() -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS).set_up(host)
    host.storage.plug(address(3), OTHER, size=8 * MIB)
    with pytest.raises(OperationError, match=f"leads to the disk {OTHER} now, and the volume in use is {WWID}"):
        ready.expand(host, new_size=8 * MIB)
    assert [disk.size for disk in host.storage.known] == [2 * MIB, 2 * MIB]


def test_volumes_that_are_the_same_disk_are_kept_apart_and_the_last_one_takes_it_away() -> None:
    plugin = FibreChannel()
    host = fabric_with_a_lun()
    one, two = volume(PORTS[0]).set_up(host), volume(*PORTS)
    assert set(plugin.exclusive(one.spec)) & set(plugin.exclusive(two.spec))
    assert plugin.exclusive(volume(wwids=(WWID,)).spec) == plugin.exclusive(volume(wwids=(WWID,)).spec) != ()
    two.mount_device(host)
    with pytest.raises(BusyError):
        one.unmount_device(host)
    two.unmount_device(host)
    one.unmount_device(host)
    assert disks(host) == []


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_luns_each_goes_alone(order: tuple[int, int]) -> None:
    host = fabric(multipathd=True)
    map_lun(host, lun=1)
    map_lun(host, OTHER, lun=12)
    both = [volume(*PORTS, lun=lun).set_up(host) for lun in (1, 12)]
    first, second = (both[place] for place in order)
    left = {disk.address.lun for disk in host.storage.known}
    assert left == {1, 12}
    first.unmount_device(host)
    assert {disk.address.lun for disk in host.storage.known} == {(1, 12)[order[1]]}
    assert second.device_target(host) in host.table
    second.unmount_device(host)
    assert disks(host) == []


# Given back in order


def test_nothing_is_taken_away_before_what_was_written_is_safe() -> None:
    faulty = FaultHost(fabric_with_a_lun(multipathd=True))
    ready = volume(*PORTS).set_up(faulty)
    faulty.trace.clear()
    ready.unmount_device(faulty)
    changes = {"mounts.unmount", "scsi.remove_map", "scsi.flush", "scsi.remove", "files.remove_directory"}
    assert [verb for verb in faulty.verbs if verb in changes] == [
        "mounts.unmount",
        "scsi.remove_map",
        "scsi.flush",
        "scsi.flush",
        "scsi.remove",
        "scsi.remove",
        "files.remove_directory",
    ]


@pytest.mark.parametrize("device", [DM, SDB, SDC])
def test_a_failed_flush_is_never_ignored(device: Path) -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS).set_up(host)
    host.storage.unflushable.add(device)
    for _ in range(2):
        with pytest.raises(OperationError, match=f"cannot flush {device}"):
            ready.unmount_device(host)
        assert disks(host) == [SDB, SDC]
    host.storage.unflushable.clear()
    ready.unmount_device(host)
    assert disks(host) == []


def test_a_volume_that_kubelet_connected_is_given_back_by_its_directory_alone() -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS).set_up(host)
    host.files.remove_tree(host.paths.state / "fc")
    volume(*PORTS).unmount_device(host)
    assert (disks(host), host.storage.maps) == ([], ())
    assert ready.device_target(host) not in host.table


def test_a_disk_that_a_failed_mount_brought_goes_again() -> None:
    host = fabric_with_a_lun(multipathd=True)
    faulty = FaultHost(host, [Fault(1, OperationError("bad superblock"), verb="mounts.ensure_mounted")])
    with pytest.raises(OperationError, match="bad superblock"):
        volume(*PORTS).mount_device(faulty)
    assert (disks(host), host.table, host.files.names(host.paths.state / "fc/disks")) == ([], {}, ())
    faulty.faults = [
        Fault(2, OperationError("bad superblock"), verb="mounts.ensure_mounted"),
        Fault(1, OperationError("input/output error"), verb="scsi.flush"),
    ]
    with pytest.raises(UncertainError, match="and so did undoing it"):
        volume(*PORTS).mount_device(FaultHost(host, [replace(faulty.faults[0], at=1), faulty.faults[1]]))


def test_after_a_reboot_a_volume_is_connected_anew() -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS).set_up(host)
    host.reboot()
    map_lun(host, OTHER)
    assert ready.mount_device(host).device_path == "/dev/dm-0"


def test_after_a_reboot_what_was_a_device_is_a_file_and_no_use() -> None:
    host = fabric_with_a_lun(multipathd=True)
    ready = volume(*PORTS, mode=VolumeMode.BLOCK).set_up(host)
    ready.mount(host)
    host.reboot()
    map_lun(host, OTHER)
    host.storage.slow = True
    assert ready.mount_device(host).device_path == "/dev/dm-0"  # waited for, although the kernel has a path before
    assert [found.wwid for found in host.storage.maps] == [OTHER]


# What is on disk


def test_a_directory_that_cannot_say_its_wwids_has_them_beside_it() -> None:
    wwid = "SVENDOR-lun-disk-7"
    host = fabric(ports=PORTS[:1])
    map_lun(host, wwid, ports=1)
    ready = volume(wwids=(wwid,)).set_up(host)
    ready.mount(host)
    assert ready.reconstruct(host).spec.source == ready.source
    (found,) = FibreChannel().devices(host)
    assert found.spec is not None
    assert (found.target, found.spec.source) == (at(host, wwid), ready.source)
    (name,) = host.files.names(host.paths.state / "fc/names")
    note = host.paths.state / "fc/names" / name
    assert json.loads(host.content(note))["wwids"] == [wwid]
    ready.unmount(host)
    ready.unmount_device(host)
    assert host.files.names(host.paths.state / "fc/names") == ()
    assert FibreChannel().devices(host) == ()


def test_a_note_of_an_earlier_volume_says_nothing_of_the_next() -> None:
    host = fabric(ports=PORTS[:1])
    map_lun(host, "A-B", ports=1)
    volume(wwids=("A-B",)).set_up(host)
    host.reboot()
    map_lun(host, "B", ports=1)
    volume(wwids=("A", "B")).set_up(host)
    (found,) = FibreChannel().devices(host)
    assert found.spec is not None
    assert found.spec.source == FibreChannelSource(wwids=("A", "B"))


def test_where_the_note_is_damaged_a_directory_is_read_as_kubelet_reads_it() -> None:
    host = fabric(ports=PORTS[:1])
    map_lun(host, "A-B", ports=1)
    volume(wwids=("A-B",)).set_up(host)
    (name,) = host.files.names(host.paths.state / "fc/names")
    for damage in (b"{", b"[]", b'{"wwids": "A-B"}'):
        host.put(host.paths.state / "fc/names" / name, damage)
        (found,) = FibreChannel().devices(host)
        assert found.spec is not None
        assert found.spec.source == FibreChannelSource(wwids=("A", "B"))


def test_two_volumes_of_one_directory_do_not_share_it() -> None:
    host = fabric(ports=PORTS[:1])
    map_lun(host, "A-B", ports=1)
    volume(wwids=("A-B",)).set_up(host)
    with pytest.raises(OperationError, match=r"of \[A B\]: its directory .*/A-B is in use by \[A-B\]"):
        volume(wwids=("A", "B")).mount_device(host)


def test_a_volume_of_another_s_directory_leaves_that_what_it_is() -> None:
    host = fabric_with_a_lun()
    ready = volume(PORTS[0]).set_up(host)
    with pytest.raises(OperationError, match="no fc disk found"):
        volume(wwids=(f"{PORTS[0]}-lun-5",)).mount_device(host)
    (found,) = FibreChannel().devices(host)
    assert found.spec is not None
    assert found.spec.source == ready.source


@pytest.mark.parametrize("name", [".*-lun-5", "-lun-5", f"{PORTS[0]}.-lun-5"])
def test_a_directory_that_no_volume_has_takes_no_disk_away(name: str) -> None:
    host = fabric_with_a_lun()
    host.storage.plug(address(), OTHER, size=2 * MIB, links=[f"by-path/pci-0000:41:00.0-fc-0x{PORTS[0]}-lun-5"])
    volume(PORTS[0], mode=VolumeMode.BLOCK).set_up(host)
    host.mkdir(at(host, name))
    request = volume(PORTS[0]).unmount_device_request(host)
    assert request is not None
    FibreChannel().unmount_device(replace(request, target=at(host, name)), host)
    assert disks(host) == [SDB]


def test_a_wwid_with_a_dash_that_kubelet_connected_is_taken_over() -> None:
    host = fabric(ports=PORTS[:1])
    map_lun(host, "A-lun-B", ports=1)
    ready = volume(wwids=("A-lun-B",)).set_up(host)
    host.files.remove_tree(host.paths.state / "fc")
    assert ready.mount_device(host).device_path == ready.device_path
    ready.mount(host)
    assert ready.reconstruct(host).spec.source == ready.source
    ready.unmount(host)
    ready.unmount_device(host)
    assert disks(host) == []


def test_a_pod_s_directory_says_its_volume_by_the_node_s_mount() -> None:
    host = fabric(multipathd=True)
    for lun, wwid in ((1, WWID), (2, OTHER)):
        map_lun(host, wwid, lun=lun)
    one, two = (volume(*PORTS, lun=lun).set_up(host) for lun in (1, 2))
    two = replace(two, name="pv-2")
    for each in (one, two):
        each.mount(host)
    for each in (one, two):
        rebuilt = each.reconstruct(host)
        assert (rebuilt.spec.name, rebuilt.spec.source) == (each.name, each.source)
        assert rebuilt.device_path == each.device_path


def test_a_pod_s_link_says_its_volume_by_the_block_map_of_the_same_device() -> None:
    host = fabric(multipathd=True)
    for lun, wwid in ((1, WWID), (2, OTHER)):
        map_lun(host, wwid, lun=lun)
    made = [volume(*PORTS, lun=lun, mode=VolumeMode.BLOCK).set_up(host) for lun in (1, 2)]
    made[1] = replace(made[1], name="pv-2")
    for each in made:
        each.mount(host)
        assert each.reconstruct(host).spec.source == each.source
    assert {uid for found in FibreChannel().devices(host) for uid in found.pod_uids} == {"uid-web"}


def test_what_is_no_volume_s_is_named_and_kept() -> None:
    host = fabric()
    host.mkdir(at(host, "junk-lun-x"))
    host.put(at(host, "file"))
    (found,) = FibreChannel().devices(host)
    assert (found.spec, "no number after -lun-" in found.problem) == (None, True)
    path = host.paths.volume("u1", FibreChannel.name, "pv-1")
    with pytest.raises(NotReconstructible, match="does not say which volume it is"):
        FibreChannel().reconstruct(Found(pod_uid="u1", plugin=FibreChannel.name, spec_name="pv-1", path=path), host)


def test_a_directory_that_a_reboot_left_is_found_and_taken_away() -> None:
    host = fabric_with_a_lun()
    ready = volume(PORTS[0]).set_up(host)
    host.reboot()
    (found,) = FibreChannel().devices(host)
    assert (found.target, found.device_path) == (ready.device_target(host), "")
    ready.unmount_device(host)
    assert FibreChannel().devices(host) == ()


# What a node must have


def test_the_doctor_is_told_of_ports_tools_and_multipathd() -> None:
    host = FakeHost()
    found = {each.check: each for each in FibreChannel().requirements(host)}
    assert {name for name, each in found.items() if not (each.met or each.optional)} == {"fc_host", "scsi_id"}
    assert all(each.remedy for each in found.values())
    host = fabric(multipathd=True)
    host.programs["scsi_id"] = host.programs["blkid"]
    for path in ("/run/udev/control", "/etc/multipath.conf"):
        host.mkdir(Path(path).parent)
        host.put(path)
    assert [each.check for each in FibreChannel().requirements(host) if not each.met] == []
    host.put("/sys/class/fc_host/host2/port_state", b"Linkdown\n")
    host.put("/sys/class/fc_host/host3/port_state", b"Linkdown\n")
    (port,) = (each for each in FibreChannel().requirements(host) if not each.met)
    assert (port.check, "is linkdown" in port.detail) == ("fc_host", True)
