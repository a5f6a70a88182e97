"""Draining a node: everything goes, and who waits for that hears of it at once."""

import pytest

from tests.flow.core.probes import Disk, Plain, Script, claim_of, plain, storage
from volmgr.desk import NODE
from volmgr.errors import OperationError
from volmgr.report.drain import Drained, drained
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod


def test_who_drains_hears_of_the_last_volume_without_waiting_any_longer(node: TestNode) -> None:
    node.apply(pod("web", {"name": "a", "plainProbe": {"disk": "a"}}))
    waiter = node.wait(NODE, lambda world, _selector: len(world.actual) == 0)
    assert not waiter.done.is_set()

    node.reconciler.drain()
    node.settle()

    assert waiter.done.is_set()


@pytest.fixture
def unread(host: FakeHost, plain_script: Script, disk_script: Script) -> TestNode:
    """A node that was started again and has not reached its API server; Pod `web` has a file system and a disk."""
    node = TestNode(host, plugins_of(Plain(plain_script), Disk(disk_script)), sources=("api", "kubernetes"))
    node.sources_ready()
    node.serve(*storage("d1"), pod("web", plain("a"), claim_of("d", "d1"), uid="u1"))
    assert node.is_mounted("web")
    node.start()
    node.settle()
    node.sources_ready("api")
    assert len(node.world.actual) == 2
    return node


def test_a_node_that_has_not_reached_its_server_lets_go_of_what_accepted_pods_have(unread: TestNode) -> None:
    unread.reconciler.drain()
    unread.settle()
    assert drained(unread.world) == Drained()
    assert "u1" in unread.world.pods
    unread.start()
    unread.settle()
    assert unread.is_mounted("web")  # the Pod is still wanted


def test_what_is_of_no_accepted_pod_stays_until_every_source_was_read(unread: TestNode) -> None:
    unread.host.files.remove_file(unread.host.paths.state / "pods" / "u1.json")
    unread.start()
    unread.settle()
    unread.reconciler.drain()
    unread.settle()
    found = drained(unread.world)
    assert len(found.left) == 2
    assert "Pod u1, which no source has so far" in found.reasons[0]
    assert "waits for every source to be read whole (source api: " in found.reasons[0]
    unread.sources_ready()
    assert drained(unread.world) == Drained()


def test_a_held_pod_keeps_what_it_has_and_who_holds_it_is_named(unread: TestNode) -> None:
    hold = unread.hold("u1", 4711)
    unread.reconciler.drain()
    unread.settle()
    assert [line.partition(": ")[2] for line in drained(unread.world).reasons] == [
        "Pod default/web is held by PID 4711",
        "Pod default/web is held by PID 4711",
    ]
    unread.release(hold)
    assert drained(unread.world) == Drained()


def test_what_fails_to_go_is_named_with_its_error(unread: TestNode, plain_script: Script, disk_script: Script) -> None:
    plain_script.fail("unmount", OperationError("target is busy"))
    disk_script.fail("unmount_device", OperationError("device is busy"))
    unread.reconciler.drain()
    unread.settle()
    device, mount = drained(unread.world).reasons
    assert device.endswith(": unmount_device failed: device is busy")
    assert "Pod default/web: volume a (plainProbe): " in mount
    assert "target is busy" in mount
    unread.advance(10)
    assert drained(unread.world) == Drained()


def test_containers_that_ran_when_their_pod_was_last_read_keep_its_volumes(unread: TestNode) -> None:
    running: dict[str, object] = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}}}],
    }
    unread.serve(pod("web", plain("a"), claim_of("d", "d1"), uid="u1", status=running))
    unread.start()
    unread.settle()
    unread.reconciler.drain()
    unread.settle()
    assert len(unread.world.actual) == 2
    assert drained(unread.world).reasons[0].endswith("containers of Pod default/web still run: main")
