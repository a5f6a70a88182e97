"""hostPath on this machine: real sockets and devices, racing creators, paths that cannot be read."""

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from volmgr.plugin import Host, Mounted, OperationError, TransientError
from volmgr.testing import Volume
from volmgr.testing.real_host import RealHosts
from volmgr_hostpath.plugin import HostPath, HostPathSource

pytestmark = pytest.mark.root

OWN_TYPES = {
    "dir": {"Directory", "DirectoryOrCreate"},
    "file": {"File", "FileOrCreate"},
    "socket": {"Socket"},
    "char": {"CharDevice"},
    "block": {"BlockDevice"},
    "fifo": set[str](),
}
TYPES = ("Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with RealHosts(tmp_path / "hosts") as hosts:
        yield hosts.fresh()[0]


def volume(path: Path, of_type: str = "") -> Volume:
    return Volume(HostPath(), HostPathSource(path=str(path), type=of_type))


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


MAKERS: dict[str, Callable[[Path], object]] = {
    "dir": Path.mkdir,
    "file": Path.touch,
    "socket": make_socket,
    "char": lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3)),
    "block": lambda path: os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 250)),
    "fifo": os.mkfifo,
}


@pytest.mark.parametrize("of_type", TYPES)
@pytest.mark.parametrize("kind", MAKERS)
def test_a_type_accepts_its_own_kind_alone_also_behind_a_link(
    host: Host, tmp_path: Path, kind: str, of_type: str
) -> None:
    thing, link = tmp_path / "thing", tmp_path / "link"
    MAKERS[kind](thing)
    link.symlink_to(thing)
    for path in (thing, link):
        if of_type in OWN_TYPES[kind]:
            assert volume(path, of_type).mount(host) == Mounted(path=path)
        else:
            with pytest.raises(OperationError, match=r"hostPath type check failed: .* is not a .*, it's a "):
                volume(path, of_type).mount(host)


@pytest.mark.parametrize("of_type", ["DirectoryOrCreate", "FileOrCreate"])
@pytest.mark.parametrize("where", ["link", "link/new"])
def test_nothing_is_created_through_a_dangling_link(host: Host, tmp_path: Path, of_type: str, where: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    with pytest.raises((OperationError, TransientError)):
        volume(tmp_path / where, of_type).mount(host)
    assert not (tmp_path / "outside").exists()


def test_what_is_created_has_kubelets_modes(host: Host, tmp_path: Path) -> None:
    volume(tmp_path / "a/b", "DirectoryOrCreate").mount(host)
    volume(tmp_path / "a/file", "FileOrCreate").mount(host)
    modes = [(tmp_path / name).stat().st_mode & 0o7777 for name in ("a", "a/b", "a/file")]
    assert modes == [0o755, 0o755, 0o644]


@pytest.mark.parametrize("of_type", ["DirectoryOrCreate", "FileOrCreate"])
def test_many_pods_that_create_one_path_at_once_all_get_it(host: Host, tmp_path: Path, of_type: str) -> None:
    path = tmp_path / ("deep/er/path" if of_type == "DirectoryOrCreate" else "file")
    together = threading.Barrier(8)
    results: list[object] = []

    def create() -> None:
        together.wait()
        try:
            results.append(volume(path, of_type).mount(host))
        except Exception as error:  # noqa: BLE001 - shown by the assertion
            results.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [Mounted(path=path)] * 8


def test_an_empty_type_does_not_mind_a_path_that_cannot_be_looked_at(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    beyond = tmp_path / "file" / "beyond" / ("x" * 300)
    assert volume(beyond).mount(host) == Mounted(path=beyond)
