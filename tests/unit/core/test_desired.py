"""The desired state of the world: entries by volume and Pod, shared and counted."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.values import NAME, want, wish
from volmgr.desired import DesiredStateOfWorld


def test_a_volume_is_there_from_its_first_pod_to_its_last() -> None:
    world = DesiredStateOfWorld()
    assert world.add(want(), wish("u1"))
    assert world.add(want(), wish("u2"))
    (volume,) = world
    assert set(volume.mounts) == {"u1", "u2"}
    assert not volume.reported_in_use
    world.remove(NAME, "u1")
    assert [each.name for each in world.of_pod("u2")] == [NAME]
    assert world.of_pod("u1") == ()
    world.remove(NAME, "u2")
    assert len(world) == 0


def test_adding_the_same_again_changes_nothing() -> None:
    world = DesiredStateOfWorld()
    world.add(want(), wish())
    assert not world.add(want(), wish())
    assert world.add(want(), wish(revision="2"))
    assert len(world) == 1


def test_another_size_is_a_change_and_none_keeps_the_known_one() -> None:
    world = DesiredStateOfWorld()
    world.add(want(size=1), wish())
    assert not world.add(want(size=0), wish())
    assert world.add(want(size=2), wish())
    world.add(want(size=0), wish("u2"))
    (volume,) = world
    assert volume.size == 2


def test_what_is_reported_in_use_is_exactly_the_last_report() -> None:
    world = DesiredStateOfWorld()
    for name in ("a", "b", "c"):
        world.add(replace(want(), name=name), wish())
    assert set(world.report_in_use(["a", "b", "unknown"])) == {"a", "b"}
    assert set(world.report_in_use(["b", "c"])) == {"a", "c"}
    assert {volume.name for volume in world if volume.reported_in_use} == {"b", "c"}
    world.add(replace(want(), name="b"), wish("u2"))
    assert {volume.name for volume in world if volume.reported_in_use} == {"b", "c"}, "another Pod keeps it"


def test_a_volume_that_is_wanted_later_is_reported_as_the_last_list_says() -> None:
    world = DesiredStateOfWorld()
    assert world.report_in_use(["a", "b"]) == ()
    world.add(replace(want(), name="a"), wish())
    assert [volume.reported_in_use for volume in world] == [True]
    assert world.report_in_use(["a"], current=False) == ()
    world.add(replace(want(), name="b"), wish())
    assert [(volume.name, volume.reported_in_use) for volume in world] == [("a", True), ("b", False)]


def test_an_outdated_list_takes_reports_back_and_makes_none() -> None:
    world = DesiredStateOfWorld()
    for name in ("a", "b"):
        world.add(replace(want(), name=name), wish())
    world.report_in_use(["a"])
    assert world.report_in_use(["b"], current=False) == ("a",)
    assert not any(volume.reported_in_use for volume in world)
    assert world.report_in_use(["b"]) == ("b",)


def test_removing_what_is_not_there_is_nothing() -> None:
    world = DesiredStateOfWorld()
    world.remove(NAME, "u1")
    assert world.remove_pod("u1") == ()
    world.add(want(), wish("u1"))
    world.remove(NAME, "u2")
    assert len(world) == 1


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.sampled_from(["u1", "u2"])), max_size=30))
def test_both_indices_agree_whatever_happens(steps: list[tuple[bool, str, str]]) -> None:
    world = DesiredStateOfWorld()
    known: set[tuple[str, str]] = set()
    for come, name, uid in steps:
        if come:
            world.add(replace(want(), name=name), wish(uid))
            known.add((name, uid))
        else:
            world.remove(name, uid)
            known.discard((name, uid))
    assert {(volume.name, uid) for volume in world for uid in volume.mounts} == known
    for uid in ("u1", "u2"):
        assert {volume.name for volume in world.of_pod(uid)} == {name for name, other in known if other == uid}
    touched = world.remove_pod("u1")
    assert set(touched) == {name for name, uid in known if uid == "u1"}
    assert world.of_pod("u1") == ()
