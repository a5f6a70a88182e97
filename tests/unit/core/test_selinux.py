"""Which SELinux label a volume is mounted with, and what keeps it from having one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.values import NAME, PV, has, want, wish
from volmgr.actual import Facts, settle
from volmgr.desired import DesiredStateOfWorld
from volmgr.errors import TransientError
from volmgr.host.mount_options import split_options
from volmgr.model.meta import ObjectMeta
from volmgr.model.pod import Container, Pod, PodSecurityContext, PodSpec, SecurityContext, SELinuxOptions, VolumeMount
from volmgr.model.selinux import (
    DefaultLabel,
    Labelling,
    LabelWish,
    NoPolicy,
    Trouble,
    access_mode,
    context_option,
    mounted_label,
)
from volmgr.model.volume import PersistentVolume, Presence
from volmgr.operations import Ending, Operation, Verb

POLICY = DefaultLabel("system_u:object_r:container_file_t:s0")
FILES = "system_u:object_r:container_file_t"
ON = Labelling(policy=POLICY)
ONE_POD_ONLY = Labelling(policy=POLICY, any_access_mode=False)
RWOP_PV = replace(PV, access_modes=("ReadWriteOncePod",))
RWX_PV = replace(PV, access_modes=("ReadWriteMany",))


def container(name: str, options: SELinuxOptions | None = None, volume: str = "data") -> Container:
    """Give a container that mounts a volume."""
    mounts = (VolumeMount(name=volume, mount_path="/data"),)
    return Container(name=name, volume_mounts=mounts, security_context=SecurityContext(se_linux_options=options))


def pod(*containers: Container, whole: SELinuxOptions | None = None, policy: str = "", init: int = 0) -> Pod:
    """Give a Pod; the first `init` containers are init containers."""
    context = PodSecurityContext(se_linux_options=whole, se_linux_change_policy=policy)
    spec = PodSpec(containers=containers[init:], init_containers=containers[:init], security_context=context)
    return Pod(metadata=ObjectMeta(name="web", uid="u1"), spec=spec)


def asked(pod: Pod, labelling: Labelling = ON, pv: PersistentVolume | None = RWOP_PV) -> LabelWish:
    """Give what a Pod asks of its volume `data`."""
    return labelling.wish(pod, ("data",), pv, supported=True)


LEVEL = SELinuxOptions(level="s0:c1,c2")
OTHER = SELinuxOptions(level="s0:c3,c4")
FULL = SELinuxOptions(user="system_u", role="object_r", type="container_t", level="s0:c1,c2")


def test_a_whole_label_of_all_containers_is_the_volume_s() -> None:
    assert asked(pod(container("a", FULL), container("b", FULL))).mount_label == f"{FILES}:s0:c1,c2"


def test_a_level_alone_is_completed_from_the_policy() -> None:
    assert asked(pod(container("a", OTHER))).mount_label == f"{FILES}:s0:c3,c4"


def test_the_type_of_a_process_is_not_that_of_its_files_but_the_user_is() -> None:
    options = SELinuxOptions(user="staff_u", role="staff_r", type="my_container_t", level="s0")
    assert asked(pod(container("a", options))).mount_label == "staff_u:object_r:container_file_t:s0"


def test_a_container_s_options_override_its_pod_s() -> None:
    assert asked(pod(container("a", OTHER), whole=LEVEL)).label == f"{FILES}:s0:c3,c4"
    assert asked(pod(container("a"), whole=LEVEL)).label == f"{FILES}:s0:c1,c2"


def test_containers_that_do_not_mount_the_volume_do_not_count() -> None:
    assert asked(pod(container("a", LEVEL), container("b", OTHER, volume="else"))).label == f"{FILES}:s0:c1,c2"


@pytest.mark.parametrize("init", [0, 1])
def test_two_labels_in_one_pod_are_an_error_that_names_both(init: int) -> None:
    found = asked(pod(container("a", LEVEL), container("b", OTHER), init=init))
    assert (found.mount_label, found.trouble, found.applied) == ("", Trouble.POD, True)
    for part in ("multiple SELinux labels", "c1,c2 (container a)", "c3,c4 (container b)", "seLinuxChangePolicy"):
        assert part in found.problem


def test_a_level_that_the_runtime_will_choose_is_no_label() -> None:
    assert asked(pod(container("a", SELinuxOptions(type="spc_t")))) == LabelWish(applied=True)
    mixed = pod(container("a", LEVEL), container("b", SELinuxOptions(type="spc_t")))
    assert asked(mixed).trouble is Trouble.POD


@pytest.mark.parametrize(
    "options",
    [
        SELinuxOptions(level='s0",uid=0,x="'),
        SELinuxOptions(level="s0\nc1"),
        SELinuxOptions(user="a:b", level="s0"),
        SELinuxOptions(role="r r", level="s0"),
        SELinuxOptions(type="t,t", level="s0"),
    ],
)
def test_what_is_no_label_is_an_error_and_never_an_option(options: SELinuxOptions) -> None:
    found = asked(pod(container("a", options)))
    assert (found.mount_label, found.trouble) == ("", Trouble.CONTAINER)
    assert "seLinuxOptions." in found.problem


def test_nothing_is_labelled_where_nobody_asks_or_nobody_can() -> None:
    wanting = pod(container("a", LEVEL))
    assert asked(pod(container("a"))).label == ""
    assert asked(wanting, Labelling(policy=NoPolicy())).label == ""
    assert asked(wanting, Labelling.of("", any_access_mode=True)).label == ""
    assert asked(pod(container("a", LEVEL), policy="Recursive")) == LabelWish()
    assert ON.wish(wanting, ("data",), RWOP_PV, supported=False) == LabelWish()


def test_a_volume_of_any_access_mode_is_labelled_unless_that_is_turned_off_and_inline_ones_never() -> None:
    wanting = pod(container("a", LEVEL))
    assert asked(wanting, ON, RWX_PV).mount_label == f"{FILES}:s0:c1,c2"
    assert asked(wanting, ONE_POD_ONLY, RWOP_PV).mount_label == f"{FILES}:s0:c1,c2"
    both = replace(PV, access_modes=("ReadWriteOncePod", "ReadWriteOnce"))
    for pv in (RWX_PV, both):
        assert (asked(wanting, ONE_POD_ONLY, pv).mount_label, asked(wanting, ONE_POD_ONLY, pv).label) == (
            "",
            f"{FILES}:s0:c1,c2",
        )
    assert asked(wanting, ON, None).mount_label == ""


def test_the_option_has_quotes_since_levels_have_commas() -> None:
    assert context_option(f"{FILES}:s0:c1,c2") == (f'context="{FILES}:s0:c1,c2"',)
    assert context_option("") == ()


@pytest.mark.parametrize(
    ("modes", "short"),
    [
        (("ReadWriteOnce", "ReadWriteMany"), "RWX"),
        (("ReadWriteOnce", "ReadOnlyMany"), "ROX"),
        (("ReadWriteOnce",), "RWO"),
        (("ReadWriteOncePod",), "RWOP"),
        ((), ""),
    ],
)
def test_metrics_name_the_most_permissive_access_mode(modes: tuple[str, ...], short: str) -> None:
    assert access_mode(replace(PV, access_modes=modes)) == short
    assert access_mode(None) == "inline"


texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["", "s0", "s0:c1,c2", 'a"b', "staff_u"])
some_options = st.none() | st.builds(SELinuxOptions, user=texts, role=texts, type=texts, level=texts)


@given(st.lists(some_options, max_size=4), some_options, st.booleans())
def test_whatever_a_pod_asks_it_is_one_mount_option_or_none(
    each: list[SELinuxOptions | None], whole: SELinuxOptions | None, everywhere: bool
) -> None:
    wanting = pod(*(container(f"c{number}", options) for number, options in enumerate(each)), whole=whole)
    found = asked(wanting, Labelling(policy=POLICY, any_access_mode=everywhere))
    option = context_option(found.mount_label)
    assert split_options(option) == list(option), "a label cannot bring another option with it"
    assert not (found.problem and found.mount_label)
    assert bool(found.problem) == (found.trouble is not None)


@given(
    st.lists(st.sampled_from([None, LEVEL, OTHER]), max_size=4).flatmap(
        lambda each: st.tuples(st.just(each), st.permutations(each))
    )
)
def test_the_order_of_containers_does_not_matter(
    orders: tuple[list[SELinuxOptions | None], list[SELinuxOptions | None]],
) -> None:
    one, other = (asked(pod(*(container(f"c{n}", options) for n, options in enumerate(each)))) for each in orders)
    assert (one.label, one.trouble, one.applied) == (other.label, other.trouble, other.applied)


def test_a_second_pod_with_another_label_is_refused_and_the_first_one_s_stays() -> None:
    world = DesiredStateOfWorld()
    one, other = (LabelWish(label=label, applied=True) for label in ("X", "Y"))
    world.add(replace(want(), selinux_label="X"), replace(wish("ua"), labelling=one))
    with pytest.raises(TransientError, match="label X for Pod default/pod-ua, and this Pod wants Y") as caught:
        world.add(replace(want(), selinux_label="Y"), replace(wish("ub"), labelling=other))
    assert caught.value.waits_for == NAME
    (volume,) = world
    assert (set(volume.mounts), volume.selinux_label) == ({"ua"}, "X")
    with pytest.raises(TransientError, match="this Pod wants none"):
        world.add(want(), replace(wish("ub"), labelling=LabelWish(applied=True)))
    assert world.add(replace(want(), selinux_label="X"), replace(wish("ub"), labelling=one))


def test_labels_that_are_not_applied_exclude_nobody() -> None:
    world = DesiredStateOfWorld()
    for uid, label in (("ua", "X"), ("ub", "Y"), ("uc", "")):
        assert world.add(want(), replace(wish(uid), labelling=LabelWish(label=label)))
    (volume,) = world
    assert (len(volume.mounts), volume.selinux_label) == (3, "")


def test_a_mounted_device_has_the_label_that_it_was_mounted_with_and_so_has_the_pod_s_mount() -> None:
    mounting = Operation(Verb.MOUNT_DEVICE, NAME)
    before = replace(has(device=Presence.NO), device_label="of an earlier mount")
    labelled = settle(before, mounting, Ending.DONE, Facts(label="X"))
    assert labelled is not None
    assert labelled.device_label == "X"
    plain = settle(before, mounting, Ending.DONE, Facts())
    assert plain is not None
    assert plain.device_label == ""
    uncertain = settle(before, mounting, Ending.UNCERTAIN, Facts(label="Y"))
    assert uncertain is not None
    assert (uncertain.device, uncertain.device_label) == (Presence.UNCERTAIN, "Y")
    mounted = settle(labelled, Operation(Verb.MOUNT, NAME, "u1"), Ending.DONE, Facts(label="X"))
    assert mounted is not None
    assert mounted.mounts["u1"].label == "X"


@pytest.mark.parametrize("label", ["", f"{FILES}:s0", f"{FILES}:s0:c1,c2"])
def test_the_label_of_a_mount_is_read_from_the_mount_table(label: str) -> None:
    options = ["rw", *context_option(label), "stripe=4"]
    assert mounted_label(",".join(options).split(",")) == label
    assert mounted_label(["rw", f"context={FILES}:s0", 'rootcontext="a:b:c"']) == f"{FILES}:s0"
    assert mounted_label(['rootcontext="a:b:c"', 'fscontext="a:b:c"']) == ""
