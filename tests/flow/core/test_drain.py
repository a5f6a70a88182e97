"""Draining a node: everything goes, and who waits for that hears of it at once."""

from volmgr.desk import NODE
from volmgr.testing.node import TestNode, pod


def test_who_drains_hears_of_the_last_volume_without_waiting_any_longer(node: TestNode) -> None:
    node.apply(pod("web", {"name": "a", "plainProbe": {"disk": "a"}}))
    waiter = node.wait(NODE, lambda world, _selector: len(world.actual) == 0)
    assert not waiter.done.is_set()

    node.reconciler.drain()
    node.settle()

    assert waiter.done.is_set()
