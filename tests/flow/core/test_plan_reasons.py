"""`volmgr plan` tells an owner what an adoption would do, and what an absent package delays."""

from pathlib import Path

from volmgr.report.orphans import orphans_report
from volmgr.report.plan import plan_report
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of
from volmgr_emptydir.plugin import EmptyDir


def left_by_kubelet(host: FakeHost, plugin: str) -> Path:
    """Let somebody else have made a volume of a Pod that nobody declares."""
    directory = host.paths.volume("uid-a", plugin, "data")
    host.files.ensure_directory(directory, 0o777)
    return directory


def test_of_a_root_that_is_not_adopted_it_shows_what_would_be_done() -> None:
    host = FakeHost()
    left_by_kubelet(host, "kubernetes.io/empty-dir")
    node = TestNode(host, plugins_of(EmptyDir()))
    node.sources_ready()

    (planned,) = plan_report(node.world).operations

    assert planned.verb == "unmount"
    assert planned.delayed == "the root directory is not adopted: run volmgr adopt"


def test_what_waits_for_a_package_says_so() -> None:
    host = FakeHost()
    host.mounts.ensure_mounted(left_by_kubelet(host, "kubernetes.io/nfs"), "tmpfs")
    node = TestNode(host, plugins_of(EmptyDir()))
    node.sources_ready()
    node.reconciler.set_read_only(read_only=False)
    node.settle()

    (planned,) = plan_report(node.world).operations

    assert planned.delayed.startswith("waits for a package that serves kubernetes.io/nfs: install volmgr-nfs")


def test_an_empty_directory_of_a_missing_type_is_forgotten_when_it_is_removed() -> None:
    host = FakeHost()
    directory = left_by_kubelet(host, "kubernetes.io/nfs")
    node = TestNode(host, plugins_of(EmptyDir()))
    node.sources_ready()
    node.reconciler.set_read_only(read_only=False)
    node.settle()

    assert host.files.info(directory) is None
    assert plan_report(node.world).operations == ()
    assert orphans_report(node.world).orphans == ()
