"""fsGroup on the real kernel, by a walk of this process and by the helper for large trees."""

import ctypes
import errno
import fcntl
import os
import stat
import struct
from pathlib import Path

import pytest

from tests.root.host.fuse import SilentFuse
from volmgr.errors import OperationError, TransientError, UncertainError
from volmgr.host.commands import LocalCommands
from volmgr.host.interface import OwnershipProgress
from volmgr.host.mounts import KernelMounts
from volmgr.host.ownership import LocalOwnership

GROUP = 4242
_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10  # FS_IOC_…, FS_IMMUTABLE_FL


@pytest.fixture
def here() -> LocalOwnership:
    """Walks in this process, as far as a tree is small."""
    return LocalOwnership(LocalCommands())


@pytest.fixture(params=[1000, 0], ids=["here", "helper"])
def ownership(request: pytest.FixtureRequest) -> LocalOwnership:
    small: int = request.param
    return LocalOwnership(LocalCommands(), small=small)


def set_immutable(path: Path, flag: int) -> None:
    with path.open("rb") as file:
        flags = bytearray(ctypes.sizeof(ctypes.c_long))
        fcntl.ioctl(file, _GET_FLAGS, flags)
        (old,) = struct.unpack("l", flags)
        fcntl.ioctl(file, _SET_FLAGS, struct.pack("l", old & ~_IMMUTABLE | flag))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def volume(target: Path) -> Path:
    (target / "directory").mkdir(mode=0o700)
    for name in ("file", "directory/inner"):
        (target / name).touch()
        (target / name).chmod(0o600)
    target.chmod(0o755)
    return target


@pytest.mark.usefixtures("descriptors")
def test_files_get_the_group_and_directories_hand_it_down(ownership: LocalOwnership, volume: Path) -> None:
    ownership.apply(volume, GROUP)
    for path in (volume, *volume.rglob("*")):
        assert path.stat().st_gid == GROUP
    assert (mode(volume), mode(volume / "directory")) == (0o2775, 0o2770)
    assert (mode(volume / "file"), mode(volume / "directory" / "inner")) == (0o660, 0o660)


def test_a_read_only_volume_gets_bits_for_reading(ownership: LocalOwnership, volume: Path) -> None:
    ownership.apply(volume, GROUP, read_only=True)
    assert (mode(volume / "directory"), mode(volume / "file")) == (0o2750, 0o640)


def test_links_are_given_to_the_group_but_never_followed(
    ownership: LocalOwnership, volume: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.touch(mode=0o600)
    (volume / "link").symlink_to(outside)
    (volume / "directory" / "up").symlink_to(tmp_path)
    ownership.apply(volume, GROUP)
    assert (volume / "link").lstat().st_gid == GROUP
    assert outside.stat().st_gid == 0
    assert mode(outside) == 0o600


def test_what_is_right_already_is_not_written(ownership: LocalOwnership, volume: Path) -> None:
    ownership.apply(volume, GROUP)
    before = {path: path.stat().st_ctime_ns for path in volume.rglob("*")}
    ownership.apply(volume, GROUP)
    assert {path: path.stat().st_ctime_ns for path in volume.rglob("*")} == before


def test_a_program_that_runs_as_its_owner_still_does(ownership: LocalOwnership, volume: Path) -> None:
    (volume / "file").chmod(0o4755)
    ownership.apply(volume, GROUP)
    assert mode(volume / "file") == 0o4775


def test_on_root_mismatch_believes_a_root_that_is_right(ownership: LocalOwnership, volume: Path) -> None:
    ownership.apply(volume, GROUP)
    (volume / "file").chmod(0o600)
    ownership.apply(volume, GROUP, policy="OnRootMismatch")
    assert mode(volume / "file") == 0o600
    ownership.apply(volume, GROUP)
    assert mode(volume / "file") == 0o660


@pytest.mark.parametrize("wrong", [0o775, 0o2755])
def test_on_root_mismatch_walks_when_a_bit_of_the_root_is_missing(
    ownership: LocalOwnership, volume: Path, wrong: int
) -> None:
    ownership.apply(volume, GROUP)
    (volume / "file").chmod(0o600)
    volume.chmod(wrong)
    ownership.apply(volume, GROUP, policy="OnRootMismatch")
    assert mode(volume / "file") == 0o660


def test_a_cancelled_walk_leaves_the_root_for_last_so_that_it_starts_again(here: LocalOwnership, volume: Path) -> None:
    answers = iter([False, True])
    with pytest.raises(TransientError, match="was stopped after"):
        here.apply(volume, GROUP, cancelled=lambda: next(answers))
    assert volume.stat().st_gid == 0
    here.apply(volume, GROUP, policy="OnRootMismatch")
    assert (volume / "directory" / "inner").stat().st_gid == GROUP


def test_a_large_directory_can_be_cancelled_within(here: LocalOwnership, target: Path) -> None:
    for number in range(600):
        (target / f"{number}").touch()
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) == 2

    with pytest.raises(TransientError, match="after 256 entries"):
        here.apply(target, GROUP, cancelled=cancelled)


def test_a_refused_change_names_the_file_and_the_policy(
    ownership: LocalOwnership, mounts: KernelMounts, volume: Path
) -> None:
    mounts.remount(volume.parent, ["ro"])
    with pytest.raises(OperationError, match=r"EROFS.*fsGroupChangePolicy: OnRootMismatch") as caught:
        ownership.apply(volume, GROUP)
    assert str(volume) in str(caught.value)
    mounts.remount(volume.parent, ["rw"])


def test_another_mount_below_the_volume_is_left_alone(
    ownership: LocalOwnership, mounts: KernelMounts, volume: Path
) -> None:
    mounts.ensure_mounted(volume / "directory", "tmpfs")
    (volume / "directory" / "foreign").touch()
    ownership.apply(volume, GROUP)
    assert (volume / "directory" / "foreign").stat().st_gid == 0
    assert (volume / "file").stat().st_gid == GROUP


def test_the_walk_does_not_wake_fifos(ownership: LocalOwnership, volume: Path) -> None:
    os.mkfifo(volume / "fifo", 0o600)
    ownership.apply(volume, GROUP)
    assert mode(volume / "fifo") == 0o660


@pytest.mark.usefixtures("descriptors")
def test_a_file_that_something_is_mounted_on_is_left_alone(
    ownership: LocalOwnership, mounts: KernelMounts, volume: Path, tmp_path: Path
) -> None:
    foreign = volume.parent / "foreign"
    foreign.touch(mode=0o600)
    mounts.ensure_bound(foreign, volume / "file")
    ownership.apply(volume, GROUP)
    assert (foreign.stat().st_gid, mode(foreign)) == (0, 0o600)
    assert (volume / "directory" / "inner").stat().st_gid == GROUP
    mounts.unmount(volume / "file")


def test_the_volume_itself_may_be_a_mount(ownership: LocalOwnership, mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    (target / "file").touch(mode=0o600)
    ownership.apply(target, GROUP)
    assert [(path.stat().st_gid, mode(path) & 0o660) for path in (target, target / "file")] == [(GROUP, 0o660)] * 2


def test_a_file_may_be_the_volume(ownership: LocalOwnership, volume: Path) -> None:
    ownership.apply(volume / "file", GROUP)
    assert ((volume / "file").stat().st_gid, mode(volume / "file")) == (GROUP, 0o660)
    assert volume.stat().st_gid == 0


def test_both_names_of_a_file_are_one_file(ownership: LocalOwnership, volume: Path) -> None:
    (volume / "directory" / "other").hardlink_to(volume / "file")
    ownership.apply(volume, GROUP)
    assert mode(volume / "directory" / "other") == 0o660


def test_a_name_that_is_no_text_is_a_name(ownership: LocalOwnership, volume: Path) -> None:
    odd = volume / os.fsdecode(b"\xff\n")
    odd.touch(mode=0o600)
    ownership.apply(volume, GROUP)
    assert mode(odd) == 0o660


def test_an_immutable_file_is_named_and_the_root_is_not_changed(ownership: LocalOwnership, volume: Path) -> None:
    stubborn = volume / "directory" / "inner"
    set_immutable(stubborn, _IMMUTABLE)
    try:
        with pytest.raises(OperationError, match=r"EPERM.*immutable.*fsGroupChangePolicy: OnRootMismatch") as caught:
            ownership.apply(volume, GROUP)
    finally:
        set_immutable(stubborn, 0)
    assert f"cannot give {stubborn} to group {GROUP}" in str(caught.value)
    assert volume.stat().st_gid == 0
    ownership.apply(volume, GROUP, policy="OnRootMismatch")
    assert mode(stubborn) == 0o660


def test_a_large_tree_is_left_to_the_helper_and_ends_as_a_small_one(here: LocalOwnership, volume: Path) -> None:
    for number in range(1500):
        (volume / "directory" / f"{number}").touch(mode=0o600)
    here.apply(volume, GROUP)
    paths = [volume, *volume.rglob("*")]
    assert {path.lstat().st_gid for path in paths} == {GROUP}
    assert {mode(path) for path in paths if path.is_file()} == {0o660}
    assert {mode(path) for path in paths if path.is_dir()} == {0o2775, 0o2770}


def test_a_walk_says_how_far_it_is(volume: Path) -> None:
    said: list[str] = []
    LocalOwnership(LocalCommands(), small=0, every=0).apply(volume, GROUP, progress=said.append)
    assert f"giving {volume} to group {GROUP}: 4 entries done, 4 of them changed, " in said[-1]
    assert isinstance(said[-1], OwnershipProgress)


def test_a_server_that_refuses_is_named_with_the_policy_that_asks_it_less(here: LocalOwnership, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.refuse_all(errno.EPERM)
        with pytest.raises(OperationError, match=rf"give {target}.*EPERM.*fsGroupChangePolicy: OnRootMismatch"):
            here.apply(target, GROUP)


@pytest.mark.usefixtures("descriptors")
def test_a_walk_on_a_server_that_does_not_answer_ends_when_it_is_cancelled(here: LocalOwnership, target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        with pytest.raises(TransientError, match="was stopped after 0 entries"):
            here.apply(target, GROUP, cancelled=fuse.was_asked)


def test_a_server_that_does_not_answer_is_waited_for_until_patience_ends(target: Path) -> None:
    with SilentFuse(target) as fuse:
        fuse.serve_until_asked()
        impatient = LocalOwnership(LocalCommands(), patience=0.3)
        with pytest.raises(UncertainError, match=r"its file system has not answered for 0.3 s"):
            impatient.apply(target, GROUP)
