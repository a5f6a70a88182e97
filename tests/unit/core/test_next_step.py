"""next_step(): what is due, in which order, and what holds it back."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.values import LOCAL, NAME, READY, SHARED, facts, has, make_pod, make_spec, mounted, want, wish
from volmgr.actual import ActualVolume, Cause, PodMount, settle
from volmgr.desired import DesiredVolume, Missing
from volmgr.model.meta import ObjectRef
from volmgr.model.pod import PodVolume
from volmgr.model.volume import RWOP, Attachable, Facets, Presence
from volmgr.next_step import Readiness, blocked, next_step, plan
from volmgr.operations import Ending, Verb

NO, UNCERTAIN, YES = Presence.NO, Presence.UNCERTAIN, Presence.YES
IN_USE = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"


def due(desired: DesiredVolume | None, actual: ActualVolume | None, readiness: Readiness = READY) -> list[str]:
    """Give what is due in short: `mount u1`."""
    return [f"{each.verb} {each.pod_uid}".strip() for each in next_step(desired, actual, readiness)]


def test_a_volume_is_attached_waited_for_mounted_on_the_node_and_then_for_each_pod() -> None:
    desired = want(wish("u1"), wish("u2"))
    assert due(desired, None) == ["attach"]
    attached = replace(has(device=NO), device_ready=False)
    assert due(desired, attached) == ["wait_for_attach"]
    assert due(desired, has(device=NO)) == ["mount_device"]
    assert due(desired, has()) == ["mount u1", "mount u2"]
    assert due(desired, has(mounted("u1"))) == ["mount u2"]
    assert due(desired, has(mounted("u1"), mounted("u2"))) == []


def test_a_volume_that_needs_neither_is_mounted_at_once_for_every_pod() -> None:
    assert due(want(wish("u1"), wish("u2"), facets=LOCAL), None) == ["mount u1", "mount u2"]


def test_a_volume_nobody_wants_is_unmounted_then_unmounted_on_the_node_then_detached() -> None:
    assert due(None, has(mounted("u1"), mounted("u2"))) == ["unmount u1", "unmount u2"]
    assert due(None, has()) == ["unmount_device"]
    assert due(None, has(device=NO)) == ["detach"]
    assert due(None, has(device=UNCERTAIN)) == ["unmount_device"]
    assert due(None, has(device=NO, attached=UNCERTAIN)) == ["detach"]


def test_unmounts_come_before_mounts() -> None:
    assert due(want(wish("u1")), has(mounted("u2"))) == ["unmount u2", "mount u1"]


@pytest.mark.parametrize("state", [UNCERTAIN, YES])
def test_a_device_stays_while_any_pod_s_mount_is_left_or_wanted(state: Presence) -> None:
    readiness = Readiness(unmount=True, living={"u1": make_pod("u1")})
    assert due(None, has(mounted("u1", state)), readiness) == []
    assert "unmount_device" not in due(want(wish("u1")), has())


def test_nothing_is_taken_away_before_every_source_was_read_but_mounts_go_on() -> None:
    early = Readiness(unmount=False)
    assert due(None, has(mounted("u1")), early) == []
    assert due(None, has(), early) == []
    assert due(None, has(device=NO), early) == []
    assert due(want(wish("u1")), has(mounted("u2")), early) == ["mount u1"]


def test_a_root_that_is_not_adopted_is_not_touched() -> None:
    readiness = Readiness(unmount=True, read_only=True)
    assert due(want(), None, readiness) == []
    assert due(None, has(mounted("u1")), readiness) == []


@pytest.mark.parametrize("cause", list(Cause))
def test_an_uncertain_mount_is_made_again_for_a_pod_that_wants_it_and_unmounted_otherwise(cause: Cause) -> None:
    actual = has(mounted("u1", UNCERTAIN, cause))
    assert due(want(wish("u1")), actual) == ["mount u1"]
    assert due(None, actual) == ["unmount u1"]


def test_an_uncertain_device_or_attachment_is_made_again_before_a_pod_s_mount() -> None:
    assert due(want(), has(device=UNCERTAIN)) == ["mount_device"]
    assert due(want(), has(device=UNCERTAIN, attached=UNCERTAIN)) == ["attach"]


def test_a_vanished_device_mount_is_made_again_under_mounted_pods() -> None:
    actual = replace(has(mounted("u1")), device=UNCERTAIN, device_cause=Cause.VANISHED)
    assert due(want(wish("u1")), actual) == ["mount_device"]


def test_a_pod_that_is_kept_while_it_ends_gets_nothing_new_and_loses_nothing() -> None:
    kept = replace(wish("u1"), keep_only=True)
    assert due(want(kept), None) == []
    assert due(want(kept), has(mounted("u1"))) == []
    assert due(want(kept), has(mounted("u1", UNCERTAIN))) == []


def test_a_living_pod_s_mount_stays_when_its_volume_does_not_resolve_any_more() -> None:
    inline = make_pod("u1", PodVolume(name="pv1", type="plainProbe"))
    other = make_pod("u1", PodVolume(name="other", type="plainProbe"))
    by_claim = mounted("u1")
    by_name = mounted("u1", inline=True)
    assert due(None, has(by_claim), Readiness(unmount=True, living={"u1": make_pod("u1")})) == []
    assert due(None, has(by_name), Readiness(unmount=True, living={"u1": inline})) == []
    assert due(None, has(by_name), Readiness(unmount=True, living={"u1": other})) == ["unmount u1"]


def test_a_returned_pod_with_another_source_is_unmounted_first_and_then_mounted() -> None:
    new = replace(wish("u1", spec=make_spec(inline=True)), source_key="new")
    old = replace(mounted("u1", inline=True), source_key="old")
    desired = want(new, facets=LOCAL)
    assert due(desired, has(old, facets=LOCAL, device=NO, attached=NO)) == ["unmount u1"]
    same = replace(old, source_key="new")
    assert due(desired, has(same, facets=LOCAL, device=NO, attached=NO)) == []


def test_the_reasons_tell_why_something_is_taken_away() -> None:
    pods = {"u1": make_pod("u1", PodVolume(name="other"))}
    gone, no_longer = (
        next_step(None, has(mounted("u1", inline=True)), Readiness(unmount=True, living=living))[0].reason
        for living in ({}, pods)
    )
    assert gone == "its Pod has left"
    assert no_longer == "the Pod no longer declares it"


@pytest.mark.parametrize("remount", [False, True])
def test_a_changed_revision_is_mounted_again_only_where_the_type_says_so(remount: bool) -> None:
    desired = want(wish("u1", revision="2"), facets=Facets(remount=remount))
    old = replace(mounted("u1"), revision="1")
    assert due(desired, has(old, attached=NO, device=NO, facets=LOCAL)) == (["mount u1"] if remount else [])
    new = replace(old, revision="2")
    assert due(desired, has(new, attached=NO, device=NO, facets=LOCAL)) == []


@pytest.mark.parametrize(("unseen", "look"), [(True, True), (True, False), (False, True)])
def test_what_was_found_mounted_is_looked_into_once_the_time_for_that_has_come(unseen: bool, look: bool) -> None:
    found = has(replace(mounted("u1"), revision="2", unseen=unseen), attached=NO, device=NO, facets=LOCAL)
    desired = want(wish("u1", revision="2"), facets=Facets(remount=True))
    operations = next_step(desired, found, replace(READY, look=look))
    wanted = ["its files have not been looked at since the start"] if unseen and look else []
    assert [operation.reason for operation in operations] == wanted


def test_a_mount_that_is_due_again_says_so() -> None:
    desired = want(wish("u1", revision="2"), facets=Facets(remount=True))
    old = has(replace(mounted("u1"), revision="2", due=True), attached=NO, device=NO, facets=LOCAL)
    (operation,) = next_step(desired, old, READY)
    assert operation.reason == "it is due again"
    assert due(want(wish("u1", revision="2")), old) == []


def test_of_a_pod_that_is_only_kept_a_mount_is_made_again_when_it_is_due_and_for_nothing_else() -> None:
    kept = want(replace(wish("u1", revision="3"), keep_only=True), facets=Facets(remount=True))
    old = replace(mounted("u1"), revision="2")
    for mount, expected in (
        (replace(old, due=True), ["mount u1"]),
        (replace(old, due=True, state=UNCERTAIN), []),
        (old, []),
    ):
        assert due(kept, has(mount, attached=NO, device=NO, facets=LOCAL)) == expected


def test_a_missing_object_is_waited_for_by_that_pod_alone() -> None:
    lacking = replace(wish("u1"), missing=(Missing(ObjectRef("Secret", "default", "password")),))
    desired = want(lacking, wish("u2"))
    assert due(desired, has()) == ["mount u2"]
    assert [(each.pod_uid, each.what) for each in blocked(desired, has(), READY)] == [
        ("u1", "waits for Secret default/password: add it to the manifests")
    ]


@pytest.mark.parametrize("state", [UNCERTAIN, YES])
def test_a_volume_of_one_pod_is_refused_to_a_second_one_while_it_may_be_mounted(state: Presence) -> None:
    desired = want(wish("u2", spec=make_spec(modes=RWOP)))
    actual = has(mounted("u1", state))
    readiness = Readiness(unmount=True, living={"u1": make_pod("u1")})
    assert due(desired, actual, readiness) == []
    assert [each.what for each in blocked(desired, actual, readiness)] == [IN_USE]


def test_a_volume_of_one_pod_among_other_modes_may_be_shared() -> None:
    desired = want(wish("u2", spec=make_spec(modes=(*RWOP, "ReadWriteOnce"))))
    readiness = Readiness(unmount=True, living={"u1": make_pod("u1")})
    assert due(desired, has(mounted("u1")), readiness) == ["mount u2"]


def test_a_volume_of_one_pod_is_mounted_again_for_that_pod() -> None:
    desired = want(wish("u1", spec=make_spec(modes=RWOP)))
    assert due(desired, has(mounted("u1", UNCERTAIN))) == ["mount u1"]


@pytest.mark.parametrize(
    ("in_use", "attached", "expected", "waits"),
    [
        (False, {}, [], "waits until the node status reports the volume in use"),
        (False, {NAME: "/dev/sda"}, [], "waits until the node status reports the volume in use"),
        (True, {}, [], f"volume {NAME} is not yet in node's status"),
        (True, {NAME: "/dev/sda"}, ["verify_attached"], ""),
    ],
)
def test_where_a_controller_attaches_a_volume_is_verified_once_reported_and_attached(
    in_use: bool, attached: dict[str, str], expected: list[str], waits: str
) -> None:
    readiness = Readiness(unmount=True, controller_attach=True, attached=attached)
    desired = want(in_use=in_use)
    assert due(desired, None, readiness) == expected
    assert [each.what for each in blocked(desired, None, readiness)] == ([waits] if waits else [])


@pytest.mark.parametrize(
    ("attached", "status_read", "expected", "waits"),
    [
        ({NAME: "/dev/sda"}, True, ["mount u1"], ""),
        ({}, True, [], f"volume {NAME} is no longer in node's status"),
        ({}, False, ["mount u1"], ""),
    ],
)
def test_of_an_attached_volume_only_what_is_not_mounted_heeds_a_status_that_lacks_it(
    attached: dict[str, str], status_read: bool, expected: list[str], waits: str
) -> None:
    readiness = Readiness(controller_attach=True, attached=attached, status_read=status_read)
    assert due(want(), has(), readiness) == expected
    assert [each.what for each in blocked(want(), has(), readiness)] == ([waits] if waits else [])
    assert due(want(), has(mounted("u1")), readiness) == []
    assert blocked(want(), has(mounted("u1")), readiness) == ()


@pytest.mark.parametrize(("attached", "expected"), [({}, []), ({NAME: "/dev/sda"}, ["verify_attached"])])
def test_a_device_that_may_have_vanished_is_verified_only_when_the_status_has_it(
    attached: dict[str, str], expected: list[str]
) -> None:
    readiness = Readiness(controller_attach=True, attached=attached)
    doubtful = has(mounted("u1"), attached=UNCERTAIN, device=UNCERTAIN)
    assert due(want(in_use=True), doubtful, readiness) == expected


def test_who_waits_for_a_controller_is_told_what_keeps_that_one_from_attaching() -> None:
    readiness = Readiness(controller_attach=True, attach_note="there is no Node n1")
    (waiting,) = blocked(want(in_use=True), None, readiness)
    assert waiting.what == f"volume {NAME} is not yet in node's status: there is no Node n1"


def test_what_is_missing_is_said_with_the_reason_of_each() -> None:
    missing = (
        Missing(ObjectRef("Secret", "default", "a"), "no answer"),
        Missing(ObjectRef("Secret", "default", "b")),
        Missing(ObjectRef("Secret", "default", "c")),
    )
    (waiting,) = blocked(want(replace(wish("u1"), missing=missing)), None, READY)
    declared = "Secret default/b, Secret default/c: add them to the manifests"
    assert waiting.what == f"waits for Secret default/a: no answer; {declared}"


def test_where_a_controller_attaches_the_node_never_detaches() -> None:
    readiness = Readiness(unmount=True, controller_attach=True)
    assert due(None, has(), readiness) == ["unmount_device"]
    assert due(None, has(device=NO), readiness) == []


@pytest.mark.parametrize("attachable", [Attachable.NO, Attachable.UNKNOWN])
def test_what_is_not_surely_attachable_is_not_detached(attachable: Attachable) -> None:
    assert due(None, replace(has(device=NO), attachable=attachable)) == []


def test_a_wanted_volume_is_never_detached() -> None:
    kept = replace(wish("u1"), keep_only=True)
    actual = replace(has(device=NO), device_label="a label")
    assert due(want(kept), actual) == []


def test_a_device_of_another_label_goes_before_it_is_mounted_with_the_wanted_one() -> None:
    desired = replace(want(), selinux_label="wanted")
    assert due(desired, replace(has(), device_label="other")) == ["unmount_device"]
    assert due(desired, replace(has(), device_label="wanted")) == ["mount u1"]
    shared = replace(has(mounted("u2")), device_label="other")
    living = Readiness(unmount=True, living={"u2": make_pod("u2")})
    assert due(desired, shared, living) == []
    waits = "its device to be unmounted, whose SELinux label is other where wanted is wanted"
    assert blocked(desired, shared, living)[0].what == waits


@pytest.mark.parametrize(
    ("have", "wanted", "grows"),
    [(1, 2, True), (2, 2, False), (3, 2, False), (0, 2, False), (1, 0, False)],
)
def test_a_mounted_volume_grows_when_both_sizes_are_known_and_the_wanted_one_is_larger(
    have: int, wanted: int, grows: bool
) -> None:
    actual = replace(has(mounted("u1")), size=have)
    assert due(want(size=wanted), actual) == (["expand"] if grows else [])


def test_a_volume_grows_only_where_it_is_mounted_writable_and_can() -> None:
    small = replace(has(mounted("u1")), size=1)
    assert due(want(wish(spec=make_spec(read_only=True)), size=2), small) == []
    assert due(want(size=2, facets=replace(SHARED, expand=False)), small) == []
    assert due(want(size=2), replace(has(mounted("u1", UNCERTAIN)), size=1)) == ["mount u1"]


def test_the_plan_of_all_volumes_takes_away_before_it_makes() -> None:
    wanted = replace(want(), name="a")
    operations = plan([wanted], [replace(has(mounted("u9")), name="b")], READY)
    assert [(each.verb, each.volume) for each in operations] == [(Verb.UNMOUNT, "b"), (Verb.ATTACH, "a")]


presences = st.sampled_from(list(Presence))
some = st.sampled_from([UNCERTAIN, YES])
causes = st.sampled_from(list(Cause))
uids = st.sampled_from(["u1", "u2", "u3"])


@st.composite
def facets(draw: st.DrawFn) -> Facets:
    return Facets(
        attach=draw(st.booleans()), device=draw(st.booleans()), expand=draw(st.booleans()), remount=draw(st.booleans())
    )


@st.composite
def actual_mounts(draw: st.DrawFn) -> PodMount:
    mount = mounted(draw(uids), draw(some), draw(causes))
    return replace(mount, revision=draw(st.sampled_from(["", "1", "2"])))


@st.composite
def volumes(draw: st.DrawFn) -> tuple[DesiredVolume | None, ActualVolume | None]:
    """Give any desired and actual state of one volume whose facets did not change."""
    kinds = draw(facets())
    actual = has(
        *draw(st.lists(actual_mounts(), max_size=3)),
        attached=draw(presences) if kinds.attach else NO,
        device=draw(presences) if kinds.device else NO,
        facets=kinds,
    )
    actual = replace(actual, size=draw(st.integers(0, 2)), device_ready=draw(st.booleans()))
    wishes = [wish(uid, revision=draw(st.sampled_from(["1", "2"]))) for uid in draw(st.sets(uids))]
    desired = want(*wishes, facets=kinds, size=draw(st.integers(0, 2))) if wishes else None
    return desired, None if actual.is_gone else actual


def apply(
    desired: DesiredVolume | None, actual: ActualVolume | None, endings: st.DataObject | None = None
) -> tuple[ActualVolume | None, bool]:
    """Perform the first operation that is due; False when nothing is."""
    operations = next_step(desired, actual, READY)
    if not operations:
        return actual, False
    ending = endings.draw(st.sampled_from(list(Ending))) if endings else Ending.DONE
    nobody = replace(want(), mounts={})
    return settle(actual, operations[0], ending, facts(desired or nobody, operations[0])), True


def check_that_it_converges(desired: DesiredVolume | None, actual: ActualVolume | None) -> None:
    for _ in range(20):
        actual, busy = apply(desired, actual)
        if not busy:
            break
    assert next_step(desired, actual, READY) == ()
    there = actual.mounts if actual else dict[str, PodMount]()
    assert set(there) == (set(desired.mounts) if desired else set())
    assert all(mount.state is YES for mount in there.values())
    if desired is None:
        assert actual is None
    else:
        assert actual is not None
        assert not desired.facets.remount or all(
            mount.revision == desired.mounts[uid].revision for uid, mount in there.items()
        )


@given(volumes())
def test_doing_what_is_due_ends_where_the_host_has_what_is_desired(
    state: tuple[DesiredVolume | None, ActualVolume | None],
) -> None:
    check_that_it_converges(*state)


@given(volumes(), st.data())
def test_whatever_fails_on_the_way_it_ends_there_all_the_same(
    state: tuple[DesiredVolume | None, ActualVolume | None], endings: st.DataObject
) -> None:
    desired, actual = state
    for _ in range(10):
        actual, _busy = apply(desired, actual, endings)
    check_that_it_converges(desired, actual)


@given(volumes())
def test_no_device_goes_under_a_pod_and_nothing_wanted_is_unmounted(
    state: tuple[DesiredVolume | None, ActualVolume | None],
) -> None:
    desired, actual = state
    for operation in next_step(desired, actual, READY):
        if operation.verb in {Verb.UNMOUNT_DEVICE, Verb.DETACH}:
            assert desired is None
            assert actual is not None
            assert not actual.mounts
        if operation.verb is Verb.UNMOUNT and desired is not None:
            assert operation.pod_uid not in desired.mounts


@given(volumes())
def test_nothing_is_unmade_before_it_is_allowed(state: tuple[DesiredVolume | None, ActualVolume | None]) -> None:
    assert all(operation.verb.is_making for operation in next_step(*state, Readiness()))
