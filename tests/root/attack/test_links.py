"""Symbolic links that a container with too much of the host planted: nothing beyond them is ever touched."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from volmgr import records, root
from volmgr.errors import OperationError
from volmgr.host.interface import Host
from volmgr.report.orphans import orphans_report
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir


def node_with(host: Host, *volumes: dict[str, object]) -> TestNode:
    """A node with a Pod of these volumes, and another Pod that harms nobody."""
    node = TestNode(host, plugins_of(EmptyDir()))
    node.sources_ready()
    node.apply(pod("bad", *volumes, uid="uid-bad"))
    node.apply(pod("good", {"name": "v", "emptyDir": {}}, uid="uid-good"))
    assert node.is_mounted("uid-bad")
    return node


def untouched(outside: Path) -> bool:
    return (
        (outside / "file").read_text() == "of a user"
        and outside.stat().st_mode & 0o7777 == 0o700
        and outside.stat().st_gid == 0
        and os.path.ismount(outside / "v")
    )


def replace_by_link(path: Path, target: Path) -> None:
    path.rename(path.with_name(f"{path.name}.moved"))
    path.symlink_to(target)


def test_a_volume_whose_directory_became_a_link_is_not_unmounted_beyond_it(host: Host, outside: Path) -> None:
    node = node_with(host, {"name": "v", "emptyDir": {}})
    replace_by_link(host.paths.volume("uid-bad", EmptyDir.name, "v").parent, outside)
    node.delete("uid-bad")
    assert untouched(outside)
    assert any("a symbolic link lies in the path" in warning for warning in node.warnings())


def test_a_volume_that_became_a_link_is_taken_away_and_its_target_stays(host: Host, outside: Path) -> None:
    node = node_with(host, {"name": "v", "emptyDir": {}})
    replace_by_link(host.paths.volume("uid-bad", EmptyDir.name, "v"), outside)
    node.delete("uid-bad")
    assert untouched(outside)
    assert not host.paths.volume("uid-bad", EmptyDir.name, "v").is_symlink()


def unmount(host: Host, path: Path) -> None:
    host.mounts.unmount(path)


def unmount_below(host: Host, path: Path) -> None:
    host.mounts.unmount_below(path)


def make_writable(host: Host, path: Path) -> None:
    host.mounts.remount(path, ("rw",))


def restrict(host: Host, path: Path) -> None:
    host.mounts.remount(path, ("bind", "nosuid"))


def mount(host: Host, path: Path) -> None:
    host.mounts.ensure_mounted(path.parent / "new", "tmpfs")


def bind(host: Host, path: Path) -> None:
    host.mounts.ensure_bound(host.paths.root, path.parent / "new")


def give_away(host: Host, path: Path) -> None:
    host.ownership.apply(path.parent / "new", 4711)


@pytest.mark.parametrize("act", [unmount, unmount_below, make_writable, restrict, mount, bind, give_away])
def test_no_service_reaches_through_a_link(host: Host, outside: Path, act: Callable[[Host, Path], None]) -> None:
    (outside / "new").mkdir(mode=0o700)
    before = Path("/proc/self/mountinfo").read_text()
    (host.paths.root / "link").symlink_to(outside)
    with pytest.raises(OperationError, match="ELOOP"):
        act(host, host.paths.root / "link" / "v")
    assert untouched(outside)
    assert Path("/proc/self/mountinfo").read_text() == before
    assert (outside / "new").stat().st_gid == 0


@pytest.mark.parametrize("place", ["uid-bad", "uid-x", "uid-x/volumes", "uid-x/volumes/kubernetes.io~empty-dir"])
def test_a_link_among_the_pods_keeps_nobody_else_waiting(host: Host, outside: Path, place: str) -> None:
    node = node_with(host, {"name": "v", "emptyDir": {}})
    path = host.paths.pods / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(path.with_name("moved"))
    path.symlink_to(outside)
    node.start()
    node.sources_ready()
    node.delete("uid-good")
    node.apply(pod("new", {"name": "v", "emptyDir": {}}, uid="uid-new"))
    assert node.is_mounted("uid-new")
    assert untouched(outside)


@pytest.mark.parametrize("place", ["mounts/uid-x", "mounts/uid-good/x.json", "volumes/x.json", "pods/x.json"])
def test_a_link_among_the_records_keeps_nobody_waiting(host: Host, outside: Path, place: str) -> None:
    node = node_with(host, {"name": "v", "emptyDir": {}})
    data = host.paths.volume("uid-good", EmptyDir.name, "v") / "data"
    data.write_text("of a user")
    path = host.paths.state / place
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(outside / "file")
    node.start()
    node.sources_ready()
    assert node.is_mounted("uid-good")
    assert data.read_text() == "of a user"
    assert untouched(outside)


def test_a_hold_that_cannot_be_read_keeps_nobody_waiting(host: Host, outside: Path) -> None:
    node = node_with(host, {"name": "v", "emptyDir": {}})
    (host.paths.state / "holds").mkdir()
    (host.paths.state / "holds" / "link.json").symlink_to(outside / "file")
    os.mkfifo(host.paths.state / "holds" / "fifo.json")
    node.start()
    node.sources_ready()
    assert node.is_mounted("uid-good")


def test_a_trash_that_is_a_link_is_not_emptied(host: Host, outside: Path) -> None:
    host.paths.state.mkdir()
    host.paths.trash.symlink_to(outside)
    host.files.resume_discards()
    large = host.paths.root / "large"
    large.mkdir()
    for number in range(100):
        (large / str(number)).touch()
    with pytest.raises(OperationError, match="ELOOP"):
        host.files.discard(large)
    assert untouched(outside)
    assert sorted(path.name for path in outside.iterdir()) == ["file", "v"]


def test_a_lock_that_is_a_link_is_refused_and_its_target_is_not_written(host: Host, outside: Path) -> None:
    host.paths.state.mkdir()
    (host.paths.state / "lock").symlink_to(outside / "file")
    with pytest.raises(OSError, match="symbolic links"):
        root.lock(host)
    assert untouched(outside)


def test_what_a_killed_daemon_left_of_a_write_is_removed_at_the_next_start(host: Host) -> None:
    node_with(host, {"name": "v", "emptyDir": {}})
    drafts = [host.paths.state / place for place in (".root.json.7.0.tmp", "pods/.a.json.7.1.tmp", "mounts/u/.v.7.tmp")]
    (host.paths.state / "mounts" / "u").mkdir()
    for draft in drafts:
        draft.write_text("half")
    records.sweep(host.files, host.paths.state)
    assert not any(draft.exists() for draft in drafts)
    assert (host.paths.state / "pods" / "uid-good.json").exists()


def test_names_that_are_no_utf_8_are_reported_and_taken_down(host: Host) -> None:
    node = node_with(host, {"name": "v", "emptyDir": {}})
    strange = host.paths.volumes("uid-x") / "kubernetes.io~empty-dir" / os.fsdecode(b"\xff")
    strange.mkdir(parents=True)
    (strange / "data").write_text("of a user")
    node.start()
    node.sources_ready()
    assert any(orphan.path == str(strange) for orphan in orphans_report(node.world).orphans)
    (strange / "data").unlink()
    node.start()
    node.sources_ready()
    assert not strange.exists()
