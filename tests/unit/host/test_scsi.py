"""SCSI disks and multipath maps in a sysfs of the test, with tools that it scripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.host.sysfs_tree import MIB, SysfsTree
from volmgr.errors import BusyError, OperationError
from volmgr.host.interface import CommandResult, MultipathMap, ScsiAddress, ScsiDisk
from volmgr.host.multipath import daemon_runs

A, B = (2, 0, 0, 1), (3, 0, 0, 1)
WWID = "36001405aabbccddee001122334455667"
DONE = CommandResult(0, "", "")
WORKING = CommandResult(0, "0 32768 multipath 2 0 0 0 2 1 A 0 1 2 8:16 A 0 0 1 E 0 1 2 8:32 F 1 0 1 \n", "")
NO_PATH = CommandResult(0, "0 32768 multipath 2 0 0 0 2 1 E 0 1 2 8:16 F 1 0 1 E 0 1 2 8:32 F 1 0 1 \n", "")
MESSAGE = ("dmsetup", "message", "mpatha", "0", "fail_if_no_path")


@pytest.fixture
def tree(tmp_path: Path) -> SysfsTree:
    """Two paths of one disk, and one disk with one path."""
    tree = SysfsTree(tmp_path / "sys")
    tree.disk("sdb", A, "8:16")
    tree.disk("sdc", B, "8:32")
    tree.disk("sdd", (2, 0, 0, 10), "8:48")
    return tree


@pytest.fixture
def mapped(tree: SysfsTree) -> MultipathMap:
    """The map over both paths."""
    tree.stack("dm-0", "253:0", f"mpath-{WWID}", "sdb", "sdc", dm_name="mpatha")
    found = tree.scsi.map_of(Path("/dev/dm-0"))
    assert found is not None
    return found


def disk(tree: SysfsTree, address: tuple[int, int, int, int] = A) -> ScsiDisk:
    found = tree.scsi.disk_at(ScsiAddress(*address))
    assert found is not None
    return found


def test_a_disk_is_found_by_its_address_and_by_its_device(tree: SysfsTree) -> None:
    found = ScsiDisk(name="sdb", address=ScsiAddress(*A), state="running", size=16 * MIB)
    assert disk(tree) == found
    assert tree.scsi.disk_of(Path("/dev/sdb")) == found
    assert [each.name for each in tree.scsi.disks()] == ["sdb", "sdd", "sdc"]


def test_a_disk_is_there_only_when_its_block_device_is_there(tree: SysfsTree) -> None:
    for number in ("", "8:160"):
        tree.numbers[Path("/dev/sdb")] = number
        assert tree.scsi.disk_at(ScsiAddress(*A)) is None


def test_what_is_no_scsi_disk_is_none(tree: SysfsTree) -> None:
    tree.block("loop0", "7:0")
    tree.block("nvme0n1", "259:0")
    tree.text(tree.top / "block/sdb/sdb1/dev", "8:17")
    tree.numbers[Path("/dev/sdb1")] = "8:17"
    tree.link(tree.top / "dev/block/8:17", tree.top / "block/sdb/sdb1")
    for name in ("loop0", "nvme0n1", "sdb1", "missing"):
        assert tree.scsi.disk_of(Path("/dev", name)) is None
    assert tree.scsi.disk_at(ScsiAddress(2, 0, 0, 0)) is None


@given(address=st.tuples(*[st.integers(min_value=0, max_value=1 << 63)] * 4))
def test_an_address_is_written_as_sysfs_writes_it(address: tuple[int, int, int, int]) -> None:
    assert tuple(map(int, str(ScsiAddress(*address)).split(":"))) == address


@pytest.mark.parametrize(
    ("asked", "written"),
    [({"channel": 0, "target": 0, "lun": 5}, "0 0 5"), ({"lun": 5}, "- - 5"), ({}, "- - -")],
)
def test_a_scan_looks_for_no_more_than_it_is_asked_for(tree: SysfsTree, asked: dict[str, int], written: str) -> None:
    tree.scsi.scan(2, **asked)
    assert tree.ran == [("tee", str(tree.top / "class/scsi_host/host2/scan"), written)]


def test_a_scsi_host_that_is_not_there_cannot_be_scanned(tree: SysfsTree) -> None:
    with pytest.raises(OperationError, match="cannot scan SCSI host 7: there is none"):
        tree.scsi.scan(7)


def test_a_disk_is_asked_who_it_is_by_udevs_own_tool(tree: SysfsTree) -> None:
    tree.program("scsi_id", CommandResult(0, f"{WWID}\n", ""))
    assert tree.scsi.identity(disk(tree)) == WWID
    assert tree.ran[0][1:] == ("--whitelisted", "--replace-whitespace", "--page=0x83", "--device", "/dev/sdb")


def test_a_disk_that_does_not_answer_is_an_error_that_leaves_nothing_behind(tree: SysfsTree) -> None:
    with pytest.raises(OperationError, match="install udev"):
        tree.scsi.identity(disk(tree))
    tree.program("scsi_id", CommandResult(1, "", "scsi_id: cannot open /dev/sdb"))
    with pytest.raises(OperationError, match=r"cannot ask /dev/sdb \(2:0:0:1\) who it is: it does not answer"):
        tree.scsi.identity(disk(tree))
    tree.program("scsi_id", DONE)
    with pytest.raises(OperationError, match="it has no identity"):
        tree.scsi.identity(disk(tree))


def test_who_the_kernel_took_it_for_is_read_from_the_page_it_keeps(tree: SysfsTree) -> None:
    assert tree.scsi.remembered_identity(disk(tree)) == ""
    page = bytes([0, 0x83, 0, 20, 1, 3, 0, 16]) + bytes.fromhex(WWID[1:])
    (tree.top / "class/scsi_device/2:0:0:1/device/vpd_pg83").write_bytes(page)
    assert tree.scsi.remembered_identity(disk(tree)) == WWID
    every = tree.scsi.disks()
    assert len(every) > 1
    assert tree.scsi.disks(identities={WWID, "3600"}) == (disk(tree),)
    assert tree.scsi.disks(host=2) == tuple(each for each in every if each.address.host == 2)
    assert tree.scsi.disks(host=99) == tree.scsi.disks(identities=()) == ()


def test_a_rescan_gives_the_disk_as_it_is_now(tree: SysfsTree) -> None:
    before = disk(tree)
    tree.text(tree.top / "block/sdb/size", str(32 * MIB // 512))
    assert tree.scsi.rescan(before).size == 32 * MIB
    assert tree.ran == [("tee", str(tree.top / "class/scsi_device/2:0:0:1/device/rescan"), "1")]


@pytest.mark.parametrize(
    ("place", "state"),
    [
        ("class/scsi_device/2:0:0:1/device", "transport-offline"),
        ("class/scsi_device/2:0:0:1/device", "blocked"),
        ("class/scsi_host/host2", "recovery"),
    ],
)
def test_a_disk_that_would_not_answer_is_asked_nothing(tree: SysfsTree, place: str, state: str) -> None:
    found = disk(tree)
    tree.text(tree.top / place / "state", state)
    for what, call in (
        ("rescan /dev/sdb (2:0:0:1)", lambda: tree.scsi.rescan(found)),
        ("ask /dev/sdb (2:0:0:1) who it is", lambda: tree.scsi.identity(found)),
        ("flush /dev/sdb", lambda: tree.scsi.flush(found.device)),
    ):
        with pytest.raises(OperationError, match=re.escape(f"cannot {what}: it is {state}; look at the path")):
            call()
    assert tree.ran == []


def test_a_disk_that_is_offline_after_it_was_rescanned_is_no_silent_success(tree: SysfsTree) -> None:
    found = disk(tree)

    def gives_up(_argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        tree.text(tree.top / "class/scsi_device/2:0:0:1/device/state", "offline")
        return DONE

    tree.host.programs["tee"] = gives_up
    with pytest.raises(OperationError, match=r"cannot rescan /dev/sdb \(2:0:0:1\): it is offline"):
        tree.scsi.rescan(found)


def test_the_removal_of_a_disk_whose_path_the_kernel_waits_for_comes_later(tree: SysfsTree) -> None:
    found, state = disk(tree), tree.top / "class/scsi_device/2:0:0:1/device/state"
    tree.text(state, "blocked")
    with pytest.raises(OperationError, match="it is blocked; it goes when the kernel gives its path up"):
        tree.scsi.remove(found)
    assert tree.ran == []
    tree.text(state, "transport-offline")
    tree.scsi.remove(found)
    assert tree.scsi.disk_at(found.address) is None


def test_a_flush_that_fails_says_what_may_be_lost(tree: SysfsTree) -> None:
    tree.program("sync", DONE, CommandResult(1, "", "sync: error syncing '/dev/sdb': Input/output error"))
    tree.scsi.flush(Path("/dev/sdb"))
    assert tree.ran == [("sync", "-d", "/dev/sdb")]
    with pytest.raises(OperationError, match="Input/output error; what was written may not be on the storage"):
        tree.scsi.flush(Path("/dev/sdb"))


def test_a_disk_that_nobody_has_is_removed_and_removed_again(tree: SysfsTree) -> None:
    found = disk(tree)
    tree.scsi.remove(found)
    tree.scsi.remove(found)
    assert tree.ran == [("tee", str(tree.top / "class/scsi_device/2:0:0:1/device/delete"), "1")]


def test_another_disk_that_has_come_to_its_address_is_not_removed(tree: SysfsTree) -> None:
    gone = disk(tree)
    tree.forget(ScsiAddress(*A))
    tree.disk("sde", (2, 0, 1, 1), "8:64")
    tree.link(tree.top / "class/scsi_device/2:0:0:1/device", tree.top / "class/scsi_device/2:0:1:1/device")
    tree.scsi.remove(gone)
    assert tree.ran == []


def test_a_disk_with_a_map_on_it_is_not_removed(tree: SysfsTree, mapped: MultipathMap) -> None:
    with pytest.raises(BusyError, match=r"cannot remove /dev/sdb \(2:0:0:1\): it is in use; held by dm-0"):
        tree.scsi.remove(mapped.disks[0])
    assert tree.ran == []


def test_a_disk_that_somebody_has_open_for_himself_is_not_removed(tree: SysfsTree) -> None:
    tree.host.busy[Path("/dev/sdb")] = ("123 (mkfs)",)
    with pytest.raises(BusyError, match="it is in use"):
        tree.scsi.remove(disk(tree))


def test_a_disk_that_does_not_answer_is_not_opened_and_is_removed_unless_it_is_mounted(tree: SysfsTree) -> None:
    state = tree.top / "class/scsi_device/2:0:0:1/device/state"
    tree.text(state, "offline")
    tree.host.busy[Path("/dev/sdb")] = ("only an exclusive opening would tell",)
    tree.host.machine.format("/dev/sdb", "ext4")
    tree.host.machine.mount("/srv", "ext4", source="/dev/sdb")
    tree.text(tree.top / "block/sdb/dev", tree.host.mounts.table()[-1].device)
    tree.numbers[Path("/dev/sdb")] = tree.host.mounts.table()[-1].device
    found = disk(tree)
    with pytest.raises(BusyError, match="it is in use"):
        tree.scsi.remove(found)
    tree.host.mounts.unmount(Path("/srv"))
    tree.scsi.remove(found)
    assert tree.scsi.disk_at(found.address) is None


def test_a_removal_that_the_kernel_refuses_is_an_error(tree: SysfsTree) -> None:
    tree.program("tee", CommandResult(1, "", "tee: Permission denied"))
    with pytest.raises(OperationError, match=r"cannot remove /dev/sdb \(2:0:0:1\): tee: Permission denied"):
        tree.scsi.remove(disk(tree))


# I75


def test_a_map_is_found_over_its_paths_and_by_its_device(tree: SysfsTree, mapped: MultipathMap) -> None:
    assert (mapped.name, mapped.kernel_name, mapped.wwid, mapped.size) == ("mpatha", "dm-0", WWID, 16 * MIB)
    assert mapped.disks == (disk(tree, A), disk(tree, B))
    assert tree.scsi.map_over([disk(tree, (2, 0, 0, 10)), disk(tree, B)]) == mapped
    assert tree.scsi.map_over([disk(tree, (2, 0, 0, 10))]) is None
    assert tree.scsi.map_over([]) is None


@pytest.mark.parametrize(
    "uuid",
    ["LVM-aabbcc", "CRYPT-LUKS2-mpath-aabb", f"part1-mpath-{WWID}", f"LVM-mpath-{WWID}", "", f"xmpath-{WWID}"],
)
def test_what_holds_a_disk_and_is_no_map_is_never_taken_for_one(tree: SysfsTree, uuid: str) -> None:
    tree.stack("dm-3", "253:3", uuid, "sdb")
    assert tree.scsi.map_over([disk(tree)]) is None
    assert tree.scsi.map_of(Path("/dev/dm-3")) is None


def test_of_all_that_holds_a_disk_the_map_is_taken_whatever_its_name(tree: SysfsTree) -> None:
    tree.stack("dm-0", "253:0", f"part1-mpath-{WWID}", "sdb")
    tree.stack("dm-1", "253:1", f"mpath-{WWID}", "sdb")
    tree.stack("dm-2", "253:2", "LVM-aa", "sdb")
    found = tree.scsi.map_over([disk(tree)])
    assert found is not None
    assert found.kernel_name == "dm-1"


# Removing and growing maps


def test_a_map_is_flushed_then_removed(tree: SysfsTree, mapped: MultipathMap) -> None:
    tree.program("dmsetup", WORKING)
    tree.program("sync", DONE)
    removing_map(tree)
    tree.scsi.remove_map(mapped)
    tree.scsi.remove_map(mapped)
    assert tree.ran == [
        ("dmsetup", "status", "--noflush", "mpatha"),
        ("sync", "-d", "/dev/dm-0"),
        ("multipath", "-f", "mpatha"),
    ]


def removing_map(tree: SysfsTree) -> None:
    def multipath(argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        tree.ran.append(argv)
        (tree.top / "block/dm-0/dm/uuid").unlink()
        return DONE

    tree.host.programs["multipath"] = multipath


def test_a_map_whose_flush_fails_stays(tree: SysfsTree, mapped: MultipathMap) -> None:
    tree.program("dmsetup", WORKING)
    tree.program("sync", CommandResult(1, "", "sync: Input/output error"))
    with pytest.raises(OperationError, match="cannot flush /dev/dm-0"):
        tree.scsi.remove_map(mapped)
    assert tree.ran[-1][0] == "sync"


def test_a_map_without_a_path_is_told_not_to_wait_for_one_and_the_failure_says_so(
    tree: SysfsTree, mapped: MultipathMap
) -> None:
    tree.program("dmsetup", NO_PATH)
    tree.program("sync", CommandResult(1, "", "sync: Input/output error"))
    with pytest.raises(OperationError, match="none of the paths of map mpatha works"):
        tree.scsi.remove_map(mapped)
    assert MESSAGE in tree.ran


def test_a_map_with_one_working_path_goes_on_waiting(tree: SysfsTree, mapped: MultipathMap) -> None:
    tree.program("dmsetup", WORKING)
    tree.program("sync", DONE)
    removing_map(tree)
    tree.scsi.remove_map(mapped)
    assert MESSAGE not in tree.ran


def test_a_map_with_something_on_it_is_busy_before_anything_is_done_to_it(
    tree: SysfsTree, mapped: MultipathMap
) -> None:
    tree.stack("dm-5", "253:5", f"part1-mpath-{WWID}", "dm-0", dm_name="mpatha-part1")
    tree.stack("dm-6", "253:6", "LVM-aabb", "dm-5", dm_name="vg-data")
    with pytest.raises(BusyError, match=r"cannot remove the multipath map mpatha \(/dev/dm-0\).*held by vg-data"):
        tree.scsi.remove_map(mapped)
    assert tree.ran == []


def test_partitions_of_a_map_that_nobody_uses_go_with_it(tree: SysfsTree, mapped: MultipathMap) -> None:
    tree.stack("dm-5", "253:5", f"part1-mpath-{WWID}", "dm-0", dm_name="mpatha-part1")
    tree.program("dmsetup", WORKING)
    tree.program("sync", DONE)
    removing_map(tree)
    tree.scsi.remove_map(mapped)
    assert tree.ran[-1] == ("multipath", "-f", "mpatha")


def test_a_mounted_map_is_busy(tree: SysfsTree, mapped: MultipathMap) -> None:
    tree.host.busy[mapped.device] = ("a mount",)
    with pytest.raises(BusyError):
        tree.scsi.remove_map(mapped)
    assert tree.ran == []


def test_multipath_saying_that_it_is_in_use_is_busy_and_anything_else_is_a_failure(
    tree: SysfsTree, mapped: MultipathMap
) -> None:
    tree.program("dmsetup", WORKING)
    tree.program("sync", DONE)
    tree.program("multipath", CommandResult(1, "", "Nov 30 12:00:00 | mpatha: map in use"))
    with pytest.raises(BusyError, match="map in use"):
        tree.scsi.remove_map(mapped)
    tree.program("multipath", CommandResult(1, "", "something else"))
    with pytest.raises(OperationError, match="something else"):
        tree.scsi.remove_map(mapped)


def test_a_map_that_is_only_to_be_removed_with_its_last_user_is_still_there(
    tree: SysfsTree, mapped: MultipathMap
) -> None:
    tree.program("dmsetup", WORKING)
    tree.program("sync", DONE)
    tree.program("multipath", DONE)
    with pytest.raises(BusyError, match="as if it were in use: it is still there; see who has it open: lsof /dev/dm-0"):
        tree.scsi.remove_map(mapped)


def test_udev_which_looks_at_a_map_just_then_is_waited_for(tree: SysfsTree, mapped: MultipathMap) -> None:
    tree.program("dmsetup", WORKING)
    tree.program("sync", DONE)
    tree.program("udevadm", DONE)
    busy = CommandResult(1, "", "device-mapper: remove ioctl on mpatha failed: Device or resource busy")

    def multipath(argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        tree.ran.append(argv)
        if ("udevadm", "settle", "--timeout=5") not in tree.ran:
            return busy
        (tree.top / "block/dm-0/dm/uuid").unlink()
        return DONE

    tree.host.programs["multipath"] = multipath
    tree.scsi.remove_map(mapped)
    assert [argv[0] for argv in tree.ran[-3:]] == ["multipath", "udevadm", "multipath"]


def grown(tree: SysfsTree, *sizes: int) -> None:
    for name, size in zip(("sdb", "sdc"), sizes, strict=True):
        tree.text(tree.top / "block" / name / "size", str(size // 512))


def resizing_map(tree: SysfsTree, *, only: tuple[str, ...]) -> None:
    def multipathd(argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        tree.ran.append(argv)
        if argv == only:
            tree.text(tree.top / "block/dm-0/size", str(32 * MIB // 512))
            return CommandResult(0, "ok\n", "")
        return CommandResult(0, "fail\n", "")

    tree.host.programs["multipathd"] = multipathd


@pytest.mark.parametrize(
    "form", [("multipathd", "resize", "map", "mpatha"), ("multipathd", "-kresize map mpatha")], ids=["new", "old"]
)
def test_a_map_grows_by_what_its_multipathd_understands(
    tree: SysfsTree, mapped: MultipathMap, form: tuple[str, ...]
) -> None:
    grown(tree, 32 * MIB, 32 * MIB)
    resizing_map(tree, only=form)
    tree.scsi.grow_map(mapped)
    assert tree.ran[-1] == form
    tree.ran.clear()
    tree.scsi.grow_map(mapped)
    assert tree.ran == []


def test_a_map_does_not_grow_beyond_its_smallest_path(tree: SysfsTree, mapped: MultipathMap) -> None:
    grown(tree, 32 * MIB, 16 * MIB)
    tree.scsi.grow_map(mapped)
    assert tree.ran == []


def test_a_map_that_did_not_grow_is_an_error_that_says_what_multipathd_said(
    tree: SysfsTree, mapped: MultipathMap
) -> None:
    grown(tree, 32 * MIB, 32 * MIB)
    resizing_map(tree, only=())
    with pytest.raises(OperationError, match="multipathd said fail; see that it runs"):
        tree.scsi.grow_map(mapped)


@pytest.mark.parametrize(
    ("file", "text", "comm", "runs"),
    [
        ("multipathd.pid", "71\n", "multipathd\n", True),
        ("multipathd/multipathd.pid", "71", "multipathd\n", True),
        ("multipathd.pid", "71\n", "bash\n", False),
        ("multipathd.pid", "72\n", "multipathd\n", False),
        ("multipathd.pid", "", "multipathd\n", False),
        ("multipathd.pid", "\udcff", "multipathd\n", False),
        ("multipathd.pid", "71\n", "multi\udcff", False),
        ("other.pid", "71\n", "multipathd\n", False),
    ],
)
def test_multipathd_runs_when_the_process_of_its_pid_file_is_it(
    tmp_path: Path, file: str, text: str, comm: str, *, runs: bool
) -> None:
    for path, content in ((tmp_path / "run" / file, text), (tmp_path / "proc/71/comm", comm)):
        path.parent.mkdir(parents=True)
        path.write_text(content, encoding="utf-8", errors="surrogateescape")
    assert daemon_runs(tmp_path / "run", tmp_path / "proc") is runs
