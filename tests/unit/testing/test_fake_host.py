"""FakeHost: what it has beyond the host interface, which is compared with the kernel elsewhere."""

import threading
from pathlib import Path

import pytest

from volmgr.host.interface import CommandResult
from volmgr.plugin import BusyError, CommandError, OperationError, OverdueError, TransientError
from volmgr.testing import FakeHost

ROOT = Path("/var/lib/volmgr")
PLACE = ROOT / "place"


def test_it_begins_with_an_empty_root_and_no_mounts() -> None:
    host = FakeHost(Path("/data/volmgr"))
    assert host.tree("/data") == {Path("/data"): "directory 755 0:0", Path("/data/volmgr"): "directory 750 0:0"}
    assert host.table == {}


def test_the_table_reads_like_mount() -> None:
    host = FakeHost()
    host.mkdir(PLACE)
    host.mkdir("/srv/data")
    host.mounts.ensure_mounted(PLACE, "tmpfs", options=("size=64k", "nosuid"))
    host.mkdir(PLACE / "bound")
    host.mounts.ensure_bound(Path("/srv/data"), PLACE / "bound", options=("ro",))
    assert host.table == {PLACE: "tmpfs nosuid,size=64k", PLACE / "bound": "ext4 /srv/data ro"}


def test_a_server_that_is_silent_answers_nobody() -> None:
    host = FakeHost()
    host.machine.serve("nfs", "10.0.0.1:/srv")
    host.mkdir(PLACE)
    host.mounts.ensure_mounted(PLACE, "nfs", source="10.0.0.1:/srv")
    host.put(PLACE / "file")
    host.machine.silent.add("10.0.0.1")
    for ask in (
        lambda: host.files.info(PLACE),
        lambda: host.files.info(PLACE / "file"),
        lambda: host.mounts.file_system(PLACE),
        lambda: host.mounts.lives(PLACE),
    ):
        with pytest.raises(OverdueError):
            ask()
    assert host.files.info(PLACE.parent) is not None


def test_a_mount_hides_what_is_below_it_until_it_is_gone() -> None:
    host = FakeHost()
    host.mkdir(PLACE)
    host.put(PLACE / "below")
    host.mounts.ensure_mounted(PLACE, "tmpfs")
    host.put(PLACE / "above")
    assert host.files.names(PLACE) == ("above",)
    host.mounts.unmount(PLACE)
    assert host.files.names(PLACE) == ("below",)


def test_a_reboot_takes_mounts_and_memory_and_leaves_the_disk() -> None:
    host = FakeHost()
    before = host.kernel.boot_id
    host.mkdir(PLACE)
    host.put(ROOT / "kept", b"on disk")
    host.mounts.ensure_mounted(PLACE, "tmpfs")
    host.put(PLACE / "lost")
    host.busy[PLACE] = ("1 (cat)",)
    host.reboot()
    assert host.table == {}
    assert host.busy == {}
    assert host.kernel.boot_id != before
    assert host.files.names(ROOT) == ("kept", "place")
    host.mounts.ensure_mounted(PLACE, "tmpfs")
    assert host.files.names(PLACE) == ()


def test_mount_ids_are_used_again_and_unique_ids_never() -> None:
    host = FakeHost()
    host.mkdir(PLACE)
    seen: list[tuple[int, int | None]] = []
    for _ in range(2):
        host.mounts.ensure_mounted(PLACE, "tmpfs")
        entry, identity = host.mounts.entry(PLACE), host.files.identity(PLACE)
        assert entry is not None
        assert identity is not None
        seen.append((entry.mount_id, identity.mount))
        host.mounts.unmount(PLACE)
    assert seen[0][0] == seen[1][0]
    assert seen[0][1] != seen[1][1]


def test_a_bind_of_what_was_deleted_says_so() -> None:
    host = FakeHost()
    host.mkdir("/srv/data")
    host.mkdir(PLACE)
    host.mounts.ensure_bound(Path("/srv/data"), PLACE)
    host.machine.rmdir("/srv/data")
    entry = host.mounts.entry(PLACE)
    assert entry is not None
    assert (entry.root, entry.deleted) == ("/srv/data", True)


def test_holders_keep_a_mount_busy_unless_it_is_lazy() -> None:
    host = FakeHost()
    host.mkdir(PLACE)
    host.mounts.ensure_mounted(PLACE, "tmpfs")
    host.busy[PLACE / "log"] = ("7 (tail)",)
    with pytest.raises(BusyError) as caught:
        host.mounts.unmount(PLACE)
    assert caught.value.holders == ("7 (tail)",)
    host.mounts.unmount(PLACE, lazy=True)
    assert host.table == {}


def test_a_full_disk_takes_nothing_but_lets_go() -> None:
    host = FakeHost()
    host.put(ROOT / "file", b"old")
    host.disk_full = True
    with pytest.raises(OperationError, match="no space left on device"):
        host.files.write(ROOT / "file", b"newer")
    assert host.tree(ROOT) == {ROOT: "directory 750 0:0", ROOT / "file": "file 644 0:0 b'old'"}
    host.files.remove_file(ROOT / "file")
    host.mkdir(PLACE.parent)


def test_a_tmpfs_is_full_at_its_size() -> None:
    host = FakeHost()
    host.mkdir(PLACE)
    host.mounts.ensure_mounted(PLACE, "tmpfs", options=("size=4k",))
    host.put(PLACE / "fits", b"x" * 4096)
    with pytest.raises(OperationError, match="no space left"):
        host.files.write(PLACE / "more", b"x")
    assert host.mounts.file_system(PLACE).available == 0


def test_a_read_only_disk_changes_nothing() -> None:
    host = FakeHost()
    host.put(ROOT / "file")
    host.read_only = True
    before = host.tree()
    for attempt in (
        lambda: host.files.ensure_directory(PLACE, 0o755),
        lambda: host.files.remove_file(ROOT / "file"),
        lambda: host.files.chmod(ROOT / "file", 0o600),
        lambda: host.files.write(ROOT / "file", b"x"),
    ):
        with pytest.raises(OperationError, match="read-only file system"):
            attempt()
    assert host.tree() == before


def test_time_passes_only_when_told() -> None:
    host = FakeHost()
    before = host.clock()
    host.advance(1.5)
    assert host.clock() == before + 1.5


def test_commands_are_what_the_test_scripts() -> None:
    host = FakeHost()
    host.programs["mkfs.ext4"] = lambda argv, _stdin: CommandResult(0 if argv[-1] == "/dev/sdb" else 1, "", "bad")
    assert host.commands.run(["mkfs.ext4", "/dev/sdb"]).exit_code == 0
    assert host.commands.run(["mkfs.ext4", "/dev/sdc"], accept=(0, 1)).exit_code == 1
    with pytest.raises(CommandError, match="exited with 1: bad"):
        host.commands.run(["mkfs.ext4", "/dev/sdc"])
    with pytest.raises(OperationError, match="not installed"):
        host.commands.run(["mkfs.f2fs", "/dev/sdb"])
    assert host.commands.find("mkfs.ext4") == Path("/usr/bin/mkfs.ext4")
    assert host.commands.find("mkfs.f2fs") is None


def test_a_file_becomes_a_loop_device_with_a_file_system() -> None:
    host = FakeHost()
    host.mkdir(PLACE)
    host.put(ROOT / "image", b"\0" * 8192)
    device = host.block.attach_loop(ROOT / "image")
    assert host.block.attach_loop(ROOT / "image") == device
    assert (host.block.find_loops(ROOT / "image"), host.block.size(device)) == ((device,), 8192)
    with pytest.raises(OperationError, match="invalid argument"):
        host.mounts.ensure_mounted(PLACE, "ext4", source=str(device))
    host.machine.format(device, "ext4")
    host.mounts.ensure_mounted(PLACE, "ext4", source=str(device))
    host.files.write(PLACE / "file", b"kept")
    assert not host.block.is_free(device)
    with pytest.raises(BusyError):
        host.block.detach_loop(device)
    host.reboot()
    assert host.block.find_loops(ROOT / "image") == ()
    host.mounts.ensure_mounted(PLACE, "ext4", source=str(host.block.attach_loop(ROOT / "image")))
    assert host.files.read(PLACE / "file") == b"kept"
    host.mounts.unmount(PLACE)
    host.block.detach_loop(device)
    host.block.detach_loop(device)
    assert host.block.is_free(device)


def test_a_loop_device_sees_that_its_file_grew_when_it_is_told_to_look() -> None:
    host = FakeHost()
    host.put(ROOT / "image", b"\0" * 4096)
    device = host.block.attach_loop(ROOT / "image")
    host.put(ROOT / "image", b"\0" * 8192)
    assert host.block.size(device) == 4096
    host.block.refresh_size(device)
    assert host.block.size(device) == 8192


def test_a_block_device_is_read_formatted_and_told_from_a_later_one() -> None:
    host = FakeHost()
    host.device("/dev/sdb", b"raw".ljust(8192, b"\0"))
    device = Path("/dev/sdb")
    assert host.block.read(device, 1, 4) == b"aw\0\0"
    assert host.block.read(device, 8190, 4) == b"\0\0"
    assert host.commands.run(["blkid", str(device)], accept=(2,)).exit_code == 2
    host.commands.run(["mkfs.xfs", str(device)])
    with pytest.raises(CommandError, match="existing filesystem"):
        host.commands.run(["mkfs.xfs", str(device)])
    host.commands.run(["mkfs.ext4", "-F", str(device)])
    assert "TYPE=ext4" in host.commands.run(["blkid", str(device)]).stdout
    assert host.block.read(device, 1024 + 56, 2) == b"\x53\xef"
    host.unreadable.add(device)
    with pytest.raises(OperationError, match="input/output error"):
        host.block.read(device, 0, 1)
    host.put(ROOT / "image", bytes(4096))
    first = host.block.identity(host.block.attach_loop(ROOT / "image"))
    host.block.detach_loop(Path("/dev/loop0"))
    assert host.block.identity(host.block.attach_loop(ROOT / "image")) != first


def test_growing_needs_a_file_system_that_is_there() -> None:
    host = FakeHost()
    host.mkdir(PLACE)
    host.device("/dev/sdb", bytes(4096))
    for argv in (["resize2fs", "/dev/sdb"], ["xfs_growfs", str(PLACE)], ["fsck", "/dev/sdc"]):
        with pytest.raises(CommandError):
            host.commands.run(argv)
    host.commands.run(["mkfs.ext4", "/dev/sdb"])
    host.mounts.ensure_mounted(PLACE, "ext4", source="/dev/sdb", options=("ro",))
    host.mounts.unmount(PLACE)
    host.mounts.ensure_mounted(PLACE, "ext4", source="/dev/sdb")
    host.files.write(PLACE / "file", b"writable again")
    host.machine.find("/dev/sdb")[1].content = bytes(8192)
    host.commands.run(["resize2fs", "/dev/sdb"])
    assert host.mounts.file_system(PLACE).size == 8192


def test_file_systems_from_elsewhere_are_there_when_they_are_served() -> None:
    host = FakeHost()
    host.mkdir(PLACE)
    with pytest.raises(OperationError, match="no such device"):
        host.mounts.ensure_mounted(PLACE, "nfs", source="server:/export")
    host.machine.serve("nfs", "server:/export")
    host.mounts.ensure_mounted(PLACE, "nfs", source="server:/export")
    assert host.mounts.file_system(PLACE).type == "nfs"


def test_a_large_tree_waits_in_the_trash_while_its_deletion_is_held() -> None:
    host = FakeHost()
    host.hold_trash = True
    host.mkdir(PLACE)
    host.files.discard(PLACE)
    host.files.resume_discards()
    assert len(host.files.names(host.paths.trash)) == 1
    host.hold_trash = False
    host.files.resume_discards()
    assert host.files.names(host.paths.trash) == ()


def test_removal_stops_when_it_is_cancelled() -> None:
    host = FakeHost()
    host.mkdir(PLACE / "sub")
    with pytest.raises(TransientError):
        host.files.remove_tree(PLACE, cancelled=lambda: True)
    assert PLACE in host.tree(PLACE)


def test_threads_may_make_the_same_directories_at_once() -> None:
    host = FakeHost()
    together = threading.Barrier(8)
    made: list[bool] = []

    def make() -> None:
        together.wait()
        made.extend(host.files.ensure_directory(PLACE / str(number) / "deep", 0o755) for number in range(50))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (made.count(True), made.count(False)) == (50, 350)
