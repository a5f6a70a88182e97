"""fsGroup on the real kernel."""

import os
import stat
from pathlib import Path

import pytest

from volmgr.errors import OperationError, TransientError
from volmgr.host.mounts import KernelMounts
from volmgr.host.ownership import LocalOwnership

GROUP = 4242


@pytest.fixture
def ownership() -> LocalOwnership:
    return LocalOwnership()


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


def test_a_cancelled_walk_leaves_the_root_for_last_so_that_it_starts_again(
    ownership: LocalOwnership, volume: Path
) -> None:
    answers = iter([False, True])
    with pytest.raises(TransientError, match="was stopped after"):
        ownership.apply(volume, GROUP, cancelled=lambda: next(answers))
    assert volume.stat().st_gid == 0
    ownership.apply(volume, GROUP, policy="OnRootMismatch")
    assert (volume / "directory" / "inner").stat().st_gid == GROUP


def test_a_large_directory_can_be_cancelled_within(ownership: LocalOwnership, target: Path) -> None:
    for number in range(600):
        (target / f"{number}").touch()
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) == 2

    with pytest.raises(TransientError, match="after 256 entries"):
        ownership.apply(target, GROUP, cancelled=cancelled)


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
