"""Files on the real kernel: what links, mounts and full disks do to them."""

import ctypes
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from volmgr.errors import BusyError, OperationError, TransientError
from volmgr.host import syscalls
from volmgr.host.files import LocalFiles
from volmgr.host.mounts import KernelMounts
from volmgr.host.removal import remove_tree

IN_OPEN = 0x20  # inotify(7)


@pytest.fixture
def narrow_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("narrow_umask", "descriptors")
def test_a_directory_that_is_made_has_its_mode_whatever_the_umask(files: LocalFiles, root: Path) -> None:
    path = root / "a" / "b" / "c"
    assert files.ensure_directory(path, 0o777)
    assert stat.S_IMODE(path.stat().st_mode) == 0o777
    assert not files.ensure_directory(path, 0o700)
    assert stat.S_IMODE(path.stat().st_mode) == 0o777
    assert not files.ensure_directory(path, 0o700, exact=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_directory_is_not_made_where_a_file_is(files: LocalFiles, root: Path) -> None:
    (root / "file").touch()
    with pytest.raises(OperationError, match="it is a file, not a directory"):
        files.ensure_directory(root / "file", 0o755)


@pytest.mark.parametrize("inside", [True, False])
def test_nothing_is_made_through_a_link_to_nothing(files: LocalFiles, root: Path, tmp_path: Path, inside: bool) -> None:
    link, goal = (root if inside else tmp_path) / "link", tmp_path / "goal"
    link.symlink_to(goal)
    attempts: tuple[Callable[[], object], ...] = (
        lambda: files.ensure_directory(link, 0o755),
        lambda: files.ensure_directory(link / "below", 0o755),
        lambda: files.ensure_file(link),
    )
    for attempt in attempts:
        with pytest.raises(OperationError, match="link"):
            attempt()
    assert not goal.exists()


def test_host_paths_may_lie_behind_links(files: LocalFiles, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert files.ensure_directory(tmp_path / "link" / "made", 0o755)
    assert not files.ensure_directory(tmp_path / "link", 0o755)
    assert files.ensure_file(tmp_path / "link" / "file")
    files.write(tmp_path / "link" / "other", b"x")
    assert files.names(tmp_path / "real") == ("file", "made", "other")


def test_below_the_root_no_link_is_followed(files: LocalFiles, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "link").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    attempts: tuple[Callable[[], object], ...] = (
        lambda: files.write(root / "link" / "new", b"x"),
        lambda: files.ensure_file(root / "link" / "new"),
        lambda: files.ensure_directory(root / "link" / "new", 0o755),
        lambda: files.ensure_symlink(root / "link" / "new", "x"),
        lambda: files.remove_file(root / "link" / "secret"),
        lambda: files.remove_tree(root / "link" / "secret"),
        lambda: files.rename(root / "link" / "secret", root / "stolen"),
        lambda: files.chmod(root / "file", 0o777),
        lambda: files.read(root / "file"),
        lambda: files.names(root / "link"),
    )
    for attempt in attempts:
        with pytest.raises(OperationError, match="link"):
            attempt()
    assert os.listdir(outside) == ["secret"]
    with pytest.raises(OperationError, match=r"has no \.\."):
        files.write(root / "a" / ".." / ".." / "outside" / "new", b"x")


def test_a_file_is_replaced_at_once_with_its_mode(files: LocalFiles, root: Path) -> None:
    files.write(root / "file", b"one", 0o600)
    files.write(root / "file", b"two", 0o640, durable=True)
    assert files.read(root / "file") == b"two"
    assert stat.S_IMODE((root / "file").stat().st_mode) == 0o640
    assert files.names(root) == ("file",)


def test_a_full_disk_leaves_the_old_file_and_no_other(files: LocalFiles, mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs", options=["size=64k"])
    files.write(target / "file", b"old")
    with pytest.raises(OperationError, match=r"ENOSPC.*make room"):
        files.write(target / "file", bytes(1 << 20))
    assert files.read(target / "file") == b"old"
    assert files.names(target) == ("file",)


def test_a_read_only_disk_is_named(files: LocalFiles, mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs", options=["ro"])
    with pytest.raises(OperationError, match="EROFS"):
        files.write(target / "file", b"new")
    with pytest.raises(OperationError, match="EROFS"):
        files.ensure_directory(target / "directory", 0o755)


def test_reading_what_is_no_small_file_is_refused_without_waiting(files: LocalFiles, root: Path) -> None:
    os.mkfifo(root / "fifo")
    with pytest.raises(OperationError, match="it is a fifo"):
        files.read(root / "fifo")
    with pytest.raises(OperationError, match="it is a directory"):
        files.read(root)
    files.write(root / "long", bytes(11))
    with pytest.raises(OperationError, match="longer than 10 bytes"):
        files.read(root / "long", 10)
    assert files.read(root / "missing") is None


def test_a_link_is_replaced_and_nothing_else(files: LocalFiles, root: Path) -> None:
    files.ensure_symlink(root / "link", "one")
    files.ensure_symlink(root / "link", "two")
    assert files.read_link(root / "link") == "two"
    (root / "file").touch()
    assert files.read_link(root / "file") is None
    with pytest.raises(OperationError, match="it is a file"):
        files.ensure_symlink(root / "file", "x")


def test_what_is_no_file_is_not_even_opened_to_be_read(files: LocalFiles, tmp_path: Path) -> None:
    """To open a device may do something: a watchdog starts, a tape is wound back."""
    libc = ctypes.CDLL(None)
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    libc.inotify_add_watch(watch, os.fsencode(tmp_path), IN_OPEN)
    try:
        with pytest.raises(OperationError, match="it is a fifo"):
            files.read(tmp_path / "fifo")
        with pytest.raises(BlockingIOError):
            os.read(watch, 4096)
        assert files.read(tmp_path / "file") == b""
        assert b"file" in os.read(watch, 4096)
    finally:
        os.close(watch)


def test_missing_things_are_gone_already(files: LocalFiles, root: Path) -> None:
    missing = root / "missing" / "deeper"
    files.remove_file(missing)
    files.remove_tree(missing)
    files.discard(missing)
    assert files.remove_directory(missing)
    assert files.info(missing) is None
    assert files.identity(missing) is None
    assert files.names(missing) == ()


def test_a_mount_and_a_full_directory_are_not_removed(files: LocalFiles, mounts: KernelMounts, root: Path) -> None:
    for name in ("full", "mounted"):
        (root / name).mkdir()
    (root / "full" / "file").touch()
    mounts.ensure_mounted(root / "mounted", "tmpfs")
    assert not files.remove_directory(root / "full")
    assert not files.remove_directory(root / "mounted")


def test_the_identity_of_a_mount_is_its_unique_id(files: LocalFiles, mounts: KernelMounts, target: Path) -> None:
    plain = files.identity(target)
    mounts.ensure_mounted(target, "tmpfs")
    first = files.identity(target)
    mounts.unmount(target)
    mounts.ensure_mounted(target, "tmpfs")
    second = files.identity(target)
    assert plain is not None
    assert first is not None
    assert second is not None
    assert plain.mount is None
    assert first.mount != second.mount


def make_tree(top: Path, entries: int) -> None:
    for number in range(entries):
        directory = top / f"{number % 7}"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{number}").write_text("x")


@pytest.mark.parametrize("entries", [0, 3, 300])
@pytest.mark.usefixtures("descriptors")
def test_a_tree_is_removed_and_what_its_links_name_is_kept(
    files: LocalFiles, target: Path, tmp_path: Path, entries: int
) -> None:
    outside = tmp_path / "outside"
    make_tree(outside, 3)
    make_tree(target, entries)
    (target / "link").symlink_to(outside)
    os.mkfifo(target / "fifo")
    files.remove_tree(target)
    assert not target.exists()
    assert (outside / "1" / "1").exists()


@pytest.mark.parametrize("entries", [3, 300])
@pytest.mark.parametrize("kind", ["directory", "file"])
@pytest.mark.parametrize("verb", ["remove_tree", "discard"])
def test_a_tree_with_a_mount_in_it_is_refused_untouched(
    files: LocalFiles, mounts: KernelMounts, target: Path, tmp_path: Path, entries: int, kind: str, verb: str
) -> None:
    make_tree(target, entries)
    source, place = tmp_path / "source", target / "0" / "mounted"
    if kind == "directory":
        make_tree(source, 3)
        place.mkdir()
    else:
        source.write_text("precious")
        place.touch()
    mounts.ensure_bound(source, place)
    before = sorted(target.rglob("*"))
    with pytest.raises(BusyError, match=str(place)):
        getattr(files, verb)(target)
    assert sorted(target.rglob("*")) == before


def test_a_mount_itself_is_never_removed(files: LocalFiles, mounts: KernelMounts, target: Path) -> None:
    mounts.ensure_mounted(target, "tmpfs")
    make_tree(target, 3)
    for verb in (files.remove_tree, files.discard):
        with pytest.raises(BusyError, match="it is a mount"):
            verb(target)
    assert (target / "1" / "1").exists()


def test_a_tree_of_thousands_of_levels_is_removed(files: LocalFiles, target: Path) -> None:
    descriptor = os.open(target, os.O_RDONLY)
    for _ in range(5000):
        os.mkdir("deeper", dir_fd=descriptor)
        below = os.open("deeper", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    files.remove_tree(target)
    assert not target.exists()


def test_removal_stops_when_it_is_cancelled(files: LocalFiles, target: Path) -> None:
    make_tree(target, 300)
    with pytest.raises(TransientError, match="stopped"):
        files.remove_tree(target, cancelled=lambda: True)
    assert target.exists()


def test_an_immutable_file_is_named(files: LocalFiles, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    make_tree(tree, 3)
    stubborn = tree / "1" / "1"
    subprocess.run(["chattr", "+i", stubborn], check=True)
    try:
        with pytest.raises(OperationError, match=rf"{stubborn}.*EPERM.*chattr -i"):
            files.remove_tree(tree)
    finally:
        subprocess.run(["chattr", "-i", stubborn], check=True)
    files.remove_tree(tree)
    assert not tree.exists()


def test_a_large_tree_is_gone_at_once_and_deleted_behind(files: LocalFiles, root: Path, target: Path) -> None:
    make_tree(target, 300)
    files.discard(target)
    assert not target.exists()
    files.settle()
    assert os.listdir(root / "volmgr" / "trash") == []


def test_a_small_tree_never_sees_the_trash(files: LocalFiles, root: Path, target: Path) -> None:
    make_tree(target, 3)
    files.discard(target)
    assert os.listdir(root) == []


def test_what_a_crash_left_in_the_trash_is_deleted_at_the_next_start(files: LocalFiles, root: Path) -> None:
    trash = root / "volmgr" / "trash"
    make_tree(trash / "left", 300)
    (trash / "file").touch()
    files.resume_discards()
    files.settle()
    assert os.listdir(trash) == []


def test_an_immutable_file_keeps_only_what_leads_to_it_in_the_trash(
    files: LocalFiles, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trash = root / "volmgr" / "trash"
    for name in ("first", "second"):
        make_tree(trash / name, 20)
    stubborn = trash / "first" / "1" / "1"
    subprocess.run(["chattr", "+i", stubborn], check=True)
    try:
        files.resume_discards()
        files.settle()
    finally:
        subprocess.run(["chattr", "-i", stubborn], check=True)
    assert [str(path.relative_to(trash)) for path in sorted(trash.rglob("*"))] == ["first", "first/1", "first/1/1"]
    assert f"cannot remove {stubborn}: EPERM" in caplog.text


def test_a_tree_on_another_file_system_than_the_trash_is_removed_in_place(files: LocalFiles, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    make_tree(tree, 300)
    files.discard(tree)
    assert not tree.exists()


def test_a_mount_in_the_trash_stays_with_all_that_is_in_it(
    files: LocalFiles, mounts: KernelMounts, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = root / "volmgr" / "trash" / "left" / "mounted"
    place.mkdir(parents=True)
    mounts.ensure_mounted(place, "tmpfs")
    (place / "file").touch()
    files.resume_discards()
    files.settle()
    assert (place / "file").exists()
    assert "left in the trash" in caplog.text


def test_a_mount_made_between_the_look_and_the_removal_is_not_entered(mounts: KernelMounts, target: Path) -> None:
    make_tree(target, 3)
    mounts.ensure_mounted(target / "1", "tmpfs")
    (target / "1" / "precious").touch()
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        with pytest.raises(BusyError, match=str(target / "1")):
            remove_tree(target, directory)
        mounts.ensure_mounted(target, "tmpfs")
        (target / "precious").touch()
        with pytest.raises(BusyError):
            remove_tree(target, directory)
    finally:
        os.close(directory)
    assert (target / "precious").exists()
    syscalls.umount(str(target))
    assert (target / "1" / "precious").exists()
