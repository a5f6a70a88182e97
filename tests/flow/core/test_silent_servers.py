"""A server that does not answer: who waits for it reads which one and since when, and nobody else hears of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flow.core.probes import Script, node_item, plain
from volmgr.errors import OperationError, OverdueError, UnansweredError, UncertainError, says_silent, taken_back
from volmgr.messages import ServerHeard
from volmgr.report.pods import status
from volmgr.report.times import rfc3339
from volmgr.report.why import why
from volmgr.testing.node import TestNode, pod

SERVER = "server 10.0.0.1"
LATE = OverdueError("mount -t did not end before its deadline and was killed")


@pytest.fixture(autouse=True)
def one_server(plain_script: Script) -> None:
    plain_script.endpoint = SERVER


def silence(since: float) -> str:
    return f"{SERVER} does not answer since {rfc3339(since)}"


def text_of(node: TestNode, name: str) -> str:
    (report,) = why(node.world, name)
    return report.text


@pytest.mark.parametrize("error", [LATE, UnansweredError("cannot mount: nobody listens")])
def test_a_pod_reads_which_server_does_not_answer_and_since_when(
    node: TestNode, plain_script: Script, error: Exception
) -> None:
    began = node.now
    plain_script.fail("mount", error, error, error)
    node.apply(pod("web", plain("v"), uid="u1"))
    said = f"{silence(began)}: {error}"
    assert said in text_of(node, "web")
    (summary,) = status(node.world).pods
    assert said in summary.reason
    assert node.warnings() == (f"mount: {said}",)
    node.advance(0.5)
    assert node.warnings()[-1] == f"mount: {said}", "it is the same silence"


def test_another_pod_of_that_server_reads_it_too_and_one_of_another_does_not(
    node: TestNode, plain_script: Script
) -> None:
    began = node.now
    plain_script.fail("mount", *[LATE] * 9)
    node.apply(pod("one", plain("v"), uid="u1"))
    node.advance(0.2)
    node.apply(pod("two", plain("w"), uid="u2"))
    assert silence(began) in text_of(node, "two")
    plain_script.endpoint = "server 10.0.0.2"
    node.apply(pod("other", plain("x"), uid="u3"))
    assert silence(node.now).replace(SERVER, "server 10.0.0.2") in text_of(node, "other")


def test_a_server_that_answers_again_is_silent_no_more(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", LATE)
    node.apply(pod("web", plain("v"), uid="u1"))
    node.advance(0.5)
    assert node.is_mounted("web")
    began = node.now
    plain_script.fail("mount", LATE)
    node.apply(pod("next", plain("w"), uid="u2"))
    assert silence(began) in text_of(node, "next")


def test_a_silence_that_nobody_has_heard_of_for_long_is_a_new_one(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", LATE)
    node.apply(pod("web", plain("v"), uid="u1"))
    node.delete("u1")
    node.advance(3600)
    began = node.now
    plain_script.fail("mount", LATE)
    node.apply(pod("next", plain("w"), uid="u2"))
    assert silence(began) in text_of(node, "next")


@pytest.mark.parametrize("error", [OperationError("access denied by server"), UncertainError("nothing is mounted")])
def test_a_server_that_refuses_is_not_silent(node: TestNode, plain_script: Script, error: Exception) -> None:
    plain_script.fail("mount", error)
    node.apply(pod("web", plain("v"), uid="u1"))
    assert "does not answer" not in text_of(node, "web")


def test_nobody_is_blamed_for_a_volume_without_a_server(node: TestNode, plain_script: Script) -> None:
    plain_script.endpoint = ""
    plain_script.fail("mount", LATE)
    node.apply(pod("web", plain("v"), uid="u1"))
    assert "does not answer" not in text_of(node, "web")


def test_what_comes_from_a_silence_is_one_whoever_says_it() -> None:
    def undo() -> None:
        raise OperationError("cannot unmount")

    with pytest.raises(UncertainError) as caught, taken_back(undo, "mounting"):
        raise UnansweredError("nobody listens")
    assert says_silent(caught.value)
    assert not says_silent(UncertainError("x"))


def test_of_an_operation_that_never_returns_the_silence_is_known_at_its_deadline(
    node: TestNode, plain_script: Script
) -> None:
    began = node.now
    node.registry.apply(node_item(node, pod("web", plain("v"), uid="u1")))
    node.reconciler.step()
    node.now += node.config.operation_deadline + node.config.quarantine_grace
    node.reconciler.step()
    assert node.warnings()[-1] == f"mount does not return; it is left alone until it does: {silence(began)}"
    assert silence(began) in text_of(node, "web")
    plain_script.fail("mount", LATE)
    node.settle()
    assert f"{silence(began)}: {LATE}" in text_of(node, "web")


# --- volumes that are mounted already ---


def hear(node: TestNode, server: str, *, silent: bool) -> None:
    """Let the kernel say of a server that it does not answer, or that it does again."""
    node.reconciler.post(ServerHeard(node.now, server, silent))
    node.settle()


def test_pods_that_have_a_volume_of_a_server_hear_of_its_silence_and_of_its_end(node: TestNode) -> None:
    node.apply(pod("one", plain("v"), uid="u1"), pod("two", plain("w"), uid="u2"))
    began = node.now
    hear(node, "10.0.0.1", silent=True)
    for name in ("one", "two"):
        assert silence(began) in text_of(node, name)
        assert not node.is_mounted(name)
    node.advance(5)
    hear(node, "10.0.0.1", silent=True)
    told = [event.message for event in node.world.events.after(0) if event.reason == "VolumeHangs"]
    assert told.count(silence(began)) == len(told) > 0
    hear(node, "10.0.0.1", silent=False)
    for name in ("one", "two"):
        assert node.is_mounted(name)
        assert "does not answer" not in text_of(node, name)


def test_a_server_that_was_mounted_from_meanwhile_is_silent_for_nobody_any_more(node: TestNode) -> None:
    node.apply(pod("one", plain("v"), uid="u1"))
    hear(node, "10.0.0.1", silent=True)
    node.apply(pod("two", plain("w"), uid="u2"))
    assert node.is_mounted("two")
    hear(node, "10.0.0.1", silent=False)
    assert node.is_mounted("one")


def test_an_operation_that_runs_is_not_told_of_a_silence_of_long_ago(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", LATE)
    node.apply(pod("web", plain("v"), uid="u1"))
    node.delete("u1")
    node.advance(3600)
    node.registry.apply(node_item(node, pod("next", plain("w"), uid="u2")))
    node.reconciler.step()
    assert "mount running since" in text_of(node, "next")
    assert "does not answer" not in text_of(node, "next")


def test_a_server_of_ipv6_is_known_by_its_address(node: TestNode, plain_script: Script) -> None:
    plain_script.endpoint = "server [fe80::1]"
    node.apply(pod("one", plain("v"), uid="u1"))
    hear(node, "fe80::1", silent=True)
    assert "server [fe80::1] does not answer since" in text_of(node, "one")


def test_the_silence_of_a_server_that_nobody_has_anything_of_concerns_nobody(node: TestNode) -> None:
    node.apply(pod("one", plain("v"), uid="u1"))
    for server in ("10.0.0.10", "10.0.0.", "0.0.0.1"):
        hear(node, server, silent=True)
    assert node.warnings() == ()
    assert node.is_mounted("one")


def test_what_else_is_wrong_with_a_mount_is_not_hidden(node: TestNode) -> None:
    node.apply(pod("one", plain("v"), uid="u1"))
    (volume,) = node.world.actual
    node.world.actual.put(volume.name, volume.with_mount(replace(volume.mounts["u1"], problem="it is dead")))
    for silent in (True, False):
        hear(node, "10.0.0.1", silent=silent)
        assert "it is dead" in text_of(node, "one")
