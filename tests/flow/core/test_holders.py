"""Packages that know who still runs a Pod: when they are asked, and that they may ask to be asked again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from volmgr.config import Config
from volmgr.messages import HoldGone
from volmgr.plugin import hookimpl
from volmgr.report.why import why_lines
from volmgr.tenancy import HOOKS
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir

RECHECK = Config().holders_recheck
CACHE = {"name": "cache", "emptyDir": {"medium": "Memory"}}


class Runtime:
    """A package that is told what runs."""

    def __init__(self) -> None:
        self.running = True
        self.asked = 0
        self.meanwhile: Callable[[], None] | None = None
        """What happens between its look and its answer."""

    @hookimpl
    def volmgr_holds(self, pod_uid: str) -> str | None:
        self.asked += 1
        answer = f"{pod_uid} runs" if self.running else None
        if self.meanwhile is not None:
            happening, self.meanwhile = self.meanwhile, None
            happening()
        return answer


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def node(runtime: Runtime) -> TestNode:
    plugins = plugins_of(EmptyDir())
    plugins.registration.register(runtime)
    node = TestNode(FakeHost(), plugins)
    node.sources_ready()
    node.apply(pod("web", CACHE, uid="u1"))
    assert node.is_mounted("web")
    return node


def recheck(node: TestNode) -> None:
    node.reconciler.post(HoldGone(HOOKS, "u1"))


def test_a_pod_whose_containers_run_keeps_its_volumes_and_is_asked_about_again(
    node: TestNode, runtime: Runtime
) -> None:
    node.delete("u1")
    assert "held by u1 runs" in "\n".join(why_lines(node.world, "web"))
    node.advance(RECHECK)
    assert (node.is_unmounted("web"), runtime.asked) == (False, 2)

    runtime.running = False
    node.advance(RECHECK)
    assert (node.is_unmounted("web"), runtime.asked) == (True, 3)
    node.advance(10 * RECHECK)
    assert runtime.asked == 3


def test_a_package_that_says_so_is_asked_at_once(node: TestNode, runtime: Runtime) -> None:
    node.delete("u1")
    runtime.running = False
    recheck(node)
    node.settle()
    assert (node.is_unmounted("web"), runtime.asked) == (True, 2)


def test_who_is_asked_at_once_is_not_asked_more_often_from_then_on(node: TestNode, runtime: Runtime) -> None:
    node.delete("u1")
    for _ in range(5):
        recheck(node)
        node.settle()
    asked = runtime.asked
    node.advance(3 * RECHECK)
    assert runtime.asked == asked + 3


def test_an_answer_that_is_older_than_what_happened_counts_no_more(node: TestNode, runtime: Runtime) -> None:
    def end() -> None:
        runtime.running = False
        recheck(node)
        node.reconciler.step()  # heard before the answer is

    runtime.meanwhile = end
    node.delete("u1")
    assert (node.is_unmounted("web"), runtime.asked) == (True, 2)


def test_nobody_is_asked_of_a_pod_that_stays_or_is_unknown(node: TestNode, runtime: Runtime) -> None:
    recheck(node)
    node.reconciler.post(HoldGone(HOOKS, "nobody"))
    node.settle()
    assert (node.is_mounted("web"), runtime.asked) == (True, 0)
