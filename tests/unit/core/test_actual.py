"""settle(): the design's table of states and outcomes, cell by cell; and the container around it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.core.values import LOCAL, NAME, PLUGIN, SHARED, facts, has, make_spec, mounted, want, wish
from volmgr.actual import ActualStateOfWorld, ActualVolume, Cause, Facts, settle
from volmgr.model.volume import Attachable, Presence
from volmgr.operations import Ending, Operation, Verb

NO, UNCERTAIN, YES = Presence.NO, Presence.UNCERTAIN, Presence.YES
MAKING, UNMAKING = Cause.MAKING, Cause.UNMAKING
RECONSTRUCTION, VANISHED = Cause.RECONSTRUCTION, Cause.VANISHED

FROM = [
    (NO, MAKING),
    (UNCERTAIN, MAKING),
    (UNCERTAIN, UNMAKING),
    (UNCERTAIN, RECONSTRUCTION),
    (UNCERTAIN, VANISHED),
    (YES, MAKING),
]

MADE = [
    # ending, then the state after it for each of FROM
    (Ending.DONE, [YES, YES, YES, YES, YES, YES]),
    (Ending.UNCHANGED, [NO, UNCERTAIN, UNCERTAIN, UNCERTAIN, UNCERTAIN, YES]),
    (Ending.FAILED, [NO, NO, UNCERTAIN, UNCERTAIN, UNCERTAIN, YES]),
    (Ending.UNCERTAIN, [UNCERTAIN, UNCERTAIN, UNCERTAIN, UNCERTAIN, UNCERTAIN, YES]),
]
UNMADE = [
    (Ending.DONE, [NO, NO, NO, NO, NO]),
    (Ending.UNCHANGED, [UNCERTAIN, UNCERTAIN, UNCERTAIN, UNCERTAIN, YES]),
    (Ending.FAILED, [UNCERTAIN] * 5),
    (Ending.UNCERTAIN, [UNCERTAIN] * 5),
]
MAKING_CELLS = [
    pytest.param(state, cause, ending, after, id=f"{ending}-from-{state}-{cause}")
    for ending, row in MADE
    for (state, cause), after in zip(FROM, row, strict=True)
]
UNMAKING_CELLS = [
    pytest.param(state, cause, ending, after, id=f"{ending}-from-{state}-{cause}")
    for ending, row in UNMADE
    for (state, cause), after in zip(FROM[1:], row, strict=True)
]


def done(volume: ActualVolume | None, verb: Verb, ending: Ending, uid: str = "") -> ActualVolume | None:
    """Settle an operation of a Pod u1 that wants the volume."""
    operation = Operation(verb, NAME, uid)
    return settle(volume, operation, ending, facts(want(), operation))


@pytest.mark.parametrize("verb", [Verb.ATTACH, Verb.VERIFY_ATTACHED])
@pytest.mark.parametrize(("state", "cause", "ending", "after"), MAKING_CELLS)
def test_making_an_attachment(verb: Verb, state: Presence, cause: Cause, ending: Ending, after: Presence) -> None:
    volume = done(replace(has(attached=state, device=NO), attach_cause=cause), verb, ending)
    assert (volume.attached if volume else NO) is after


@pytest.mark.parametrize(("state", "cause", "ending", "after"), MAKING_CELLS)
def test_making_a_device_mount(state: Presence, cause: Cause, ending: Ending, after: Presence) -> None:
    volume = done(replace(has(device=state), device_cause=cause), Verb.MOUNT_DEVICE, ending)
    assert volume is not None
    assert volume.device is after


@pytest.mark.parametrize(("state", "cause", "ending", "after"), MAKING_CELLS)
def test_making_a_pod_s_mount(state: Presence, cause: Cause, ending: Ending, after: Presence) -> None:
    before = has() if state is NO else has(mounted("u1", state, cause))
    volume = done(before, Verb.MOUNT, ending, "u1")
    assert volume is not None
    found = volume.mounts.get("u1")
    assert (found.state if found else NO) is after


@pytest.mark.parametrize(("state", "cause", "ending", "after"), UNMAKING_CELLS)
def test_unmaking_a_pod_s_mount(state: Presence, cause: Cause, ending: Ending, after: Presence) -> None:
    volume = done(has(mounted("u1", state, cause)), Verb.UNMOUNT, ending, "u1")
    assert volume is not None
    found = volume.mounts.get("u1")
    assert (found.state if found else NO) is after


@pytest.mark.parametrize(("state", "cause", "ending", "after"), UNMAKING_CELLS)
def test_unmaking_a_device_mount(state: Presence, cause: Cause, ending: Ending, after: Presence) -> None:
    volume = done(replace(has(device=state), device_cause=cause), Verb.UNMOUNT_DEVICE, ending)
    assert volume is not None
    assert volume.device is after


@pytest.mark.parametrize(("state", "cause", "ending", "after"), UNMAKING_CELLS)
def test_unmaking_an_attachment(state: Presence, cause: Cause, ending: Ending, after: Presence) -> None:
    volume = done(replace(has(attached=state, device=NO), attach_cause=cause), Verb.DETACH, ending)
    assert (volume.attached if volume else NO) is after


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.UNCERTAIN])
def test_what_an_unmaking_left_uncertain_stays_so_until_something_is_done(ending: Ending) -> None:
    volume = done(has(mounted()), Verb.UNMOUNT, ending, "u1")
    assert volume is not None
    for other in (Ending.FAILED, Ending.UNCHANGED, Ending.UNCERTAIN, Ending.FAILED):
        volume = done(volume, Verb.MOUNT, other, "u1")
        assert volume is not None
        assert volume.mounts["u1"].state is UNCERTAIN
    volume = done(volume, Verb.MOUNT, Ending.DONE, "u1")
    assert volume is not None
    assert volume.mounts["u1"].state is YES


@pytest.mark.parametrize("ending", list(Ending))
def test_an_expansion_never_changes_the_mount(ending: Ending) -> None:
    before = replace(has(mounted()), size=1)
    volume = settle(before, Operation(Verb.EXPAND, NAME), ending, Facts(plugin=PLUGIN, size=2))
    assert volume is not None
    assert volume.mounts == before.mounts
    assert volume.size == (2 if ending is Ending.DONE else 1)


@pytest.mark.parametrize("ending", [Ending.UNCHANGED, Ending.FAILED, Ending.UNCERTAIN])
def test_waiting_for_a_device_changes_nothing_until_it_is_there(ending: Ending) -> None:
    before = replace(has(device=NO), device_ready=False)
    volume = done(before, Verb.WAIT_FOR_ATTACH, ending)
    assert volume is not None
    assert not volume.device_ready
    assert volume.attached is YES


def test_attaching_again_overwrites_the_device_path_even_with_nothing() -> None:
    attach = Operation(Verb.ATTACH, NAME)
    first = settle(None, attach, Ending.DONE, Facts(plugin=PLUGIN, facets=SHARED, device_path="fake/device/path"))
    assert first is not None
    assert first.device_path == "fake/device/path"
    again = settle(first, attach, Ending.DONE, Facts(plugin=PLUGIN, facets=SHARED, device_path=""))
    assert again is not None
    assert again.device_path == ""


def test_mounting_a_device_keeps_the_paths_that_it_does_not_say() -> None:
    before = replace(has(device=NO), device_path="/dev/sda")
    volume = settle(before, Operation(Verb.MOUNT_DEVICE, NAME), Ending.DONE, Facts(plugin=PLUGIN, device_path=""))
    assert volume is not None
    assert (volume.device_path, volume.device_target) == ("/dev/sda", Path("/global"))


def test_unmounting_a_device_keeps_its_label_and_forgets_its_directory() -> None:
    before = replace(has(), device_label="system_u:object_r:container_file_t:s0")
    volume = done(before, Verb.UNMOUNT_DEVICE, Ending.DONE)
    assert volume is not None
    assert volume.device_label == "system_u:object_r:container_file_t:s0"
    assert volume.device_target is None


@pytest.mark.parametrize("state", [UNCERTAIN, YES])
def test_detaching_has_no_effect_while_a_pod_has_the_volume(state: Presence) -> None:
    before = has(mounted("u1", state))
    assert done(before, Verb.DETACH, Ending.DONE) == before


@pytest.mark.parametrize(
    ("verb", "uid"), [(Verb.MOUNT, "u1"), (Verb.UNMOUNT, "u1")], ids=["mounted", "the last pod went"]
)
def test_a_reconstructed_volume_is_confirmed_by_a_mount_or_the_end_of_its_last_pod(verb: Verb, uid: str) -> None:
    before = replace(has(mounted("u1", UNCERTAIN, RECONSTRUCTION)), reconstructed=True)
    volume = done(before, verb, Ending.DONE, uid)
    assert volume is not None
    assert not volume.reconstructed


def test_a_reconstructed_volume_is_forgotten_when_detached() -> None:
    before = replace(has(attached=UNCERTAIN, device=NO), reconstructed=True)
    assert done(before, Verb.DETACH, Ending.DONE) is None


def test_a_reconstructed_volume_stays_so_after_a_failed_mount() -> None:
    before = replace(has(mounted("u1", UNCERTAIN, RECONSTRUCTION)), reconstructed=True)
    volume = done(before, Verb.MOUNT, Ending.FAILED, "u1")
    assert volume is not None
    assert volume.reconstructed


@pytest.mark.parametrize(
    ("before", "asked", "after"),
    [
        (Attachable.UNKNOWN, True, Attachable.YES),
        (Attachable.NO, True, Attachable.YES),
        (Attachable.YES, True, Attachable.YES),
    ],
)
def test_a_volume_asked_for_as_attachable_is_attachable(before: Attachable, asked: bool, after: Attachable) -> None:
    volume = settle(
        replace(has(), attachable=before),
        Operation(Verb.MOUNT_DEVICE, NAME),
        Ending.DONE,
        Facts(plugin=PLUGIN, facets=SHARED if asked else LOCAL),
    )
    assert volume is not None
    assert volume.attachable is after


def test_a_mount_learns_its_revision_size_and_path_only_when_done() -> None:
    desired = want(wish(revision="7"), size=10)
    operation = Operation(Verb.MOUNT, NAME, "u1")
    for ending, revision, size in ((Ending.UNCERTAIN, "", 0), (Ending.DONE, "7", 10)):
        volume = settle(has(), operation, ending, facts(desired, operation))
        assert volume is not None
        assert (volume.mounts["u1"].revision, volume.size) == (revision, size)


def test_an_inline_volume_is_remembered_as_such() -> None:
    desired = want(wish(spec=make_spec(inline=True)), facets=LOCAL)
    operation = Operation(Verb.MOUNT, NAME, "u1")
    volume = settle(None, operation, Ending.DONE, facts(desired, operation))
    assert volume is not None
    assert volume.mounts["u1"].inline


def test_nothing_is_left_of_a_volume_that_is_neither_attached_nor_mounted() -> None:
    assert done(None, Verb.ATTACH, Ending.FAILED) is None
    assert done(has(mounted(), attached=NO, device=NO), Verb.UNMOUNT, Ending.DONE, "u1") is None


def test_a_pod_is_found_by_its_uid_as_long_as_it_has_a_mount() -> None:
    world = ActualStateOfWorld()
    world.put(NAME, has(mounted("u1"), mounted("u2", UNCERTAIN)))
    assert [volume.name for volume in world.of_pod("u2")] == [NAME]
    world.put(NAME, has(mounted("u1")))
    assert world.of_pod("u2") == ()
    world.put(NAME, None)
    assert world.of_pod("u1") == ()
    assert len(world) == 0


def test_only_what_is_attached_and_surely_attachable_is_in_use() -> None:
    world = ActualStateOfWorld()
    for name, attached, attachable in (
        ("a", YES, Attachable.YES),
        ("b", UNCERTAIN, Attachable.YES),
        ("c", YES, Attachable.UNKNOWN),
        ("d", YES, Attachable.NO),
        ("e", NO, Attachable.YES),
    ):
        world.put(name, replace(has(attached=attached), name=name, attachable=attachable))
    assert world.attached == {"a", "b"}


@pytest.mark.parametrize(("device", "after"), [(YES, UNCERTAIN), (UNCERTAIN, UNCERTAIN), (NO, NO)])
@pytest.mark.parametrize("lost", [False, True])
def test_a_mount_that_failed_for_want_of_its_device_puts_that_in_doubt(
    device: Presence, after: Presence, lost: bool
) -> None:
    operation = Operation(Verb.MOUNT, NAME, "u2")
    before = has(mounted("u1"), device=device)
    now = settle(before, operation, Ending.FAILED, replace(facts(want(), operation), device_lost=lost))
    assert now is not None
    assert now.device is (after if lost else device)
    assert set(now.mounts) == {"u1"}
