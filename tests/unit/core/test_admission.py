"""Exclusion by key and back-off: who may run beside whom, and when again."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.values import LOCAL, NAME, SHARED
from volmgr.admission import EVERYBODY, Admission, Held, holds_of
from volmgr.config import Config
from volmgr.model.volume import Facets
from volmgr.operations import Operation, Verb

MOUNT = Operation(Verb.MOUNT, NAME, "u1")
UNMOUNT = Operation(Verb.UNMOUNT, NAME, "u1")
WHOLE = [
    Verb.ATTACH,
    Verb.WAIT_FOR_ATTACH,
    Verb.VERIFY_ATTACHED,
    Verb.MOUNT_DEVICE,
    Verb.EXPAND,
    Verb.UNMOUNT_DEVICE,
    Verb.DETACH,
]


@pytest.mark.parametrize("verb", WHOLE)
def test_what_concerns_the_volume_needs_all_of_it(verb: Verb) -> None:
    assert holds_of(Operation(verb, NAME), SHARED) == Held(NAME, EVERYBODY)


@pytest.mark.parametrize(
    ("facets", "key"),
    [
        (LOCAL, "u1"),
        (Facets(attach=True), EVERYBODY),
        (Facets(device=True), EVERYBODY),
        (SHARED, EVERYBODY),
        (None, EVERYBODY),
    ],
)
def test_a_mount_needs_all_of_an_attachable_or_device_mountable_volume(facets: Facets | None, key: str) -> None:
    assert holds_of(MOUNT, facets) == Held(NAME, key)


@pytest.mark.parametrize("facets", [LOCAL, SHARED, None])
def test_an_unmount_needs_its_pod_s_part_only(facets: Facets | None) -> None:
    assert holds_of(UNMOUNT, facets) == Held(NAME, "u1")


def test_parts_of_one_volume_are_held_side_by_side_and_the_whole_by_nobody_else() -> None:
    admission = Admission()
    first, second, whole = Held(NAME, "u1"), Held(NAME, "u2"), Held(NAME, EVERYBODY)
    assert admission.try_hold(first)
    assert admission.try_hold(second)
    assert not admission.try_hold(first)
    assert not admission.try_hold(whole)
    assert admission.release(first) == (NAME,)
    assert not admission.try_hold(whole)
    admission.release(second)
    assert admission.try_hold(whole)
    assert not admission.try_hold(first)
    assert len(admission) == 1
    assert admission.is_held(NAME)


def test_other_volumes_are_not_concerned() -> None:
    admission = Admission()
    assert admission.try_hold(Held(NAME, EVERYBODY))
    assert admission.try_hold(Held("other", EVERYBODY))


def test_an_exclusive_key_is_held_once_and_its_release_wakes_who_waited() -> None:
    admission = Admission()
    first, second = Held("a", EVERYBODY, ("iqn",)), Held("b", EVERYBODY, ("map", "iqn"))
    assert admission.try_hold(first)
    assert not admission.try_hold(second)
    assert not admission.is_held("b"), "a refused operation holds nothing"
    assert admission.try_hold(Held("c", EVERYBODY, ("map",)))
    assert admission.release(first) == ("a", "b")
    assert not admission.try_hold(second), "c still holds the map"


def test_an_endpoint_has_so_many_operations_at_once_and_an_overdue_one_leaves_the_limit() -> None:
    admission = Admission(Config(endpoint_operations=2))
    held = [Held(name, "u1", (), "server") for name in "abc"]
    assert [admission.try_hold(each) for each in held] == [True, True, False]
    assert admission.try_hold(Held("d", "u1", (), "other server"))
    assert admission.quarantine(held[0]) == ("c",)
    assert admission.try_hold(held[2])
    assert not admission.try_hold(held[0]), "it still holds its volume"
    assert admission.quarantine(held[0]) == ()
    assert admission.release(held[0]) == ("a",)
    assert not admission.try_hold(Held("e", "u1", (), "server"))
    assert admission.release(held[1]) == ("b", "e")


def test_a_failure_is_backed_off_500_ms_and_twice_as_long_each_time_up_to_2_min_2_s() -> None:
    admission = Admission()
    delays = [admission.failed(MOUNT, "no", now=100.0).delay for _ in range(10)]
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 122.0, 122.0]
    backoff = admission.backoff(MOUNT)
    assert backoff is not None
    assert (backoff.until, backoff.since, backoff.attempts, backoff.error) == (222.0, 100.0, 10, "no")


def test_success_starts_back_off_anew() -> None:
    admission = Admission()
    admission.failed(MOUNT, "no", now=0)
    admission.failed(MOUNT, "no", now=1)
    admission.forget(NAME, "u1", Verb.MOUNT)
    assert admission.backoff(MOUNT) is None
    assert admission.failed(MOUNT, "no", now=2).delay == 0.5


def test_what_will_never_work_is_not_tried_again_until_it_is_forgotten() -> None:
    admission = Admission()
    assert admission.failed(MOUNT, "wrong", now=0, final=True).until == math.inf
    admission.failed(UNMOUNT, "busy", now=0)
    admission.forget(NAME, "u1", final_only=True)
    assert admission.backoff(MOUNT) is None
    assert admission.backoff(UNMOUNT) is not None


def test_the_other_direction_of_that_pod_drops_its_back_off_and_nobody_else_s() -> None:
    admission = Admission()
    other = Operation(Verb.MOUNT, NAME, "u2")
    device = Operation(Verb.MOUNT_DEVICE, NAME)
    for each in (MOUNT, other, device):
        admission.failed(each, "no", now=0)
    admission.turn(UNMOUNT)
    assert admission.backoff(MOUNT) is None
    assert admission.backoff(other) is not None
    assert admission.backoff(device) is not None
    admission.turn(Operation(Verb.ATTACH, NAME))
    assert admission.backoff(device) is not None, "attaching and mounting go the same way"
    admission.turn(Operation(Verb.UNMOUNT_DEVICE, NAME))
    assert admission.backoff(device) is None


def test_two_operations_that_both_fail_keep_each_other_s_back_off() -> None:
    """Else two failing Pods of one volume would start each other again without end."""
    admission = Admission()
    first, second = MOUNT, Operation(Verb.MOUNT, NAME, "u2")
    for now in range(4):
        for each in (first, second):
            admission.turn(each)
            admission.failed(each, "no", now=now)
    backoffs = [admission.backoff(each) for each in (first, second)]
    assert [backoff.delay for backoff in backoffs if backoff] == [4.0, 4.0]


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from(["a", "b"]),
            st.sampled_from([EVERYBODY, "u1", "u2"]),
            st.sets(st.sampled_from(["x", "y"])),
            st.sampled_from(["", "s"]),
        ),
        max_size=40,
    )
)
def test_no_two_holders_ever_conflict(steps: list[tuple[bool, str, str, set[str], str]]) -> None:
    admission = Admission(Config(endpoint_operations=2))
    running: list[Held] = []
    for take, volume, uid, exclusive, endpoint in steps:
        if take:
            held = Held(volume, uid, tuple(sorted(exclusive)), endpoint)
            if admission.try_hold(held):
                running.append(held)
        elif running:
            admission.release(running.pop(0))
        assert len(admission) == len(running)
        assert sum(held.endpoint == "s" for held in running) <= 2
        for index, one in enumerate(running):
            for other in running[index + 1 :]:
                assert not set(one.exclusive) & set(other.exclusive)
                if one.volume == other.volume:
                    assert EVERYBODY not in {one.pod_uid, other.pod_uid}
                    assert one.pod_uid != other.pod_uid
    while running:
        admission.release(running.pop())
    assert len(admission) == 0
    assert admission.try_hold(Held("a", EVERYBODY, ("x", "y"), "s"))


def test_whoever_is_refused_for_a_key_is_named_when_the_key_is_free() -> None:
    admission = Admission()
    holder = Held("a", EVERYBODY, ("x",))
    admission.try_hold(holder)
    refused = [Held(name, EVERYBODY, ("x",)) for name in ("c", "b")]
    assert not any(admission.try_hold(each) for each in refused)
    assert admission.release(holder) == ("a", "b", "c")


def test_a_back_off_may_be_kept_shorter_than_the_longest() -> None:
    admission = Admission()
    delays = [admission.failed(MOUNT, "no", now=0, longest=4.0).delay for _ in range(6)]
    assert delays == [0.5, 1, 2, 4, 4, 4]
    assert Admission(Config(backoff_max=2.0)).failed(MOUNT, "no", now=0, longest=4.0).delay <= 2


def test_what_an_earlier_daemon_s_helper_works_on_is_held_by_nobody_until_it_has_ended() -> None:
    admission = Admission()
    left = Held(NAME, "u1", ("disk",))
    admission.leave(left)
    assert admission.is_held(NAME)
    assert not admission.try_hold(Held(NAME, "u1"))
    assert not admission.try_hold(Held(NAME, EVERYBODY))
    assert not admission.try_hold(Held("other", "u9", ("disk",)))
    assert admission.try_hold(Held(NAME, "u2"))
    assert admission.try_hold(Held("another", "u1"))
    assert set(admission.give_back(left)) == {NAME, "other"}
    assert admission.try_hold(Held(NAME, "u1"))
    assert admission.try_hold(Held("other", "u9", ("disk",)))


def test_of_two_helpers_that_an_earlier_daemon_left_at_one_volume_both_are_waited_for() -> None:
    admission = Admission()
    part, whole = Held(NAME, "u1"), Held(NAME, EVERYBODY)
    admission.leave(part)
    admission.leave(whole)
    assert admission.give_back(whole) == (NAME,)
    assert not admission.try_hold(part)
    admission.give_back(part)
    assert not admission.is_held(NAME)
    assert admission.try_hold(part)
