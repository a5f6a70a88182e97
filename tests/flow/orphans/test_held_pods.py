"""A hold keeps what was mounted when it was taken, whatever becomes of the Pod's manifest."""

from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir


def test_a_uid_that_returns_with_other_volumes_keeps_the_old_ones_while_somebody_holds_it() -> None:
    host = FakeHost()
    node = TestNode(host, plugins_of(EmptyDir()))
    node.sources_ready()
    node.apply(pod("web", {"name": "old", "emptyDir": {}}, uid="web"))
    data = host.paths.volume("web", EmptyDir.name, "old") / "data"
    host.put(data, b"still in use")
    hold = node.hold("web", 100)
    node.delete("web")
    node.apply(pod("web", {"name": "new", "emptyDir": {}}, uid="web"))
    node.advance(200)
    assert host.content(data) == b"still in use"
    node.start()
    node.sources_ready()
    assert host.content(data) == b"still in use"
    node.release(hold)
    assert host.machine.look(data.parent) is None
    assert node.is_mounted("web")
