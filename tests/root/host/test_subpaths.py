"""Parts of volumes, bound for containers on the real kernel (scenarios 144 and 145)."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.root.host.fuse import SilentFuse
from volmgr.errors import BusyError, OperationError, SpecError
from volmgr.host import syscalls
from volmgr.host.commands import LocalCommands
from volmgr.host.files import LocalFiles
from volmgr.host.interface import Host
from volmgr.host.mounts import KernelMounts
from volmgr.host.subpaths import LocalSubpaths

RACES = 10_000


@pytest.fixture
def volume(host: Host) -> Path:
    """A volume below the root, as an emptyDir is."""
    path = host.paths.volume("u", "kubernetes.io/empty-dir", "v")
    host.files.ensure_directory(path, 0o777, exact=True)
    return path


@pytest.fixture
def place(host: Host) -> Path:
    """Where the part is bound."""
    return host.paths.subpaths("u") / "v" / "main" / "0"


@pytest.fixture
def outside(root: Path) -> Path:
    """A place on the same file system that is no part of the volume."""
    path = root / "outside"
    (path / "b").mkdir(parents=True)
    (path / "secret").write_text("not for containers")
    return path


def mount_id(path: Path) -> int:
    return syscalls.statx(str(path)).mount


def test_a_directory_is_bound_on_a_directory_and_a_file_on_a_file(host: Host, volume: Path, place: Path) -> None:
    (volume / "d").mkdir()
    (volume / "d" / "f").write_text("one")

    assert host.subpaths.bind(volume, "d", place)
    assert host.subpaths.bind(volume, "d/f", place.with_name("1"))

    assert (place / "f").read_text() == place.with_name("1").read_text() == "one"
    host.mounts.unmount_below(place.parent)
    assert [(p.is_dir(), stat.S_IMODE(p.stat().st_mode)) for p in (place.parent, place)] == [(True, 0o750)] * 2
    assert place.with_name("1").is_file()
    assert stat.S_IMODE(place.with_name("1").stat().st_mode) == 0o640


def test_sockets_and_fifos_are_bound_on_files(
    host: Host, volume: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        monkeypatch.chdir(volume)  # the address of a socket is short
        server.bind("s")
        server.listen()
        assert host.subpaths.bind(volume, "s", place)
        monkeypatch.chdir(place.parent)
        client.connect("0")
    os.mkfifo(volume / "p")

    assert host.subpaths.bind(volume, "p", place.with_name("1"))

    assert stat.S_ISFIFO(place.with_name("1").stat().st_mode)


@pytest.mark.parametrize("sub_path", ["", "/d", "../d", "d/../../d", "a/..", "d\0"])
def test_a_path_that_is_none_inside_a_volume_is_refused(host: Host, volume: Path, place: Path, sub_path: str) -> None:
    with pytest.raises(SpecError, match="write a path inside the volume"):
        host.subpaths.bind(volume, sub_path, place)
    assert not place.parent.exists()


def test_planted_links_that_lead_out_are_refused_and_nothing_is_made_through_them(
    host: Host, volume: Path, place: Path, outside: Path
) -> None:
    (volume / "d").mkdir()
    links = {"abs": str(outside), "up": f"../../../../../..{outside}", "nowhere": "/nowhere", "d/back": "../../other"}
    for name, target in links.items():
        (volume / name).symlink_to(target)
    (volume / "via").symlink_to("abs/b")
    before = sorted(outside.rglob("*"))

    for sub_path in (*links, "abs/secret", "abs/new/dir", "nowhere/new", "up/b", "via", "d/back/new"):
        with pytest.raises(OperationError, match="leads out of the volume"):
            host.subpaths.bind(volume, sub_path, place)

    assert sorted(outside.rglob("*")) == before
    assert not place.exists()


def test_links_that_stay_inside_are_followed(host: Host, volume: Path, place: Path) -> None:
    (volume / "..2026_1").mkdir()
    (volume / "..2026_1" / "key").write_text("value")
    (volume / "..data").symlink_to("..2026_1")
    (volume / "key").symlink_to("..data/key")
    (volume / "there").symlink_to(volume / "..data")
    (volume / "twice").symlink_to("there/key")

    for index, sub_path in enumerate(("key", "..data/key", "there/key", "twice")):
        target = place.with_name(str(index))
        assert host.subpaths.bind(volume, sub_path, target)
        assert target.read_text() == "value"


def test_a_link_that_names_a_host_path_s_volume_by_either_of_its_names_is_followed(
    host: Host, tmp_path: Path, place: Path
) -> None:
    (tmp_path / "disk" / "d").mkdir(parents=True)
    (tmp_path / "name").symlink_to("disk")
    for number, path in enumerate((tmp_path / "disk", tmp_path / "name")):
        (tmp_path / "disk" / str(number)).symlink_to(path / "d")

        assert host.subpaths.bind(tmp_path / "name", f"{number}/new", place.with_name(str(number)))

    assert (tmp_path / "disk" / "d" / "new").is_dir()


def test_missing_directories_get_the_mode_of_the_volume(host: Host, volume: Path, place: Path) -> None:
    os.chown(volume, 0, 4711)
    volume.chmod(0o3775)

    assert host.subpaths.bind(volume, "a/b//c", place)

    for made in (volume / "a", volume / "a" / "b", volume / "a" / "b" / "c"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o3775
        assert made.stat().st_gid == 4711


def test_what_is_missing_is_an_error_where_nothing_may_be_made(host: Host, volume: Path, place: Path) -> None:
    (volume / "dangling").symlink_to("nothing")
    (volume / "file").touch()

    with pytest.raises(OperationError, match="does not exist"):
        host.subpaths.bind(volume, "a", place, create=False)
    with pytest.raises(OperationError, match="its link dangling -> nothing leads to what does not exist"):
        host.subpaths.bind(volume, "dangling/x", place)
    with pytest.raises(OperationError, match="a part of it is no directory"):
        host.subpaths.bind(volume, "file/x", place)
    assert sorted(path.name for path in volume.iterdir()) == ["dangling", "file"]


def test_a_part_of_a_read_only_volume_is_bound_and_a_missing_one_says_so(host: Host, volume: Path, place: Path) -> None:
    (volume / "d").mkdir()
    host.mounts.ensure_bound(volume, volume, options=("ro",))

    assert host.subpaths.bind(volume, "d", place)

    entry = host.mounts.entry(place)
    assert entry is not None
    assert entry.read_only
    with pytest.raises(OperationError, match="the volume is read-only"):
        host.subpaths.bind(volume, "missing", place.with_name("1"))


def test_what_is_bound_already_is_kept_and_something_else_is_replaced(host: Host, volume: Path, place: Path) -> None:
    (volume / "d").mkdir()
    assert host.subpaths.bind(volume, "d", place)
    before = mount_id(place)
    assert not host.subpaths.bind(volume, "d", place)
    assert mount_id(place) == before

    with subprocess.Popen(["sleep", "60"], cwd=place) as user:  # in use: it is taken away all the same
        (volume / "d").rename(volume / "old")
        (volume / "d").write_text("a file now")
        assert host.subpaths.bind(volume, "d", place)
        user.kill()

    assert place.read_text() == "a file now"
    assert len(host.mounts.below(place)) == 1


def test_a_part_that_was_deleted_is_bound_anew(host: Host, volume: Path, place: Path) -> None:
    (volume / "d").mkdir()
    host.subpaths.bind(volume, "d", place)
    (volume / "d").rmdir()

    assert host.subpaths.bind(volume, "d", place)

    (volume / "d" / "new").touch()
    assert (place / "new").exists()


def test_a_dead_mount_is_replaced(host: Host, volume: Path, place: Path) -> None:
    host.files.ensure_directory(place, 0o750)
    SilentFuse(place).die()

    assert host.subpaths.bind(volume, "d", place)

    assert (volume / "d").stat().st_ino == place.stat().st_ino


class StubbornMounts(KernelMounts):
    """Mounts that cannot be taken away."""

    def unmount(self, target: Path, *, lazy: bool = False, force: bool = False, deadline: float | None = None) -> None:
        raise BusyError(f"cannot unmount {target}: it is in use ({lazy}, {force}, {deadline})")


def test_a_dead_mount_that_cannot_be_unmounted_is_an_error(
    host: Host, files: LocalFiles, volume: Path, place: Path
) -> None:
    host.files.ensure_directory(place, 0o750)
    SilentFuse(place).die()
    stubborn = LocalSubpaths(host.paths, files, StubbornMounts(LocalCommands()))

    with pytest.raises(BusyError, match="in use"):
        stubborn.bind(volume, "d", place)


def test_data_in_the_way_is_kept(host: Host, volume: Path, place: Path) -> None:
    host.files.ensure_directory(place.parent, 0o750)
    place.write_text("somebody's")

    with pytest.raises(OperationError, match="a file with content is in the way"):
        host.subpaths.bind(volume, "d", place)

    assert place.read_text() == "somebody's"


def test_many_that_make_the_same_directories_at_once_all_get_them(host: Host, volume: Path, place: Path) -> None:
    def bind(number: int) -> int:
        target = place.with_name(str(number))
        host.subpaths.bind(volume, f"a{number // 8}/b/{'c' * 200}", target)
        assert target.stat().st_nlink > 0, "it was deleted since"
        return target.stat().st_ino

    volume.chmod(0o2775)
    with ThreadPoolExecutor(8) as threads:
        inodes = list(threads.map(bind, range(160)))

    assert len(set(inodes)) == 20
    made = list(volume.rglob("*"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o2775}
    assert len(made) == 60, "no draft is left"


def test_a_half_made_directory_of_a_killed_daemon_is_replaced(host: Host, volume: Path, place: Path) -> None:
    (volume / ".volmgr-new-a").mkdir(0o700)

    assert host.subpaths.bind(volume, "a", place)

    assert [path.name for path in volume.iterdir()] == ["a"]
    assert stat.S_IMODE((volume / "a").stat().st_mode) == 0o777


ATTACKER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
names = [os.fsencode(name) for name in sys.argv[1:]]
print(flush=True)
while os.getppid() == int(os.environ["VICTIM"]):
    for name in names:
        libc.renameat2(-100, name, -100, name + b".link", 2)  # at once: the directory for the link
"""


@contextmanager
def attacker(*directories: Path) -> Generator[None]:
    """Exchange each directory and the link beside it, again and again, in a process of its own."""
    argv = [sys.executable, "-c", ATTACKER, *map(str, directories)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, "VICTIM": str(os.getpid())}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


def test_ten_thousand_races_with_a_renaming_attacker_are_no_escape(
    host: Host, volume: Path, place: Path, outside: Path
) -> None:
    for name in ("there", "fresh"):
        (volume / name / "b").mkdir(parents=True)
        (volume / f"{name}.link").symlink_to(outside)
    before = {path: path.lstat().st_mtime_ns for path in (outside, *outside.rglob("*"))}
    forbidden = {path.stat().st_ino for path in before}
    bound = refused = 0

    with attacker(volume / "there", volume / "fresh"):
        for number in range(RACES):
            sub_path = f"fresh/{number}" if number % 5 == 0 else "there/b"
            try:
                host.subpaths.bind(volume, sub_path, place)
            except OperationError as error:
                refused += "leads out of the volume" in str(error)
                continue
            bound += 1
            assert place.stat().st_ino not in forbidden
            host.mounts.unmount(place)

    assert {path: path.lstat().st_mtime_ns for path in (outside, *outside.rglob("*"))} == before
    assert bound + refused == RACES
    assert min(bound, refused) > RACES // 100, (bound, refused)  # the attacker did attack
