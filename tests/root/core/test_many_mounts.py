"""A node on the kernel among many mounts: churning ones, ten thousand of them, and ones with awkward names."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from volmgr.host import syscalls
from volmgr.host.local import local_host
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr.testing.real_host import RealHosts
from volmgr_emptydir.plugin import EmptyDir

MEMORY: dict[str, object] = {"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
ROUNDS = 8
"""A hundred were tried by hand: each is slow, since the kernel changes its mount table for one at a time."""
MS_BIND, MS_REC = 1 << 12, 1 << 14


class Reads:
    """Counts how often this process opens a mount table. Audit hooks stay for ever, so there is one."""

    def __init__(self) -> None:
        self.count = 0
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith(("/mountinfo", "/mounts")):
            self.count += 1

    def during(self, act: Callable[[], object]) -> int:
        before = self.count
        act()
        return self.count - before


READS = Reads()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHosts]:
    with RealHosts(tmp_path_factory.mktemp("many-mounts")) as hosts:
        yield hosts


def started(hosts: RealHosts) -> tuple[TestNode, Path]:
    host, top = hosts.fresh()
    node = TestNode(host, plugins_of(EmptyDir()))
    node.sources_ready()
    return node, top


def fill(top: Path) -> None:
    """Make more than 10,000 mounts: a hundred in one directory, which is bound with them a hundred times."""
    (top / "all").mkdir()
    syscalls.mount("tmpfs", str(top / "all"), "tmpfs")
    for number in range(100):
        (top / "all" / f"{number}").mkdir()
    first = top / "all" / "0"
    syscalls.mount("tmpfs", str(first), "tmpfs")
    for number in range(100):
        (first / f"{number}").mkdir()
        syscalls.mount("tmpfs", str(first / f"{number}"), "tmpfs")
    for number in range(1, 100):
        syscalls.mount(str(first), str(top / "all" / f"{number}"), "", MS_BIND | MS_REC)


def mount_ids(node: TestNode) -> dict[Path, int]:
    return {entry.target: entry.mount_id for entry in node.host.mounts.below(node.host.paths.root)}


def test_restarts_among_churning_mounts_lose_and_double_nothing(hosts: RealHosts) -> None:
    node, top = started(hosts)
    uids = [f"u{number}" for number in range(20)]
    stop = threading.Event()

    def churn() -> None:
        pairs = 0
        while pairs < 1000 or not stop.is_set():
            syscalls.mount("tmpfs", str(top), "tmpfs")
            syscalls.umount(str(top))
            pairs += 1

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(ROUNDS):
            node.apply(*(pod(uid, MEMORY, uid=uid) for uid in uids))
            before = mount_ids(node)
            assert set(before) == {node.host.paths.volume(uid, EmptyDir.name, "v") for uid in uids}
            node.start()
            node.sources_ready()
            node.mounts_changed()
            assert all(node.is_mounted(uid) for uid in uids)
            assert mount_ids(node) == before
            for uid in uids:
                node.delete(uid)
            assert mount_ids(node) == {}
            assert node.warnings() == ()
    finally:
        stop.set()
        thread.join()


def test_a_volume_s_operation_reads_a_table_of_ten_thousand_mounts_once_at_most(hosts: RealHosts) -> None:
    node, top = started(hosts)
    fill(top)
    assert len(node.host.mounts.table()) > 10_000
    uids = [f"u{number}" for number in range(100)]
    mounting = [READS.during(partial(node.apply, pod(uid, MEMORY, uid=uid))) for uid in uids]
    assert all(node.is_mounted(uid) for uid in uids)
    unmounting = [READS.during(partial(node.delete, uid)) for uid in uids]
    assert mount_ids(node) == {}
    syscalls.umount(str(top / "all"), syscalls.UMOUNT_DETACH)
    assert READS.during(node.host.mounts.table) == 1, "they are counted"
    assert max(mounting) <= 1
    assert max(unmounting) <= 1
    assert READS.during(lambda: node.advance(3600)) == 0, "nothing is looked at while nothing happens"


@pytest.mark.parametrize("name", ["[ds] x", "a\tb\nc", "back\\slash", "back\\040slash", "#hash", "~"])
def test_a_root_with_an_awkward_name_loses_no_mount(tmp_path: Path, hosts: RealHosts, name: str) -> None:
    del hosts
    root = tmp_path / name / "root"
    root.mkdir(parents=True)
    node = TestNode(local_host(root), plugins_of(EmptyDir()))
    node.sources_ready()
    node.apply(pod("web", MEMORY, uid="u1"))
    path = root / "pods/u1/volumes/kubernetes.io~empty-dir/v"
    before = mount_ids(node)
    assert set(before) == {path}
    (path / "data").write_text("kept")
    node.start()
    node.sources_ready()
    node.mounts_changed()
    assert node.is_mounted("web")
    assert node.warnings() == ()
    assert mount_ids(node) == before
    node.delete("u1")
    assert mount_ids(node) == {}
    assert os.listdir(root / "pods") == []
