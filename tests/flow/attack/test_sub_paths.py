"""subPaths written to do harm: variables that double each other, and Secrets that spoil the path they are put in."""

import base64
from typing import Any

import pytest

from volmgr.report.why import why_lines
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir

Variables = list[dict[str, Any]]


@pytest.fixture
def node() -> TestNode:
    node = TestNode(FakeHost(), plugins_of(EmptyDir()), sources=("directory",))
    node.sources_ready()
    return node


def web(expression: str, variables: Variables) -> dict[str, Any]:
    document = pod("web", {"name": "v", "emptyDir": {}}, uid="uid-web")
    (container,) = document["spec"]["containers"]
    container["env"] = variables
    container["volumeMounts"] = [{"name": "v", "mountPath": "/v", "subPathExpr": expression}]
    return document


def chain(count: int, first: str, link: str) -> Variables:
    """Give variables each of which names the one before it as `link` says."""
    later = ({"name": f"V{n}", "value": link.replace("_", f"$(V{n - 1})")} for n in range(1, count))
    return [{"name": "V0", "value": first}, *later]


def problems(node: TestNode, expression: str, variables: Variables) -> tuple[str, ...]:
    node.put_file("web.yaml", web(expression, variables))
    assert node.is_mounted("web")
    return node.mounts("web").problems


@pytest.mark.timeout(20)
def test_variables_that_double_each_other_are_cut_off(node: TestNode) -> None:
    (problem,) = problems(node, "$(V59)", chain(60, "x", "__"))
    assert "longer than 4096 characters" in problem


@pytest.mark.timeout(20)
def test_variables_that_double_nothing_cost_no_time(node: TestNode) -> None:
    assert problems(node, "a$(V59)", chain(60, "", "__")) == ()


@pytest.mark.timeout(20)
def test_thousands_of_variables_may_lead_to_each_other(node: TestNode) -> None:
    assert problems(node, "$(V4999)", chain(5000, "x", "_")) == ()


@pytest.mark.timeout(20)
def test_a_megabyte_of_beginnings_of_variables_is_read_once(node: TestNode) -> None:
    (problem,) = problems(node, "$(V)", [{"name": "V", "value": "$(" * 500_000}])
    assert "longer than 4096 characters" in problem
    assert len(problem) < 1000


@pytest.mark.parametrize(
    "value",
    [b"hunter2\0", b"/hunter2\n", b"hunter2\x07/..", b"'hunter2\"\\/..", b"/hunter2\xff", "…/../hünter2\t".encode()],
)
def test_a_secret_that_makes_no_path_is_told_to_nobody(node: TestNode, value: bytes) -> None:
    data = {"k": base64.b64encode(value).decode()}
    node.put_file("secret.yaml", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data})
    variables = [{"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    (problem,) = problems(node, "$(S)", variables)
    assert "subPath $(S) of volume v" in problem
    assert "unter2" not in problem
    assert "unter2" not in "".join((*node.warnings(), *why_lines(node.world, "web")))
