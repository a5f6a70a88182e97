"""Pods of a source that the daemon was started without: they stay, it is said, and they can be deleted."""

from __future__ import annotations

import pytest

from tests.flow.core.probes import Script, plain
from volmgr.report.doctor import doctor
from volmgr.report.pods import status
from volmgr.report.why import why
from volmgr.sources.offers import ConflictError
from volmgr.testing.node import TestNode, pod

HOW = "until volmgrd is started with --kubeconfig, or `volmgr delete POD`"


@pytest.fixture
def left(node: TestNode) -> TestNode:
    """A node that had an API server, and Pods of it, and was started without."""
    node.sources = ("api", "kubernetes")
    node.start()
    node.sources_ready()
    for name in ("a", "b"):
        node.serve(pod(name, plain("v"), uid=f"u-{name}"))
    node.sources = ("api",)
    node.start()
    node.sources_ready()
    return node


def test_they_stay_mounted_and_status_why_and_doctor_say_what_lets_them_go(left: TestNode) -> None:
    assert left.is_mounted("a")
    assert left.is_mounted("b")
    (line,) = status(left.world).contact
    assert line.startswith("2 Pods are of source kubernetes, which this daemon does not read")
    assert HOW in line
    (report,) = why(left.world, "a")
    assert HOW in report.text
    assert [HOW in finding.detail for finding in doctor(left.world).findings if not finding.ok] == [True]


def test_one_is_deleted_and_comes_back_with_its_source(left: TestNode, plain_script: Script) -> None:
    with pytest.raises(ConflictError, match="comes from"):
        left.registry.delete("u-a")
    assert left.registry.delete("u-a", unserved=True)
    left.settle()
    assert plain_script.count("unmount") == 1
    assert list(left.world.pods) == ["u-b"]
    left.start()
    left.sources_ready()
    assert list(left.world.pods) == ["u-b"]
    left.sources = ("api", "kubernetes")
    left.start()
    left.serve(pod("a", plain("v"), uid="u-a"))
    left.sources_ready()
    assert left.is_mounted("a")
    assert status(left.world).contact == ()


def test_of_a_package_that_read_them_it_is_said_that_it_has_to_come_back(node: TestNode) -> None:
    node.apply(pod("web", plain("v"), uid="u1"))
    node.world.pods["u1"].source = "fleet"
    assert "until the package that reads it is installed again, or `volmgr" in why(node.world, "web")[0].text
