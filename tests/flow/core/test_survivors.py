"""A helper outlives its daemon: the next one leaves its volume alone, says so, and goes on when it has ended."""

from __future__ import annotations

import pytest

from volmgr.admission import Held
from volmgr.helper_records import HelperRecords
from volmgr.host.noted import StartedHelper
from volmgr.messages import SurvivorEnded
from volmgr.report.plan import plan_report
from volmgr.report.why import why_lines
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir

VOLUME = "kubernetes.io/empty-dir/u1-v"


def memory(name: str) -> dict[str, object]:
    return {"name": name, "emptyDir": {"medium": "Memory"}}


def leave_helper(node: TestNode) -> None:
    helpers = HelperRecords(node.host, lambda: node.now, node.processes.get)
    helpers.note(Held(VOLUME, "u1"), StartedHelper("loop mount", 77, node.now + 60), needed=True)


@pytest.fixture
def node() -> TestNode:
    """A node on which a helper of an earlier daemon works on the volume of a Pod that is declared now."""
    node = TestNode(FakeHost(), plugins_of(EmptyDir()))
    node.processes[77] = 5
    leave_helper(node)
    node.start()
    node.sources_ready()
    node.apply(pod("web", memory("v"), uid="u1"), pod("other", memory("v"), uid="u2"))
    return node


def test_only_its_own_volume_waits_for_it_and_why_and_plan_say_for_whom(node: TestNode) -> None:
    assert not node.is_mounted("web")
    assert node.is_mounted("other")
    (line,) = (line for line in why_lines(node.world, "web") if "volume v" in line)
    assert "mount is due; waits for an earlier volmgrd's `loop mount` (pid 77, since 1970-" in line
    assert "which still runs" in line
    (due,) = plan_report(node.world).operations
    assert due.delayed.startswith("waits for an earlier volmgrd's `loop mount` (pid 77, ")
    assert any("still runs" in warning for warning in node.warnings())


def test_when_it_has_ended_its_volume_is_mounted(node: TestNode) -> None:
    (survivor,) = node.world.survivors.values()
    node.reconciler.post(SurvivorEnded(survivor))
    node.settle()
    assert node.is_mounted("web")
    assert node.world.survivors == {}


def test_a_pod_that_leaves_meanwhile_loses_its_volume_only_then(node: TestNode) -> None:
    (survivor,) = node.world.survivors.values()
    node.reconciler.post(SurvivorEnded(survivor))
    node.settle()
    leave_helper(node)
    node.start()
    node.sources_ready()
    assert node.is_mounted("web")
    node.delete("u1")
    node.settle()
    assert not node.is_unmounted("u1")
    assert "waits for an earlier volmgrd's" in "".join(why_lines(node.world, "u1"))
    (survivor,) = node.world.survivors.values()
    node.reconciler.post(SurvivorEnded(survivor))
    node.settle()
    assert node.is_unmounted("u1")
    assert not node.world.admission.is_held(VOLUME)


def test_a_helper_that_ended_before_the_next_daemon_keeps_nobody_waiting(node: TestNode) -> None:
    del node.processes[77]
    node.start()
    node.sources_ready()
    assert node.is_mounted("web")
    assert node.is_mounted("other")
    assert node.host.files.names(node.host.paths.state / "helpers") == ()
