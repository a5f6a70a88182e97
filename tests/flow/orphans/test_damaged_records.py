"""A record that cannot be read never costs anybody a file."""

import pytest

from volmgr.errors import OperationError
from volmgr.report.orphans import orphans_report
from volmgr.testing import FakeHost, Fault, FaultHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir

WEB = pod("web", {"name": "cache", "emptyDir": {}}, uid="uid-web")


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def node(host: FakeHost) -> TestNode:
    """A node with one Pod, in whose volume a user wrote."""
    node = TestNode(host, plugins_of(EmptyDir()))
    node.sources_ready()
    node.apply(WEB)
    host.put(host.paths.volume("uid-web", EmptyDir.name, "cache") / "data", b"of a user")
    return node


def restart(node: TestNode) -> None:
    node.start()
    node.sources_ready()


def content(host: FakeHost) -> bytes:
    return host.content(host.paths.volume("uid-web", EmptyDir.name, "cache") / "data")


def test_a_pod_whose_record_is_damaged_keeps_its_volumes_and_is_named(host: FakeHost, node: TestNode) -> None:
    host.put(host.paths.state / "pods" / "uid-web.json", b'{"kind": "po')
    restart(node)
    assert content(host) == b"of a user"
    (orphan, *_) = orphans_report(node.world).orphans
    assert orphan.pod_uid == "uid-web"
    assert "uid-web.json" in orphan.reason


def test_a_pod_whose_record_cannot_be_read_at_start_keeps_its_volumes(host: FakeHost, node: TestNode) -> None:
    faults = FaultHost(host)
    node.host = faults
    reads = 0
    while True:
        reads += 1
        faults.faults = [
            Fault(faults.verbs.count("files.read") + reads, OperationError("input/output error"), verb="files.read")
        ]
        try:
            restart(node)
        except OperationError:
            continue  # it does not start at all, which harms nobody either
        assert content(host) == b"of a user"
        if not faults.faults[0].at <= faults.verbs.count("files.read"):
            break
    assert reads > 2


def test_a_pod_that_is_offered_again_takes_its_volumes_back(host: FakeHost, node: TestNode) -> None:
    host.put(host.paths.state / "pods" / "uid-web.json", b"")
    restart(node)
    node.apply(WEB)
    assert node.is_mounted("uid-web")
    assert content(host) == b"of a user"
    assert node.world.orphans == {}
    node.delete("uid-web")
    assert host.machine.look(host.paths.pod("uid-web")) is None


def test_what_is_left_of_a_pod_goes_when_its_damaged_record_was_removed(host: FakeHost, node: TestNode) -> None:
    record = host.paths.state / "pods" / "uid-web.json"
    host.put(record, b"")
    restart(node)
    host.machine.unlink(record)
    restart(node)
    assert host.machine.look(host.paths.pod("uid-web")) is None
