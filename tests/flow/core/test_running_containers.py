"""A Pod whose containers run, as the API server says, keeps its volumes until they have ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.flow.core.probes import Plain, Script, plain
from volmgr.errors import OperationError
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

KUBERNETES = "kubernetes"
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
FINISHED = {"phase": "Succeeded"}


@pytest.fixture
def node(host: FakeHost, plain_script: Script) -> TestNode:
    """A node of a cluster, whose Pods were read."""
    node = TestNode(host, plugins_of(Plain(plain_script)), sources=(KUBERNETES,))
    node.sources_ready()
    return node


def running(*names: str, **status: object) -> dict[str, Any]:
    """Give a status that says that these containers run."""
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {"phase": "Running", "containerStatuses": [{"name": name, "state": state} for name in names], **status}


def web(*, metadata: Mapping[str, object] | None = None, status: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Give the Pod of these stories."""
    return pod("web", plain("data"), uid="u1", metadata=metadata, status=status)


def text_of(node: TestNode) -> str:
    (report,) = why(node.world, "u1")
    return report.text


def test_a_terminating_pod_keeps_its_volumes_until_its_last_container_has_ended(
    node: TestNode, plain_script: Script
) -> None:
    node.serve(web(status=running("main", "proxy")))
    node.serve(web(metadata=DELETED, status=running("main", "proxy")))
    node.advance(600)
    assert plain_script.calls == ["mount"]
    assert "the Pod is terminating; its volumes stay while it is held" in text_of(node)
    assert "its containers still run: main, proxy (the API server says)" in text_of(node)
    node.serve(web(metadata=DELETED, status=running("proxy")))
    assert "its containers still run: proxy (the API server says)" in text_of(node)
    assert plain_script.calls == ["mount"]
    node.serve(web(metadata=DELETED, status={"phase": "Running", "containerStatuses": []}))
    assert plain_script.calls == ["mount", "unmount"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_keeps_them_as_long_as_a_container_runs_and_not_until_it_is_deleted(
    node: TestNode, plain_script: Script, phase: str
) -> None:
    node.serve(web())
    node.serve(web(status=running("debugger", phase=phase)))
    assert plain_script.calls == ["mount"]
    assert "the Pod has finished; its volumes stay while it is held" in text_of(node)
    assert "its containers still run: debugger (the API server says)" in text_of(node)
    node.serve(web(status={"phase": phase}))
    assert plain_script.calls == ["mount", "unmount"]


def test_nothing_new_is_mounted_for_a_terminating_pod_whose_containers_run(
    node: TestNode, plain_script: Script
) -> None:
    plain_script.fail("mount", *[OperationError("not yet")] * 2)
    node.serve(web(status=running("main")))
    node.serve(web(metadata=DELETED, status=running("main")))
    node.advance(600)
    assert plain_script.calls == ["mount"]


def test_a_pod_that_the_server_has_no_longer_is_not_held_by_its_last_status(
    node: TestNode, plain_script: Script
) -> None:
    node.serve(web(status=running("main")))
    node.serve_no_more(web())
    assert plain_script.calls == ["mount", "unmount"]


def test_a_hold_and_a_running_container_must_both_have_ended(node: TestNode, plain_script: Script) -> None:
    node.serve(web(status=running("main")))
    hold = node.hold("u1", 4711)
    node.serve(web(metadata=DELETED, status=running("main")))
    node.release(hold)
    assert plain_script.calls == ["mount"]
    hold = node.hold("u1", 4712)
    node.serve(web(metadata=DELETED))
    assert plain_script.calls == ["mount"]
    node.release(hold)
    assert plain_script.calls == ["mount", "unmount"]


def test_a_drained_node_waits_for_what_runs(node: TestNode, plain_script: Script) -> None:
    node.serve(web(status=running("main")))
    node.reconciler.drain()
    node.settle()
    assert plain_script.calls == ["mount"]
    node.serve(web(status={"phase": "Running"}))
    assert plain_script.calls == ["mount", "unmount"]


def test_what_runs_is_remembered_over_a_restart_without_the_server(node: TestNode, plain_script: Script) -> None:
    node.serve(web(metadata=DELETED, status=running("main")))
    node.start()
    node.sources_ready()
    assert plain_script.count("unmount") == 0
    assert "its containers still run: main (the API server says)" in text_of(node)


def test_a_file_s_word_for_what_runs_holds_nothing(host: FakeHost, plain_script: Script) -> None:
    node = TestNode(host, plugins_of(Plain(plain_script)))
    node.sources_ready()
    node.put_file("web.yaml", web(status=running("main")))
    node.put_file("web.yaml", web(metadata=DELETED, status=running("main")))
    assert plain_script.calls == ["mount", "unmount"]


def test_a_changed_status_does_not_try_again_what_failed(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", *[OperationError("slow")] * 20)
    node.serve(web())
    for number in range(5):
        conditions = [{"type": "volumes.volmgr.io/Mounted", "status": "False", "message": str(number)}]
        node.serve(
            web(metadata={"resourceVersion": str(number)}, status={"phase": "Pending", "conditions": conditions})
        )
    assert plain_script.count("mount") == 1
    node.advance(0.5)
    assert plain_script.count("mount") == 2
    assert plain_script.last("mount").pod.status.phase == "Pending"
    node.serve(web(metadata={"labels": {"a": "b"}}))
    assert plain_script.count("mount") == 3
