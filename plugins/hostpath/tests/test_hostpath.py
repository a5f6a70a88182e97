"""hostPath on a host in memory: what each type accepts, makes and refuses."""

from pathlib import Path

import pytest

from volmgr.plugin import Applies, Mounted, OperationError, SpecError, TransientError, Unmounted
from volmgr.testing import FakeHost, FaultHost, Volume
from volmgr_hostpath.plugin import HostPath, HostPathSource

PLACE = Path("/srv/thing")
KINDS = ("directory", "file", "socket", "char", "block", "fifo")
OWN_TYPES = {
    "directory": {"Directory", "DirectoryOrCreate"},
    "file": {"File", "FileOrCreate"},
    "socket": {"Socket"},
    "char": {"CharDevice"},
    "block": {"BlockDevice"},
    "fifo": set[str](),
}
TYPES = ("Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice")
WORDS = {
    "Directory": "a directory",
    "DirectoryOrCreate": "a directory",
    "File": "a file",
    "FileOrCreate": "a file",
    "Socket": "a socket file",
    "CharDevice": "a character device",
    "BlockDevice": "a block device",
}
FOUND = {
    "directory": "Directory",
    "file": "File",
    "socket": "Socket",
    "char": "CharDevice",
    "block": "BlockDevice",
    "fifo": "FIFO",
}


def volume(path: Path | str = PLACE, of_type: str = "") -> Volume:
    return Volume(HostPath(), HostPathSource(path=str(path), type=of_type))


def host_with(kind: str, at: Path = PLACE) -> FakeHost:
    host = FakeHost()
    if kind == "directory":
        host.mkdir(at)
    elif kind == "file":
        host.put(at)
    else:
        host.special(at, kind)
    return host


@pytest.mark.parametrize("through_link", [False, True])
@pytest.mark.parametrize("of_type", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_type_accepts_its_own_kind_alone(kind: str, of_type: str, through_link: bool) -> None:
    host = host_with(kind)
    path = PLACE
    if through_link:
        path = Path("/srv/link")
        host.link(path, PLACE)
    before = host.tree()
    if of_type in OWN_TYPES[kind]:
        assert volume(path, of_type).mount(host) == Mounted(path=path)
    else:
        with pytest.raises(OperationError) as caught:
            volume(path, of_type).mount(host)
        message = f"hostPath type check failed: {path} is not {WORDS[of_type]}, it's a {FOUND[kind]}"
        assert str(caught.value) == message
    assert host.tree() == before


@pytest.mark.parametrize("of_type", ["Directory", "File", "Socket", "CharDevice", "BlockDevice"])
@pytest.mark.parametrize("dangling", [False, True])
def test_what_is_not_there_yet_is_waited_for(of_type: str, dangling: bool) -> None:
    host = FakeHost()
    if dangling:
        host.link(PLACE, "/srv/missing")
    with pytest.raises(TransientError) as caught:
        volume(of_type=of_type).mount(host)
    problem, _, remedy = str(caught.value).partition("; ")
    assert problem == f"hostPath type check failed: {PLACE} is not {WORDS[of_type]}, it does not exist"
    makes = f", or write type: {of_type}OrCreate" if of_type in {"Directory", "File"} else ""
    assert remedy == f"make it{makes}: it is looked for again and again"
    assert caught.value.waits_for == str(PLACE)


def test_an_empty_type_looks_at_nothing() -> None:
    faulty = FaultHost(FakeHost())
    assert volume("/srv/missing").mount(faulty) == Mounted(path=Path("/srv/missing"))
    assert faulty.trace == []


def test_a_directory_is_created_with_its_parents() -> None:
    host = FakeHost()
    for _ in range(2):
        volume("/srv/a/b", "DirectoryOrCreate").mount(host)
    assert host.tree("/srv/a") == {Path("/srv/a"): "directory 755 0:0", Path("/srv/a/b"): "directory 755 0:0"}


def test_a_directory_that_exists_keeps_its_mode() -> None:
    host = FakeHost()
    host.mkdir(PLACE, 0o700)
    volume(of_type="DirectoryOrCreate").mount(host)
    assert host.tree(PLACE) == {PLACE: "directory 700 0:0"}


def test_a_directory_is_created_behind_a_linked_parent() -> None:
    host = FakeHost()
    host.mkdir("/srv/real")
    host.link("/srv/link", "real")
    volume("/srv/link/new", "DirectoryOrCreate").mount(host)
    assert Path("/srv/real/new") in host.tree("/srv/real")


def test_a_file_is_created_empty() -> None:
    host = FakeHost(umask=0o077)
    for _ in range(2):
        volume(of_type="FileOrCreate").mount(host)
    assert host.tree(PLACE) == {PLACE: "file 644 0:0 b''"}


def test_a_file_that_exists_keeps_its_content_and_mode() -> None:
    host = FakeHost()
    host.put(PLACE, b"kept", 0o600)
    volume(of_type="FileOrCreate").mount(host)
    assert host.tree(PLACE) == {PLACE: "file 600 0:0 b'kept'"}


def test_a_file_is_not_created_where_its_directory_is_missing() -> None:
    host = FakeHost()
    before = host.tree()
    with pytest.raises(TransientError) as caught:
        volume("/srv/missing/file", "FileOrCreate").mount(host)
    assert caught.value.waits_for == "/srv/missing"
    assert host.tree() == before


@pytest.mark.parametrize("of_type", ["DirectoryOrCreate", "FileOrCreate"])
@pytest.mark.parametrize("target", ["/srv/missing", "/elsewhere/missing", "thing"])
def test_nothing_is_created_through_a_dangling_link(of_type: str, target: str) -> None:
    host = FakeHost()
    host.link(PLACE, target)
    before = host.tree()
    with pytest.raises(OperationError):
        volume(of_type=of_type).mount(host)
    assert host.tree() == before


@pytest.mark.parametrize("of_type", ["DirectoryOrCreate", "FileOrCreate"])
def test_nothing_is_created_through_a_dangling_parent(of_type: str) -> None:
    host = FakeHost()
    host.link("/srv/link", "/srv/missing")
    before = host.tree()
    with pytest.raises((OperationError, TransientError)):
        volume("/srv/link/new", of_type).mount(host)
    assert host.tree() == before


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/a/../b", "must not contain '..'"),
        ("/..", "must not contain '..'"),
        ("a/b", "must be absolute"),
        ("", "must be absolute"),
        ("/a\0b", "must not contain a NUL"),
    ],
)
def test_a_path_that_no_container_may_have_is_refused_unseen(path: str, problem: str) -> None:
    faulty = FaultHost(FakeHost())
    with pytest.raises(SpecError) as caught:
        volume(path, "DirectoryOrCreate").mount(faulty)
    assert str(caught.value) == f"invalid HostPath {path!r}: path {problem}"
    assert faulty.trace == []
    of = volume(path)
    with pytest.raises(SpecError, match="invalid HostPath"):
        of.plugin.check(of.spec, None)


@pytest.mark.parametrize("path", ["/a/b..c", "/a/...", "/a/..b", "/a//b/", "/a b\n~"])
def test_dots_within_a_name_and_other_odd_names_are_fine(path: str) -> None:
    assert volume(path).mount(FakeHost()) == Mounted(path=Path(path))


def test_an_unknown_type_names_those_that_exist() -> None:
    with pytest.raises(SpecError, match="Folder is an invalid volume type; write one of DirectoryOrCreate"):
        volume(of_type="Folder").mount(FakeHost())
    of = volume(of_type="Folder")
    with pytest.raises(SpecError, match="Folder is an invalid volume type"):
        of.plugin.check(of.spec, of.pod)


@pytest.mark.parametrize("change", ["disk_full", "read_only"])
@pytest.mark.parametrize("of_type", ["DirectoryOrCreate", "FileOrCreate"])
def test_a_full_or_read_only_disk_creates_nothing(change: str, of_type: str) -> None:
    host = FakeHost()
    setattr(host, change, True)
    before = host.tree()
    with pytest.raises(OperationError, match=r"no space left|read-only"):
        volume(of_type=of_type).mount(host)
    assert host.tree() == before


def test_unmounting_touches_nothing() -> None:
    host = host_with("file")
    faulty = FaultHost(host)
    assert volume().unmount(faulty) == Unmounted()
    assert faulty.trace == []


def test_a_volume_is_known_by_its_path_and_has_no_directory_of_its_own() -> None:
    facets = volume().facets
    assert HostPath().volume_name(volume().spec) == "/srv/thing"
    assert (facets.directory, facets.remount, facets.attach, facets.device) == (False, False, False, False)
    assert facets.fs_group is Applies.NOBODY
