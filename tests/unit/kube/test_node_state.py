"""What is known of the own Node: which patch is due, and after which pause; `test_own_node` plays it on a server."""

from __future__ import annotations

import pytest

from volmgr.kube.errors import ApiError
from volmgr.kube.node_state import NodeState
from volmgr.model.kube import KubeSettings, read_kube_settings
from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import Node
from volmgr.model.schema import SchemaError

SETTINGS = KubeSettings(status_debounce=0.1, status_retry_initial=2.0, status_retry_max=5.0)


def node(version: str, *in_use: str, uid: str = "u") -> Node:
    return Node(metadata=ObjectMeta(name="n1", uid=uid, resource_version=version), volumes_in_use=in_use)


def sent(state: NodeState) -> NodeState:
    after = state.sending()
    assert after is not None
    return after


@pytest.fixture
def state() -> NodeState:
    """One whose first list is on its way to a Node that shows none."""
    return sent(NodeState().wanting(("d",)).seeing(node("1")))


def test_a_patch_goes_by_the_version_that_it_was_made_for(state: NodeState) -> None:
    assert state.patch == {"metadata": {"resourceVersion": "1"}, "status": {"volumesInUse": ["d"]}}
    assert state.sending() is None


def test_pauses_after_failures_double_up_to_the_longest_and_end_with_an_answer(state: NodeState) -> None:
    pauses: list[float] = []
    for _ in range(3):
        state = state.failed(ApiError("no answer"), SETTINGS)
        pauses.append(state.pause)
        state = sent(state)
    assert pauses == [2.0, 4.0, 5.0]
    assert state.answered().seeing(node("2", "d")).paced(SETTINGS).pause == 0.0
    assert state.answered().seeing(node("2", "x")).paced(SETTINGS).pause == 5.0


def test_pauses_after_conflicts_begin_with_the_debounce_and_nothing_is_patched_in_them(state: NodeState) -> None:
    once = state.conflicted(SETTINGS)
    assert (once.pause, once.conflicted(SETTINGS).pause) == (0.1, 0.2)
    assert once.sending() is None
    assert sent(once.was_read().seeing(node("2"))).against == "2"


def test_a_list_that_is_overwritten_is_patched_after_a_pause_and_one_that_nobody_saw_at_once(state: NodeState) -> None:
    shown = state.answered().seeing(node("2", "d"))
    assert (shown.shown, shown.patch_after(SETTINGS)) == (1, None)
    assert shown.seeing(node("3")).patch_after(SETTINGS) == 2.0
    assert shown.wanting(()).seeing(node("3", "x")).patch_after(SETTINGS) == 0.0


def test_only_an_answer_or_another_version_ends_the_doubt_about_a_patch(state: NodeState) -> None:
    doubtful = state.failed(ApiError("no answer"), SETTINGS).wanting(())
    assert doubtful.telling().shown == 0, "the first list may still arrive"
    assert sent(doubtful).sent == (1, ("d",)), "what may come is told again"
    assert doubtful.seeing(node("2")).shown == 2
    denied = state.failed(ApiError("no", status=403), SETTINGS).wanting(())
    assert denied.telling().shown == 2


def test_an_older_state_is_not_seen_but_that_of_a_node_made_anew_is() -> None:
    known = NodeState().seeing(node("9"))
    assert known.seeing(node("8", "d")) == known
    anew = known.seeing(node("8", "d", uid="another"))
    assert anew.node == node("8", "d", uid="another")


@pytest.mark.parametrize("name", ["status_retry_initial", "await_initial"])
def test_a_pause_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(SchemaError, match=f"{name} is 0; write how long, such as 1s"):
        read_kube_settings({name: 0})
