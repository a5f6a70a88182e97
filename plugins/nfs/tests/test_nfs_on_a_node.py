"""nfs on a whole node in one thread: what its Pods read of a silent server, and what a restart knows."""

from typing import Any

import pytest

from volmgr.messages import ServerHeard
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_nfs.plugin import Nfs

DEAD, HEALTHY = "10.0.0.1", "10.0.0.2"


def export(server: str, name: str = "v", **more: object) -> dict[str, Any]:
    return {"name": name, "nfs": {"server": server, "path": "/srv", **more}}


@pytest.fixture
def host() -> FakeHost:
    host = FakeHost()
    for server in (DEAD, HEALTHY):
        host.machine.serve("nfs", f"{server}:/srv")
    return host


@pytest.fixture
def node(host: FakeHost) -> TestNode:
    node = TestNode(host, plugins_of(Nfs()))
    node.sources_ready()
    return node


def test_only_the_pod_of_a_silent_server_waits_and_it_reads_since_when(node: TestNode, host: FakeHost) -> None:
    host.machine.silent.add(DEAD)
    node.apply(pod("waits", export(DEAD), uid="u1"))
    node.apply(pod("other", export(HEALTHY), uid="u2"))
    assert "server 10.0.0.1 does not answer since 1970-" in node.warnings()[-1]
    assert list(host.table.values()) == ["nfs"]
    host.machine.silent.clear()
    node.advance(1)
    assert len(host.table) == 2


def test_a_volume_of_a_pod_that_left_is_forced_away_from_a_silent_server(node: TestNode, host: FakeHost) -> None:
    node.apply(pod("web", export(DEAD), uid="u1"))
    host.machine.silent.add(DEAD)
    node.delete("u1")
    node.advance(5)
    assert host.table == {}
    assert host.files.names(host.paths.pods) == ()


def test_a_record_keeps_server_and_path_over_restarts(node: TestNode, host: FakeHost) -> None:
    node.apply(pod("web", export(HEALTHY, readOnly=True), uid="u1"))
    node.start()
    node.sources_ready()
    (volume,) = node.world.actual
    assert volume.spec is not None
    assert (volume.spec.source.server, volume.spec.source.path) == (HEALTHY, "/srv")


def test_what_only_kubelet_s_layout_describes_is_unmounted_and_never_mounted(node: TestNode, host: FakeHost) -> None:
    place = host.paths.volume("u9", Nfs.name, "left")
    host.mkdir(place)
    host.mounts.ensure_mounted(place, "nfs", source=f"{HEALTHY}:/srv")
    host.mkdir(host.paths.volume("u9", Nfs.name, "empty"))
    node.start()
    node.sources_ready()
    node.advance(5)
    assert host.table == {}
    assert host.files.names(host.paths.pods) == ()


# What is mounted already: the kernel says when a server is silent, but not always when it is back


def test_a_pod_whose_server_is_back_hears_of_it_where_the_kernel_is_silent(node: TestNode, host: FakeHost) -> None:
    node.apply(pod("one", export(DEAD), uid="u1"), pod("two", export(DEAD), uid="u2"))
    host.machine.silent.add(DEAD)
    node.reconciler.post(ServerHeard(node.now, DEAD, silent=True))
    node.advance(600)
    assert not node.is_mounted("one")
    assert not node.is_mounted("two")
    assert {event.count for event in node.world.events.after(0) if event.reason == "VolumeHangs"} == {1}
    host.machine.silent.clear()
    node.advance(node.config.backoff_max)
    assert node.is_mounted("one")
    assert node.is_mounted("two")
    assert node.reconciler.timers.next_due() is None, "nobody is asked any more"


def test_a_server_of_which_the_last_volume_has_gone_is_asked_no_more(node: TestNode, host: FakeHost) -> None:
    node.apply(pod("one", export(DEAD), uid="u1"))
    host.machine.silent.add(DEAD)
    node.reconciler.post(ServerHeard(node.now, DEAD, silent=True))
    node.settle()
    node.delete("u1")
    node.advance(600)
    assert node.reconciler.timers.next_due() is None
