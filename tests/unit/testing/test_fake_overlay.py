"""Overlays of the host in memory, and of this machine: what is seen through one is the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from volmgr.errors import OperationError
from volmgr.host.interface import Host
from volmgr.testing import FakeHost
from volmgr.testing.real_host import RealHosts

pytestmark = pytest.mark.root


@pytest.fixture(params=["fake", "real"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """Give a host whose root is on a file system that can hold what is written to an overlay."""
    with RealHosts(tmp_path) as hosts:
        host = FakeHost() if request.param == "fake" else hosts.fresh()[0]
        host.mounts.ensure_mounted(host.paths.root, "tmpfs", options=("size=8m",))
        yield host


def directory(host: Host, name: str, **files: bytes) -> Path:
    path = host.paths.root / name
    host.files.ensure_directory(path, 0o755)
    for file, content in files.items():
        host.files.write(path / file, content, 0o640)
    return path


def layers(host: Host) -> str:
    over, base = directory(host, "over", both=b"over"), directory(host, "base", both=b"base", only=b"base")
    directory(host, "over/inner", one=b"1")
    directory(host, "base/inner", two=b"2")
    return f"lowerdir={over}:{base}"


def mounted(host: Host, *options: str) -> Path:
    target = directory(host, "seen")
    host.mounts.ensure_mounted(target, "overlay", source="mine", options=options)
    return target


def places(host: Host) -> tuple[str, str]:
    return f"upperdir={directory(host, 'upper')}", f"workdir={directory(host, 'work')}"


def test_the_uppermost_of_two_files_is_seen_and_directories_are_seen_as_one(host: Host) -> None:
    seen = mounted(host, layers(host), *places(host))
    entry = host.mounts.entry(seen)
    assert entry is not None
    assert (entry.fstype, entry.source) == ("overlay", "mine")
    assert host.mounts.file_system(seen).type == "overlay"
    assert host.files.names(seen) == ("both", "inner", "only")
    assert host.files.names(seen / "inner") == ("one", "two")
    assert (host.files.read(seen / "both"), host.files.read(seen / "only")) == (b"over", b"base")


def test_what_is_written_is_in_no_lower_directory_and_there_again_with_the_same_upper_one(host: Host) -> None:
    options = (layers(host), *places(host))
    seen = mounted(host, *options)
    host.files.write(seen / "both", b"changed")
    host.files.remove_file(seen / "only")
    assert host.files.read(host.paths.root / "over/both") == b"over"
    assert host.files.read(host.paths.root / "base/only") == b"base"

    host.mounts.unmount(seen)
    assert host.files.names(seen) == ()
    mounted(host, *options)
    assert host.files.names(seen) == ("both", "inner")
    assert host.files.read(seen / "both") == b"changed"


def test_without_an_upper_directory_nothing_can_be_written(host: Host) -> None:
    seen = mounted(host, layers(host))
    assert host.files.read(seen / "both") == b"over"
    with pytest.raises(OperationError, match="read-only"):
        host.files.write(seen / "both", b"changed")


def test_the_work_directory_is_left_with_what_the_kernel_made(host: Host) -> None:
    seen = mounted(host, layers(host), *places(host))
    host.mounts.unmount(seen)
    assert host.files.names(host.paths.root / "work") == ("work",)


@pytest.mark.parametrize(
    "options",
    [
        ("upperdir=ROOT/upper", "workdir=ROOT/work"),
        ("lowerdir=ROOT/missing", "upperdir=ROOT/upper", "workdir=ROOT/work"),
        ("lowerdir=ROOT/base/only", "upperdir=ROOT/upper", "workdir=ROOT/work"),
        ("lowerdir=ROOT/over", "upperdir=ROOT/upper"),
        ("lowerdir=ROOT/over",),
        ("lowerdir=ROOT/over", "upperdir=ROOT/upper", "workdir=ROOT/upper"),
        ("lowerdir=ROOT/over", "upperdir=ROOT/upper", "workdir=ROOT/other/work"),
        ("lowerdir=ROOT/over:ROOT/base", "nonsense=1"),
    ],
)
def test_what_the_kernel_refuses_is_refused(host: Host, options: tuple[str, ...]) -> None:
    layers(host)
    places(host)
    host.mounts.ensure_mounted(directory(host, "other"), "tmpfs")
    directory(host, "other/work")
    with pytest.raises(OperationError):
        mounted(host, *(option.replace("ROOT", str(host.paths.root)) for option in options))
    assert not host.mounts.is_mount_point(host.paths.root / "seen")
