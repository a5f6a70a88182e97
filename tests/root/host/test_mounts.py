"""Mounting and unmounting on the real kernel."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from volmgr.errors import BusyError, OperationError, SpecError, UncertainError
from volmgr.host import syscalls
from volmgr.host.interface import Host
from volmgr.host.local import local_host, propagation
from volmgr.host.mounts import KernelMounts

AWKWARD = ("a b", "tab\there", "line\nbreak", "back\\slash", "#hash", "[ds] x", "\\040", "ünï", "(deleted)")


@pytest.mark.usefixtures("descriptors")
def test_a_tmpfs_is_mounted_with_its_options_and_taken_away_again(mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs", options=["size=1m", "nosuid,nodev", "mode=0711"])
    entry = mounts.entry(target)
    assert entry is not None
    assert entry.fstype == "tmpfs"
    assert {"rw", "nosuid", "nodev"} <= set(entry.options)
    assert "size=1024k" in entry.super_options
    assert target.stat().st_mode & 0o7777 == 0o711
    assert mounts.file_system(target).type == "tmpfs"
    assert mounts.file_system(target).size == 1 << 20
    mounts.unmount(target)
    assert not mounts.is_mount_point(target)


def test_a_local_type_with_a_deadline_is_unmounted_by_a_process_that_can_be_ended(
    mounts: KernelMounts, target: Path
) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    with pytest.raises(UncertainError, match="did not end before its deadline"):
        mounts.unmount(target, deadline=0)
    mounts.unmount(target, deadline=60)
    assert not mounts.is_mount_point(target)
    mounts.unmount(target, deadline=0)  # gone is success


def test_mounting_again_changes_nothing(mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    (target / "file").touch()
    mounts.ensure_mounted(target, "tmpfs")
    assert (target / "file").exists()
    assert len(mounts.below(target)) == 1


def test_one_mount_asked_for_is_what_the_table_says(mounts: KernelMounts, target: Path, root: Path) -> None:
    bound = root / "bound"
    bound.mkdir()
    (target / "deep").mkdir()
    mounts.ensure_mounted(target / "deep", "tmpfs", source="a b", options=["size=1m,noexec,noatime,shared"])
    mounts.ensure_bound(target / "deep", bound, options=["ro", "slave"])
    for entry in mounts.below(root):
        assert mounts.entry(entry.target) == entry


def test_a_missing_target_is_an_error_and_nothing_is_mounted(mounts: KernelMounts, root: Path) -> None:
    with pytest.raises(OperationError, match="ENOENT"):
        mounts.ensure_mounted(root / "missing", "tmpfs")


def test_a_target_that_is_a_link_is_refused(mounts: KernelMounts, target: Path, root: Path) -> None:
    link = root / "link"
    link.symlink_to(target)
    with pytest.raises(OperationError, match="symbolic link"):
        mounts.ensure_mounted(link, "tmpfs")
    assert not mounts.is_mount_point(target)


def test_an_unknown_type_and_a_wrong_option_say_what_to_do(mounts: KernelMounts, target: Path) -> None:
    with pytest.raises(OperationError, match=r"EINVAL.*check the options 'size=lots'"):
        mounts.ensure_mounted(target, "tmpfs", options=["size=lots"])
    with pytest.raises(SpecError):
        mounts.ensure_mounted(target, "ext4", source="/image", options=["loop"])
    assert not mounts.is_mount_point(target)


def test_a_bind_is_seen_as_a_mount_although_its_device_is_that_of_its_parent(
    mounts: KernelMounts, target: Path, root: Path
) -> None:
    source = root / "source"
    source.mkdir()
    mounts.ensure_bound(source, target)
    assert mounts.is_mount_point(target)
    assert not mounts.is_mount_point(source)
    mounts.ensure_bound(source, target)
    assert len(mounts.below(target)) == 1


def test_a_read_only_bind_leaves_its_source_writable(mounts: KernelMounts, target: Path, root: Path) -> None:
    source = root / "source"
    source.mkdir()
    mounts.ensure_bound(source, target, options=["ro"])
    (source / "file").touch()
    with pytest.raises(OSError, match="Read-only"):
        (target / "other").touch()


def test_a_bind_inherits_the_flags_of_its_source(mounts: KernelMounts, target: Path, root: Path) -> None:
    source = root / "source"
    source.mkdir()
    mounts.ensure_mounted(source, "tmpfs", options=["nosuid", "nodev", "noexec", "noatime"])
    mounts.ensure_bound(source, target, options=["ro"])
    entry = mounts.entry(target)
    assert entry is not None
    assert set(entry.options) == {"ro", "nosuid", "nodev", "noexec", "noatime"}


def test_a_bind_that_a_crash_left_writable_becomes_read_only(mounts: KernelMounts, target: Path, root: Path) -> None:
    source = root / "source"
    source.mkdir()
    mounts.ensure_bound(source, target)
    mounts.ensure_bound(source, target, options=["ro"])
    entry = mounts.entry(target)
    assert entry is not None
    assert entry.read_only
    assert len(mounts.below(target)) == 1


def test_a_file_is_bound_on_a_file(mounts: KernelMounts, root: Path) -> None:
    source, target = root / "source", root / "file"
    source.write_bytes(b"content")
    target.touch()
    mounts.ensure_bound(source, target)
    assert target.read_bytes() == b"content"


def test_a_bind_over_something_else_is_refused(mounts: KernelMounts, target: Path, root: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    with pytest.raises(OperationError, match="something else is mounted there"):
        mounts.ensure_bound(root, target)


def test_a_remount_keeps_the_flags_it_does_not_name(mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs", options=["size=1m", "nosuid", "noexec"])
    mounts.remount(target, ["size=2m"])
    entry = mounts.entry(target)
    assert entry is not None
    assert {"nosuid", "noexec", "rw"} <= set(entry.options)
    assert mounts.file_system(target).size == 2 << 20


def test_a_remount_of_a_read_only_bind_leaves_its_file_system_writable(
    mounts: KernelMounts, target: Path, root: Path
) -> None:
    source = root / "source"
    source.mkdir()
    mounts.ensure_mounted(source, "tmpfs", options=["size=1m"])
    mounts.ensure_bound(source, target, options=["ro"])
    mounts.remount(target, ["size=2m"])
    entry = mounts.entry(target)
    assert entry is not None
    assert "ro" in entry.options
    assert "rw" in entry.super_options


def test_what_is_stacked_on_one_path_goes_altogether(mounts: KernelMounts, target: Path) -> None:
    for _ in range(3):
        syscalls.mount("tmpfs", str(target), "tmpfs")
    mounts.unmount(target)
    assert mounts.below(target) == ()


def test_what_is_not_mounted_or_missing_is_unmounted_already(mounts: KernelMounts, target: Path) -> None:
    mounts.unmount(target)
    mounts.unmount(target / "missing" / "deeper")
    mounts.unmount_below(target / "missing")


def test_a_busy_mount_names_the_process_that_holds_it(mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    with (target / "file").open("w"), pytest.raises(BusyError, match=r"held by \d+ \(") as caught:
        mounts.unmount(target)
    assert any(holder.startswith(f"{os.getpid()} (") for holder in caught.value.holders)
    mounts.unmount(target)


def test_a_process_that_only_stands_in_a_mount_is_named_too(mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    with subprocess.Popen(["cat"], cwd=target, stdin=subprocess.PIPE) as child:
        with pytest.raises(BusyError) as caught:
            mounts.unmount(target)
        assert caught.value.holders == (f"{child.pid} (cat)",)
    mounts.unmount(target)


def test_a_process_in_another_namespace_that_keeps_a_shared_mount_busy_is_named(
    mounts: KernelMounts, target: Path
) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    mounts.ensure_mounted(target, "tmpfs", options=["shared"])
    outer = target.parent / "outer"
    outer.mkdir()
    mounts.ensure_mounted(outer, "tmpfs", options=["shared"])
    inner = outer / "inner"
    inner.mkdir()
    mounts.ensure_mounted(inner, "tmpfs")
    command = ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", f"cd {inner} && echo in && exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"in\n"
        with pytest.raises(BusyError) as caught:
            mounts.unmount(inner)
        assert f"{child.pid} (cat)" in caught.value.holders
    mounts.unmount(inner)


def test_a_lazy_unmount_takes_a_busy_mount_away(mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    with (target / "file").open("w"):
        mounts.unmount(target, lazy=True)
    assert not mounts.is_mount_point(target)


def test_mounts_of_others_below_a_volume_are_unmounted_deepest_first(
    mounts: KernelMounts, target: Path, root: Path
) -> None:
    foreign = root / "foreign"
    foreign.write_text("mine")
    log = target / "log.txt"
    log.touch()
    mounts.ensure_bound(foreign, log)
    (target / "a" / "b").mkdir(parents=True)
    mounts.ensure_mounted(target / "a", "tmpfs")
    (target / "a" / "c").mkdir()
    mounts.ensure_mounted(target / "a" / "c", "tmpfs")
    mounts.unmount_below(target)
    assert mounts.below(target) == ()
    assert foreign.read_text() == "mine"


def test_a_mount_that_another_one_hid_is_unmounted_too(mounts: KernelMounts, target: Path) -> None:
    (target / "a" / "b").mkdir(parents=True)
    mounts.ensure_mounted(target / "a" / "b", "tmpfs")
    mounts.ensure_mounted(target, "tmpfs")
    mounts.unmount_below(target)
    assert mounts.below(target) == ()


@pytest.mark.parametrize("name", AWKWARD)
def test_a_mount_with_an_awkward_name_is_found_and_unmounted(mounts: KernelMounts, root: Path, name: str) -> None:
    target = root / name
    target.mkdir()
    mounts.ensure_mounted(target, "tmpfs", source=name)
    assert [entry.target for entry in mounts.table() if entry.target.is_relative_to(target)] == [target]
    assert mounts.below(target)[0].source == name
    assert mounts.entry(target) == mounts.below(target)[0]
    (target / name).mkdir()
    bound = root / "bound"
    bound.mkdir()
    mounts.ensure_bound(target / name, bound)
    assert mounts.below(bound)[0].root == f"/{name}"
    assert mounts.entry(bound) == mounts.below(bound)[0]
    mounts.unmount_below(root / "bound")
    mounts.unmount_below(target)
    assert not mounts.is_mount_point(target)


def test_mounts_are_found_by_way_of_a_linked_root(mounts: KernelMounts, target: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(target.parent)
    mounts.ensure_mounted(target, "tmpfs")
    entry = mounts.entry(link / target.name)
    assert entry is not None
    assert entry.target == target
    assert [found.target for found in mounts.below(link / target.name)] == [target]


def test_the_root_is_resolved_once(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    assert local_host(link).paths.root == root


def test_propagation_of_the_root_is_known(host: Host, root: Path) -> None:
    assert propagation(host) == ()
    host.mounts.ensure_bound(root, root, options=["shared"])
    assert propagation(host)[0].startswith("shared:")


def test_hugetlbfs_is_known_by_its_type(mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "hugetlbfs", source="nodev", options=["pagesize=2M"])
    assert mounts.file_system(target).type == "hugetlbfs"
    entry = mounts.entry(target)
    assert entry is not None
    assert "pagesize=2M" in entry.super_options


def test_nothing_is_lost_or_mounted_twice_while_others_mount_and_unmount(mounts: KernelMounts, root: Path) -> None:
    churned = root / "churned"
    churned.mkdir()
    volumes = [root / f"volume-{number}" for number in range(20)]
    for volume in volumes:
        volume.mkdir()
        mounts.ensure_mounted(volume, "tmpfs")
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            syscalls.mount("tmpfs", str(churned), "tmpfs")
            syscalls.umount(str(churned))

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(100):
            seen = [entry.target for entry in mounts.table() if entry.target in set(volumes)]
            assert sorted(seen) == sorted(volumes)
        for volume in volumes:
            mounts.ensure_mounted(volume, "tmpfs")
            assert mounts.entry(volume) is not None
            mounts.unmount_below(volume)
            assert not mounts.is_mount_point(volume)
    finally:
        stop.set()
        thread.join()
    assert mounts.below(root / "volume-0") == ()
