"""The promises of a volume type; each says which bug it prevents.

Each is a plain function of a Subject, so that the suite itself is tested with types that break it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from volmgr.errors import OperationError
from volmgr.host.atomic import DATA
from volmgr.model.names import is_qualified
from volmgr.plugin import (
    Detached,
    DeviceMounted,
    DeviceUnmounted,
    Expanded,
    Measurable,
    Measured,
    Mounted,
    Reconstructed,
    Unmounted,
    Where,
)
from volmgr.testing.contract.abilities import Ability, can, needs
from volmgr.testing.contract.attempts import (
    GROUP,
    MOST_LOOKS,
    assert_a_failure_leaves_nothing,
    assert_errors_are_of_volmgr,
    assert_it_can_be_repeated,
    assert_it_can_be_undone,
    assert_the_next_completes,
    assert_uncertain_stays_uncertain,
    attach,
    detach,
    device_identity,
    differences,
    expand,
    failing,
    killed,
    leftovers,
    lose_everything,
    measure,
    memory_of,
    mount,
    mount_device,
    mount_for_group,
    mounted_and_unmounted,
    mounted_with_data,
    nothing,
    place_for_a_mount,
    read_back,
    reconstruct,
    unmount,
    unmount_device,
    write_user_data,
)
from volmgr.testing.contract.subject import Step, Subject
from volmgr.testing.fault_host import When
from volmgr.testing.volume import pod

BOTH_SIDES = pytest.mark.parametrize("when", list(When))


def test_the_name_is_qualified_and_the_same_for_every_object(subject: Subject) -> None:
    """Prevents: a name that is no directory name, or identities that change when the daemon restarts."""
    one, other = subject.stage().volume, subject.stage().volume
    assert is_qualified(one.plugin.name)
    for text in (one.plugin.volume_name(one.spec), one.unique_name):
        assert text
        assert "\0" not in text
    # The same volume and host path twice: a source that names its stage's directory differs in that alone.
    again = replace(one, plugin=other.plugin)
    assert again.plugin.volume_name(again.spec) == one.plugin.volume_name(one.spec)
    assert again.unique_name == one.unique_name
    assert again.facets == one.facets


def test_a_volume_that_can_be_mounted_is_not_refused_beforehand(subject: Subject) -> None:
    """Prevents: a check that is stricter than the mount, and keeps a Pod waiting for what would have worked."""
    volume = subject.stage(Step.NEW).volume
    volume.plugin.check(volume.spec, volume.pod)
    if any(handle.where is not Where.POD for handle in volume.plugin.handles):  # `volmgr check` has no Pod for these
        volume.plugin.check(volume.spec, None)


def test_operations_give_values_of_their_own_type(subject: Subject) -> None:
    """Prevents: an operation that forgets to return, which pluggy takes for "not done by me"."""
    stage = subject.stage()
    assert isinstance(stage.volume.mount(stage.host), Mounted)
    if can(stage.volume, Ability.RECONSTRUCT):
        assert isinstance(stage.volume.reconstruct(stage.host), Reconstructed)
    if isinstance(stage.volume.plugin, Measurable):
        assert isinstance(stage.volume.measure(stage.host), Measured)
    assert isinstance(stage.volume.unmount(stage.host), Unmounted)


def test_a_second_mount_changes_nothing(subject: Subject) -> None:
    """Prevents: stacked mounts and reset modes, since every restart of the daemon mounts again."""
    stage = subject.stage()
    first = stage.volume.mount(stage.host)
    before = stage.state()
    assert stage.volume.mount(stage.host) == first
    assert stage.state() == before


def test_user_data_survives_a_second_mount(subject: Subject) -> None:
    """Prevents: the worst bug of all: a restart that empties a living Pod's volume."""
    stage = subject.stage()
    written = mounted_with_data(stage)
    stage.volume.mount(stage.host)
    assert read_back(stage, written) == written


def test_user_data_survives_a_second_mount_that_is_killed(subject: Subject) -> None:
    """Prevents: a repair that first takes away, and dies before it puts back."""
    for stage, faulty, written in killed(subject, mounted_with_data, mount, When.AFTER):
        stage.volume.mount(stage.host)
        assert read_back(stage, written) == written, f"killed after {faulty.trace[-1]}"


def test_nothing_is_left_after_an_unmount(subject: Subject) -> None:
    """Prevents: leaked mounts, markers and directories that fill a node over the months."""
    stage = subject.stage()
    before = stage.state()
    mounted_with_data(stage)
    stage.volume.unmount(stage.host)
    assert leftovers(stage, before) == {}


def test_a_second_unmount_is_a_success(subject: Subject) -> None:
    """Prevents: a teardown that never ends because its first success was not recorded."""
    stage = subject.stage()
    stage.volume.mount(stage.host)
    stage.volume.unmount(stage.host)
    before = stage.state()
    stage.volume.unmount(stage.host)
    assert stage.state() == before


def test_an_unmount_of_what_was_never_mounted_is_a_success(subject: Subject) -> None:
    """Prevents: a Pod that can never be deleted because its mount never came about."""
    stage = subject.stage()
    before = stage.state()
    stage.volume.unmount(stage.host)
    assert stage.state() == before


def test_an_unmount_needs_names_only(subject: Subject) -> None:
    """Prevents: volumes that are stuck for ever when the daemon was restarted between mount and unmount."""
    stage = subject.stage()
    before = stage.state()
    stage.volume.mount(stage.host)
    replace(stage.volume, plugin=subject.plugin()).unmount(stage.host)
    assert leftovers(stage, before) == {}


def test_objects_hold_no_state(subject: Subject) -> None:
    """Prevents: what works until the first restart: a dictionary of mounts in the plugin object or its class."""
    stage = subject.stage()
    plugin = stage.volume.plugin
    before = memory_of(plugin)
    stage.volume.mount(stage.host)
    stage.volume.mount(stage.host)
    assert memory_of(plugin) == before
    stage.volume.unmount(stage.host)
    assert memory_of(plugin) == before


def test_two_objects_of_a_type_are_interchangeable(subject: Subject) -> None:
    """Prevents: the same, hidden where it cannot be seen (a module's globals, a closure, a file handle)."""
    stage = subject.stage()
    before = stage.state()
    one, other = stage.volume, replace(stage.volume, plugin=subject.plugin())
    mounted = one.mount(stage.host)
    state = stage.state()
    assert other.mount(stage.host) == mounted
    assert stage.state() == state
    other.unmount(stage.host)
    assert leftovers(stage, before) == {}


@needs(Ability.DIRECTORY)
def test_pods_do_not_share_what_is_theirs(subject: Subject) -> None:
    """Prevents: paths without the Pod's UID: the second Pod's unmount takes the first one's volume away."""
    stage = subject.stage()
    neighbour = replace(stage.volume, pod=replace(stage.volume.pod, metadata=pod("neighbour").metadata))
    written = mounted_with_data(stage)
    before = stage.state()
    neighbour.mount(stage.host)
    neighbour.unmount(stage.host)
    assert read_back(stage, written) == written
    assert {path: what for path, what in stage.state().items() if "uid-neighbour" not in path} == before


@BOTH_SIDES
def test_a_killed_mount_is_completed_by_the_next(subject: Subject, when: When) -> None:
    """Prevents: half a volume that is taken for a whole one: no marker, no mode, no group after kill -9."""
    assert_the_next_completes(subject, nothing, mount_for_group, when)


@BOTH_SIDES
def test_a_killed_mount_can_be_unmounted(subject: Subject, when: When) -> None:
    """Prevents: leaks of Pods that were deleted while the daemon was down."""
    assert_it_can_be_undone(subject, mount_for_group, unmount, when)


@BOTH_SIDES
def test_a_killed_unmount_is_completed_by_the_next(subject: Subject, when: When) -> None:
    """Prevents: a teardown that, begun and cut off, finds its own leavings strange."""
    assert_the_next_completes(subject, mounted_with_data, unmount, when)


def test_a_failed_mount_leaves_nothing_or_says_that_it_is_uncertain(subject: Subject) -> None:
    """Prevents: leaks of failed mounts: what is not uncertain counts as gone, and is never unmounted."""
    assert_a_failure_leaves_nothing(subject, mount_for_group)


def test_a_failed_mount_is_mended_by_the_next(subject: Subject) -> None:
    """Prevents: a volume that one full disk spoils for good."""
    undisturbed = subject.stage()
    undisturbed.volume.mount(undisturbed.host)
    wanted = undisturbed.state()
    for stage, faulty, outcome in failing(subject, nothing, mount, OperationError("the disk is full")):
        stage.volume.mount(stage.host)
        assert stage.state() == wanted, f"{outcome!r} at {faulty.trace[-1]}"


def test_what_is_uncertain_is_never_reported_as_less(subject: Subject) -> None:
    """Prevents: a helper that was killed at its deadline, and may have mounted, reported as a clean failure."""
    assert_uncertain_stays_uncertain(subject, mount)


def test_a_failed_unmount_can_be_repeated(subject: Subject) -> None:
    """Prevents: a busy mount that is forgotten, or whose second teardown fails on what the first one did."""
    assert_it_can_be_repeated(subject, mounted_with_data, unmount)


def test_errors_are_those_of_volmgr(subject: Subject) -> None:
    """Prevents: tracebacks for what is nobody's bug: every failure of the host has an error that says who must act."""
    assert_errors_are_of_volmgr(subject, mounted_with_data, (mount_for_group, unmount, measure, reconstruct))


def test_nothing_but_the_volumes_own_paths_is_touched(subject: Subject) -> None:
    """Prevents: files beside the volume that nobody cleans up, and damage to other Pods' directories."""
    stage = subject.stage()
    before = stage.state()
    mounted = stage.volume.mount(stage.host)
    during = stage.state()
    stage.volume.unmount(stage.host)
    for changed in (differences(before, during), differences(during, stage.state())):
        assert [path for path in changed if not stage.is_own(path, mounted)] == []


@needs(Ability.DIRECTORY)
def test_mounts_of_others_below_are_taken_away_and_never_followed(subject: Subject) -> None:
    """Prevents: kubernetes 115054 (busy for ever), and a recursive removal that eats what was mounted there."""
    stage = subject.stage()
    before = stage.state()
    path = stage.path(stage.volume.mount(stage.host))
    foreign = stage.top / "foreign"
    stage.host.files.ensure_directory(foreign, 0o755)
    stage.host.files.write(foreign / "precious", b"not the volume's")
    before |= {path: what for path, what in stage.state().items() if path.startswith("TOP/foreign")}
    inner = place_for_a_mount(stage, path)
    if inner is not None:
        stage.host.mounts.ensure_bound(foreign, inner)
    stage.volume.unmount(stage.host)
    assert leftovers(stage, before) == {}
    assert stage.host.files.read(foreign / "precious") == b"not the volume's"


@needs(Ability.DIRECTORY)
def test_links_in_the_volume_are_not_followed(subject: Subject) -> None:
    """Prevents: a container that plants a link and has the node delete, or give away, what it points to."""
    stage = subject.stage()
    path = stage.path(stage.volume.mount(stage.host))
    precious = stage.top / "precious"
    stage.host.files.write(precious, b"not the volume's", 0o600)
    with suppress(OperationError):  # hugetlbfs has no links
        stage.host.files.ensure_symlink(path / "to-file", str(precious))
        stage.host.files.ensure_symlink(path / "to-directory", str(stage.top))
    before = stage.host.files.info(precious)
    stage.volume.mount(stage.host, fs_group=GROUP)
    stage.volume.unmount(stage.host)
    assert stage.host.files.info(precious) == before
    assert stage.host.files.read(precious) == b"not the volume's"


def test_what_a_reboot_took_is_made_again(subject: Subject) -> None:
    """Prevents: a ready marker that outlives the mount it speaks of."""
    stage = subject.stage()
    stage.volume.mount(stage.host, fs_group=GROUP)
    wanted = stage.state()
    lose_everything(stage)
    stage.volume.set_up(stage.host)
    stage.volume.mount(stage.host, fs_group=GROUP)
    assert stage.state() == wanted


@needs(Ability.RECONSTRUCT)
def test_a_volume_is_rebuilt_from_its_directory(subject: Subject) -> None:
    """Prevents: volumes of deleted Pods that stay mounted because a restarted daemon cannot name them."""
    stage = subject.stage()
    before = stage.state()
    stage.volume.mount(stage.host)
    after = stage.state()
    rebuilt = stage.volume.reconstruct(stage.host).spec
    assert stage.state() == after
    assert rebuilt.name == stage.volume.name
    assert rebuilt.type in {handle.field for handle in stage.volume.plugin.handles}
    assert isinstance(rebuilt.source, type(stage.volume.source))
    assert stage.volume.name_of(rebuilt) == stage.volume.unique_name
    replace(stage.volume, plugin=subject.plugin(), source=rebuilt.source).unmount(stage.host)
    assert leftovers(stage, before) == {}


@needs(Ability.GROUP)
def test_the_group_of_the_pod_gets_the_volume_where_the_type_says_that_it_does_it(subject: Subject) -> None:
    """Prevents: `fs_group=PLUGIN` in the facets and nothing of it in mount(): neither core nor plugin does it."""
    stage = subject.stage()
    path = stage.path(stage.volume.mount(stage.host, fs_group=GROUP))
    info = stage.host.files.info(path)
    assert info is not None
    assert info.gid == GROUP


@needs(Ability.PAYLOAD)
def test_files_that_are_made_from_objects_are_put_right_by_the_next_mount(subject: Subject) -> None:
    """Prevents: a ready marker that is believed more than the files: what a container did to them stays for ever."""
    stage = subject.stage()
    files = stage.host.files
    path = stage.path(stage.volume.mount(stage.host, fs_group=GROUP))
    wanted = stage.state()
    for name, link in files.links(path).items():
        if name == DATA and link is not None:
            files.write(path / link / "meddled", b"with")
        elif link is not None:
            files.remove_file(path / name)
    assert stage.state() != wanted
    stage.volume.mount(stage.host, fs_group=GROUP)
    assert stage.state() == wanted


@needs(Ability.MEASURE)
def test_usage_is_measured_sanely(subject: Subject) -> None:
    """Prevents: evictions by nonsense: negative, endless or forgotten usage."""
    stage = subject.stage()
    mounted = stage.volume.mount(stage.host)
    before = stage.volume.measure(stage.host)
    written = write_user_data(stage, mounted, size=16384)
    after = stage.volume.measure(stage.host)
    for measured in (before, after):
        assert 0 <= measured.used <= measured.capacity
        assert 0 <= measured.available <= measured.capacity
        assert 0 <= measured.inodes_free <= measured.inodes
        assert measured.inodes_used >= 0
    if not stage.is_named:  # others write to the disk that holds it
        assert after.used - before.used >= sum(map(len, written.values()))


# Of types whose volumes are attached, mounted once for the node, or expanded


@needs(Ability.ATTACH)
def test_attaching_and_detaching_give_values_of_their_own_type(subject: Subject) -> None:
    """Prevents: a detach that forgets to return, which counts as failed: it is repeated for ever."""
    attached = subject.stage(Step.ATTACHED)
    assert attached.volume.device_path
    assert isinstance(attached.volume.detach(attached.host), Detached)


@needs(Ability.ATTACH)
def test_what_is_detached_is_given_back(subject: Subject) -> None:
    """Prevents: a detach that says yes and keeps the storage, which no other node can have then."""
    stage = subject.stage(Step.ATTACHED)
    device = Path(stage.volume.device_path)
    identity = device_identity(stage, device)

    def is_given_back() -> bool:
        stage.volume.detach(stage.host)
        return identity is None or device_identity(stage, device) != identity

    assert any(is_given_back() for _ in range(MOST_LOOKS)), f"{device} is still attached"


@needs(Ability.ATTACH)
def test_attaching_again_gives_the_same_device(subject: Subject) -> None:
    """Prevents: a second device for one volume after each restart, one of which is never detached."""
    stage = subject.stage(Step.NEW)
    attached = stage.volume.attach(stage.host)
    assert attached.attach(stage.host) == attached
    assert attached.device_path
    for _ in range(2):
        attached.detach(stage.host)
    replace(stage.volume, plugin=subject.plugin()).detach(stage.host)


@needs(Ability.ATTACH)
@BOTH_SIDES
def test_a_killed_attach_is_completed_by_the_next(subject: Subject, when: When) -> None:
    """Prevents: storage that is attached for ever and used by nobody, since nobody knows by which device."""
    undisturbed = subject.stage()
    undisturbed.volume.mount(undisturbed.host)
    wanted = undisturbed.state()
    for stage, faulty, _ in killed(subject, nothing, attach, when, Step.NEW):
        stage.volume.set_up(stage.host).mount(stage.host)
        assert stage.state() == wanted, f"killed {when} {faulty.trace[-1]}"


@needs(Ability.ATTACH)
@BOTH_SIDES
def test_a_killed_detach_is_completed_by_the_next(subject: Subject, when: When) -> None:
    """Prevents: a detach that, begun and cut off, finds its own leavings strange: the node keeps the storage."""
    undisturbed = subject.stage(Step.ATTACHED)
    undisturbed.volume.detach(undisturbed.host)
    wanted = undisturbed.state()
    for stage, faulty, _ in killed(subject, nothing, detach, when, Step.ATTACHED):
        stage.volume.detach(stage.host)
        assert stage.state() == wanted, f"killed {when} {faulty.trace[-1]}"
        assert stage.volume.attach(stage.host).device_path


@needs(Ability.ATTACH)
def test_what_is_uncertain_of_an_attachment_is_never_reported_as_less(subject: Subject) -> None:
    """Prevents: an attach that was cut off at its deadline, reported as if nothing had happened."""
    assert_uncertain_stays_uncertain(subject, attach, Step.NEW)


@needs(Ability.ATTACH)
def test_errors_of_attaching_and_detaching_are_those_of_volmgr(subject: Subject) -> None:
    """Prevents: tracebacks for what is nobody's bug, and detaches that nobody repeats."""
    assert_errors_are_of_volmgr(subject, nothing, (attach,), Step.NEW)
    assert_errors_are_of_volmgr(subject, nothing, (detach,), Step.ATTACHED)


@needs(Ability.DEVICE)
def test_device_operations_give_values_of_their_own_type(subject: Subject) -> None:
    """Prevents: a device operation that forgets to return, which pluggy takes for "not done by me"."""
    stage = subject.stage(Step.ATTACHED)
    assert isinstance(stage.volume.mount_device(stage.host), DeviceMounted)
    assert isinstance(stage.volume.unmount_device(stage.host), DeviceUnmounted)


@needs(Ability.DEVICE)
def test_a_second_device_mount_changes_nothing(subject: Subject) -> None:
    """Prevents: stacked mounts, and a file system that is made anew at the next start."""
    stage = subject.stage()
    written = mounted_with_data(stage)
    before = stage.state()
    first = stage.volume.mount_device(stage.host)
    assert stage.volume.mount_device(stage.host) == first
    assert stage.state() == before
    assert read_back(stage, written) == written


@needs(Ability.DEVICE)
def test_user_data_survives_its_device_s_unmount(subject: Subject) -> None:
    """Prevents: a device that is formatted again because it is not mounted."""
    stage = subject.stage()
    written = mounted_and_unmounted(stage)
    stage.volume.unmount_device(stage.host)
    stage.volume.set_up(stage.host)
    stage.volume.mount(stage.host)
    assert read_back(stage, written) == written


@needs(Ability.DEVICE)
def test_nothing_is_left_after_a_device_unmount(subject: Subject) -> None:
    """Prevents: node mounts that nobody takes away, and that keep their device from others."""
    stage = subject.stage(Step.ATTACHED)
    before = stage.state()
    ready = replace(stage, volume=stage.volume.set_up(stage.host))
    mounted_and_unmounted(ready)
    ready.volume.unmount_device(ready.host)
    assert leftovers(ready, before) == {}
    ready.volume.unmount_device(ready.host)
    assert leftovers(ready, before) == {}


@needs(Ability.DEVICE)
def test_a_device_unmount_needs_names_only(subject: Subject) -> None:
    """Prevents: node mounts that are stuck for ever when the daemon was restarted, or that were never made."""
    stage = subject.stage(Step.ATTACHED)
    before = stage.state()
    stage.volume.unmount_device(stage.host)
    assert leftovers(stage, before) == {}
    ready = stage.volume.set_up(stage.host)
    replace(ready, plugin=subject.plugin()).unmount_device(stage.host)
    assert leftovers(stage, before) == {}


@needs(Ability.DEVICE)
@BOTH_SIDES
def test_a_killed_device_mount_is_completed_by_the_next(subject: Subject, when: When) -> None:
    """Prevents: half a node mount, or half a file system, that is taken for a whole one, or refused for ever."""
    assert_the_next_completes(subject, nothing, mount_device, when, Step.ATTACHED)


@needs(Ability.DEVICE)
@BOTH_SIDES
def test_a_killed_device_mount_can_be_unmounted(subject: Subject, when: When) -> None:
    """Prevents: leaks of Pods that were deleted while the daemon was down."""
    assert_it_can_be_undone(subject, mount_device, unmount_device, when, Step.ATTACHED)


@needs(Ability.DEVICE)
@BOTH_SIDES
def test_a_killed_device_unmount_is_completed_by_the_next(subject: Subject, when: When) -> None:
    """Prevents: a teardown that, begun and cut off, finds its own leavings strange."""
    assert_the_next_completes(subject, mounted_and_unmounted, unmount_device, when)


@needs(Ability.DEVICE)
def test_a_failed_device_mount_leaves_nothing_or_says_that_it_is_uncertain(subject: Subject) -> None:
    """Prevents: node mounts that count as gone, and keep their device in use."""
    assert_a_failure_leaves_nothing(subject, mount_device, Step.ATTACHED)


@needs(Ability.DEVICE)
def test_a_failed_device_unmount_can_be_repeated(subject: Subject) -> None:
    """Prevents: a busy node mount that is forgotten: its device is detached under it."""
    assert_it_can_be_repeated(subject, mounted_and_unmounted, unmount_device)


@needs(Ability.DEVICE)
def test_what_is_uncertain_of_a_device_is_never_reported_as_less(subject: Subject) -> None:
    """Prevents: mkfs that was killed at its deadline, reported as if nothing had happened."""
    assert_uncertain_stays_uncertain(subject, mount_device, Step.ATTACHED)


def test_errors_of_device_operations_are_those_of_volmgr(subject: Subject) -> None:
    """Prevents: tracebacks for what is nobody's bug."""
    assert_errors_are_of_volmgr(subject, mounted_and_unmounted, (mount_device, unmount_device, expand))


@needs(Ability.BLOCK)
def test_a_block_volume_leads_to_a_block_device(subject: Subject) -> None:
    """Prevents: a Pod that is given a directory, or nothing, where it asked for a device."""
    stage = subject.stage()
    mounted = stage.volume.mount(stage.host)
    for path in (Path(mounted.device_path or stage.volume.device_path), stage.target):
        info = stage.host.files.info(path, follow=True)
        assert info is not None
        assert info.kind == "block"


@needs(Ability.BLOCK)
def test_a_block_volume_is_measured_by_its_device(subject: Subject) -> None:
    """Prevents: the size of /dev, which holds the link, taken for that of the volume."""
    stage = subject.stage()
    if not isinstance(stage.volume.plugin, Measurable):
        return
    mounted = stage.volume.mount(stage.host)
    size = stage.host.block.size(Path(mounted.device_path or stage.volume.device_path))
    assert stage.volume.measure(stage.host).capacity == size


@needs(Ability.EXPAND)
def test_an_expansion_gives_a_size_and_changes_no_mount(subject: Subject) -> None:
    """Prevents: growth that takes the volume away from its Pod, or that is never known to be over."""
    stage = subject.stage()
    written = mounted_with_data(stage)
    before = stage.state()
    first = stage.volume.expand(stage.host, new_size=1 << 20)
    assert isinstance(first, Expanded)
    assert first.size > 0
    assert stage.volume.expand(stage.host, new_size=1 << 20) == first
    assert stage.state() == before
    assert read_back(stage, written) == written


@needs(Ability.EXPAND)
@BOTH_SIDES
def test_a_killed_expansion_is_completed_by_the_next(subject: Subject, when: When) -> None:
    """Prevents: a volume that has half its new size, and is taken for one that has it all."""
    undisturbed = subject.stage()
    mounted_with_data(undisturbed)
    wanted = undisturbed.volume.expand(undisturbed.host, new_size=1 << 20)
    for stage, faulty, written in killed(subject, mounted_with_data, expand, when):
        assert stage.volume.expand(stage.host, new_size=1 << 20) == wanted, f"killed {when} {faulty.trace[-1]}"
        assert read_back(stage, written) == written
