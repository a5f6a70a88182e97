"""Files that are replaced at once: kubelet's scheme, what is refused, and what any next write repairs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.errors import BusyError, OperationError, SpecError, TransientError, VolmgrError
from volmgr.host.atomic import checked
from volmgr.model.payload import PayloadFile
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, When

TOP = Path("/srv/volume")
STAMP = re.compile(r"\.\.\d{4}(_\d\d){5}\.\d+")
SPARE = PayloadFile(data=b"", mode=0o644)


def files(content: Mapping[str, str], mode: int = 0o644, uid: int = -1) -> dict[str, PayloadFile]:
    return {path: PayloadFile(data=text.encode(), mode=mode, uid=uid) for path, text in content.items()}


def volume(content: Mapping[str, str]) -> FakeHost:
    """Give a host with a volume of this content."""
    host = FakeHost()
    host.mkdir(TOP)
    host.atomic.write(TOP, files(content))
    return host


def seen(host: FakeHost) -> dict[str, str]:
    """Give the files as a container finds them: by the names that do not begin with two dots."""
    found: dict[str, str] = {}
    for name in host.files.names(TOP):
        if name.startswith(".."):
            continue
        pending = [(name, host.machine.find(TOP / name)[1])]
        while pending:
            path, node = pending.pop()
            if node.kind == "file":
                found[path] = node.content.decode()
            pending.extend((f"{path}/{child}", below) for child, below in node.children.items())
    return found


def stamps(host: FakeHost) -> list[str]:
    return [name for name in host.files.names(TOP) if STAMP.fullmatch(name)]


def published(host: FakeHost) -> str:
    name = host.files.read_link(TOP / "..data")
    assert name is not None
    return name


# The scheme


def test_the_files_lie_in_a_directory_named_by_the_time_behind_one_link_and_a_link_each() -> None:
    host = volume({"key": "one", "etc/conf.d/a": "two", "etc/b": "three"})
    stamp = published(host)
    assert STAMP.fullmatch(stamp)
    assert host.tree(TOP) == {
        TOP: "directory 755 0:0",
        TOP / stamp: "directory 755 0:0",
        TOP / stamp / "etc": "directory 755 0:0",
        TOP / stamp / "etc/b": "file 644 0:0 b'three'",
        TOP / stamp / "etc/conf.d": "directory 755 0:0",
        TOP / stamp / "etc/conf.d/a": "file 644 0:0 b'two'",
        TOP / stamp / "key": "file 644 0:0 b'one'",
        TOP / "..data": f"symlink 777 0:0 {stamp.encode()!r}",
        TOP / "etc": "symlink 777 0:0 b'..data/etc'",
        TOP / "key": "symlink 777 0:0 b'..data/key'",
    }


def test_the_mode_is_the_one_that_was_asked_for_whatever_the_umask_is() -> None:
    host = FakeHost(umask=0o077)
    host.mkdir(TOP)
    host.atomic.write(TOP, {"a/wide": PayloadFile(data=b"", mode=0o666), "tight": PayloadFile(data=b"", mode=0, uid=7)})
    found = host.tree(TOP / published(host))
    assert [found[path] for path in sorted(found)] == [
        "directory 755 0:0",
        "directory 755 0:0",
        "file 666 0:0 b''",
        "file 0 7:0 b''",
    ]


def test_no_files_are_an_empty_volume_that_fills_later() -> None:
    host = volume({})
    assert seen(host) == {}
    assert host.atomic.is_published(TOP)
    host.atomic.write(TOP, files({"key": "now"}))
    assert seen(host) == {"key": "now"}


# Changes


def test_the_same_files_are_not_written_again() -> None:
    host = volume({"key": "one", "dir/b": "two"})
    faulty = FaultHost(host)
    assert faulty.atomic.write(TOP, files({"key": "one", "dir/b": "two"})) is False
    assert faulty.verbs == ["files.links", "files.has_tree"]


@pytest.mark.parametrize(
    "changed",
    [
        files({"key": "two"}),
        files({"key": "one", "more": ""}),
        files({"other": "one"}),
        files({}),
        files({"key": "one"}, mode=0o600),
        files({"key": "one"}, uid=1000),
        {"key": PayloadFile(data=b"one", mode=0o644, gid=1000)},
    ],
)
def test_content_names_modes_and_owners_count_as_a_change(changed: dict[str, PayloadFile]) -> None:
    host = volume({"key": "one"})
    before = published(host)
    assert host.atomic.write(TOP, changed) is True
    assert published(host) != before
    assert stamps(host) == [published(host)]
    assert host.files.has_tree(TOP / published(host), changed)
    assert host.atomic.write(TOP, changed) is False


def test_links_of_what_was_removed_go_and_what_users_put_there_stays() -> None:
    host = volume({"zip/bar": "1", "zip/baz": "2", "foo": "3"})
    host.put(TOP / "mine", b"mine")
    host.link(TOP / "shortcut", "..data/foo")
    host.atomic.write(TOP, files({"zip/baz": "2", "foo": "3"}))
    assert seen(host) == {"zip/baz": "2", "foo": "3", "mine": "mine", "shortcut": "3"}
    host.atomic.write(TOP, files({"foo": "3"}))
    assert host.files.names(TOP)[2:] == ("foo", "mine", "shortcut")


def test_a_lost_link_is_restored_and_a_wrong_one_corrected_without_a_new_directory() -> None:
    host = volume({"lost": "1", "wrong": "2", "right": "3"})
    before = published(host)
    host.machine.unlink(TOP / "lost")
    host.machine.unlink(TOP / "wrong")
    host.link(TOP / "wrong", "/etc/shadow")
    assert host.atomic.write(TOP, files({"lost": "1", "wrong": "2", "right": "3"})) is False
    assert seen(host) == {"lost": "1", "wrong": "2", "right": "3"}
    assert published(host) == before


MEDDLERS: dict[str, Callable[[FakeHost, Path], object]] = {
    "content": lambda host, path: host.put(path, b"meddled"),
    "mode": lambda host, path: host.machine.chmod(path, 0o666),
    "owner": lambda host, path: host.machine.chown(path, 5, 5),
    "removal": lambda host, path: host.machine.unlink(path),
    "addition": lambda host, path: host.put(path.with_name("more"), b""),
    "directory": lambda host, path: host.machine.chmod(path.parent, 0o700),
}


@pytest.mark.parametrize("meddler", MEDDLERS)
def test_what_somebody_changed_behind_the_link_is_written_again(meddler: str) -> None:
    host = volume({"key": "right"})
    MEDDLERS[meddler](host, TOP / published(host) / "key")
    assert host.atomic.write(TOP, files({"key": "right"})) is True
    assert seen(host) == {"key": "right"}


@pytest.mark.parametrize("name", ["key", "..data"])
def test_what_is_no_link_is_never_overwritten_and_named_before_anything_changes(name: str) -> None:
    host = volume({"other": "1"})
    if name == "..data":
        host.machine.unlink(TOP / name)
    host.put(TOP / name, b"a user's")
    before = host.tree(TOP)
    with pytest.raises(OperationError, match=f"cannot link {TOP}/{name}: .* is no link .* move it away"):
        host.atomic.write(TOP, files({"key": "2"}))
    assert host.tree(TOP) == before


# Before it is published


def test_the_callback_sees_the_new_files_while_everybody_else_sees_the_old_ones() -> None:
    host = volume({"key": "old"})
    told: list[str] = []

    def look(new: Path) -> None:
        told.extend((host.content(new / "key").decode(), seen(host)["key"], published(host)))
        assert new.name in stamps(host)

    old = published(host)
    host.atomic.write(TOP, files({"key": "new"}), before_publish=look)
    assert told == ["new", "old", old]
    assert seen(host) == {"key": "new"}


def test_a_callback_that_fails_leaves_the_old_files_and_nothing_of_the_new_ones() -> None:
    host = volume({"key": "old"})
    before = host.tree(TOP)

    def refuse(_new: Path) -> None:
        raise TransientError("not now")

    with pytest.raises(TransientError, match="not now"):
        host.atomic.write(TOP, files({"key": "new", "more": ""}), before_publish=refuse)
    assert host.tree(TOP) == before


def test_a_full_disk_leaves_the_old_files_and_nothing_of_the_new_ones() -> None:
    host = volume({"key": "old"})
    before = host.tree(TOP)
    host.disk_full = True
    with pytest.raises(OperationError, match="no space left"):
        host.atomic.write(TOP, files({"key": "new"}))
    assert host.tree(TOP) == before


def test_a_link_is_made_after_what_it_leads_to_and_old_files_go_last() -> None:
    host = volume({"old": "1"})
    old = published(host)
    faulty = FaultHost(host)
    faulty.atomic.write(TOP, files({"new": "2"}))
    order = [
        (call.verb.removeprefix("files."), Path(str(call.args[-1 if "rename" in call.verb else 0])).name)
        for call in faulty.trace
    ]
    new = published(host)
    assert order == [
        ("links", "volume"),
        ("has_tree", old),
        ("make_tree", new),
        ("ensure_symlink", "..data_tmp"),
        ("rename", "..data"),
        ("ensure_symlink", "new"),
        ("remove_file", "old"),
        ("remove_tree", old),
    ]


# Repairs


@pytest.mark.parametrize("changed", ["one", "two"])
@pytest.mark.parametrize("kind", ["link", "directory", "file"])
def test_a_stale_temporary_link_is_repaired(kind: str, changed: str) -> None:
    host = volume({"key": "one"})
    stale = TOP / "..data_tmp"
    if kind == "link":
        host.link(stale, "..gone")
    elif kind == "file":
        host.put(stale)
    else:
        host.mkdir(stale)
    host.atomic.write(TOP, files({"key": changed}))
    assert seen(host) == {"key": changed}
    assert host.files.names(TOP) == (published(host), "..data", "key")


@pytest.mark.parametrize("changed", ["one", "two"])
def test_stray_directories_go_with_the_next_write_but_only_those_of_the_scheme(changed: str) -> None:
    host = volume({"key": "one"})
    host.mkdir(TOP / "..2020_01_02_03_04_05.678")
    host.put(TOP / "..2020_01_02_03_04_05.678/key", b"partly")
    for name in ("..2020", "..mine", ".hidden", "2020_01_02_03_04_05.678"):
        host.mkdir(TOP / name)
    host.atomic.write(TOP, files({"key": changed}))
    assert set(host.files.names(TOP)) == {
        "..2020", "..mine", ".hidden", "2020_01_02_03_04_05.678", published(host), "..data", "key",
    }  # fmt: skip


def test_old_files_that_cannot_be_removed_are_named_and_go_with_the_next_write() -> None:
    host = volume({"key": "one"})
    old = TOP / published(host)
    host.machine.mount(old, "tmpfs")
    with pytest.raises(BusyError, match=f"{old} is a mount"):
        host.atomic.write(TOP, files({"key": "two"}))
    assert seen(host) == {"key": "two"}
    for text in ("three", "four", "five"):
        with pytest.raises(BusyError, match=f"{old} is a mount"):
            host.atomic.write(TOP, files({"key": text}))
    assert sorted(stamps(host)) == sorted((old.name, published(host))), "each change would leave one more"
    mount = host.machine.mount_at(old)
    assert mount is not None
    host.machine.unmount(mount)
    assert host.atomic.write(TOP, files({"key": "five"})) is False
    assert stamps(host) == [published(host)]


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("begin", [{}, {"key": "old", "gone": "x", "dir/a": "1"}])
def test_the_next_write_repairs_whatever_a_crash_left(when: When, begin: dict[str, str]) -> None:
    wanted = {"key": "new", "dir/b": "2"}
    for number in range(1, 100):
        host = volume(begin) if begin else FakeHost()
        host.mkdir(TOP)
        faulty = FaultHost(host, [Fault.kill(number, when)])
        try:
            faulty.atomic.write(TOP, files(wanted))
        except Killed:
            visible = {path: text for path, text in seen_by_containers(host).items() if path in {*begin, *wanted}}
            assert visible.items() <= begin.items() or visible.items() <= wanted.items(), str(faulty.trace[-1])
            host.atomic.write(TOP, files(wanted))
        assert seen(host) == wanted
        assert host.files.names(TOP) == (published(host), "..data", "dir", "key")
        if not faulty.dead:
            return
    pytest.fail("a write made a hundred calls")


def seen_by_containers(host: FakeHost) -> dict[str, str]:
    """Give the files that can be opened, which links to nothing cannot."""
    for name in host.files.names(TOP):
        if host.machine.look(TOP / name) is None:
            host.machine.unlink(TOP / name)
    return seen(host)


@pytest.mark.parametrize("when", list(When))
def test_an_error_at_any_call_leaves_old_or_new_files_whole(when: When) -> None:
    for number in range(1, 100):
        host = volume({"key": "old", "same": "x"})
        faulty = FaultHost(host, [Fault(number, OperationError("input/output error"), when)])
        try:
            faulty.atomic.write(TOP, files({"key": "new", "same": "x"}))
        except VolmgrError:
            assert seen(host) in ({"key": "old", "same": "x"}, {"key": "new", "same": "x"})
            assert len(stamps(host)) <= 2
        host.atomic.write(TOP, files({"key": "new", "same": "x"}))
        assert seen(host) == {"key": "new", "same": "x"}
        assert host.files.names(TOP) == (published(host), "..data", "key", "same")
        if len(faulty.trace) < number:
            return
    pytest.fail("a write made a hundred calls")


# Paths


@pytest.mark.parametrize(
    "path", ["valid", "a/b/c", "a/..b", ".dot", "a/./b", "a//b", "x" * 255, "a/" + "/".join(["y" * 200] * 20)]
)
def test_paths_that_stay_in_the_volume_are_taken(path: str) -> None:
    (clean,) = checked({path: SPARE})
    assert "//" not in clean
    assert not clean.startswith("..")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("..sneaky", "must not begin with .."),
        ("./..sneaky", "must not begin with .."),
        ("/dev/null", "must be relative"),
        ("", "is empty"),
        (".", "names the volume itself"),
        ("..", "must not have .. in it"),
        ("../x", "must not have .. in it"),
        ("a/../../x", "must not have .. in it"),
        ("a/..", "must not have .. in it"),
        ("x" * 256, "longer than 255"),
        ("ä" * 128, "longer than 255"),
        ("a/" * 2049, "longer than 4096"),
        ("a/" * 100 + "b", "deeper than 100 levels"),
        ("a\0b", "NUL"),
    ],
)
def test_paths_that_do_not_are_refused_by_name(path: str, problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        checked({path: SPARE})


@pytest.mark.parametrize("paths", [("a", "a/b"), ("a/b/c", "a/b"), ("a", "./a")])
def test_files_that_are_in_each_other_s_way_are_refused(paths: tuple[str, str]) -> None:
    with pytest.raises(SpecError, match=r"rename one of them|a path of its own"):
        checked(dict.fromkeys(paths, SPARE))


@given(st.dictionaries(st.text("ab./\0ä", max_size=8), st.just(SPARE), max_size=4))
def test_whatever_the_paths_are_they_are_refused_or_written_inside(payload: dict[str, PayloadFile]) -> None:
    host = FakeHost()
    host.mkdir(TOP)
    before = set(host.tree())
    try:
        clean = checked(payload)
    except SpecError:
        return
    host.atomic.write(TOP, payload)
    assert set(seen(host)) == set(clean)
    assert all(path.is_relative_to(TOP) for path in set(host.tree()) - before)
