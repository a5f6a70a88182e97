"""The promises of types whose volumes are mounted once per node."""

from __future__ import annotations

from dataclasses import replace

from volmgr.plugin import DeviceMounted, DeviceUnmounted
from volmgr.testing.contract.abilities import Ability, needs
from volmgr.testing.contract.attempts import (
    BOTH_SIDES,
    assert_a_failure_leaves_nothing,
    assert_errors_are_of_volmgr,
    assert_it_can_be_repeated,
    assert_it_can_be_undone,
    assert_the_next_completes,
    assert_uncertain_stays_uncertain,
    expand,
    found,
    leftovers,
    mount_device,
    mounted_and_unmounted,
    mounted_with_data,
    nothing,
    read_back,
    unmount_device,
)
from volmgr.testing.contract.subject import Step, Subject
from volmgr.testing.fault_host import When


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


@needs(Ability.FOUND)
def test_a_device_is_found_without_its_pod(subject: Subject) -> None:
    """Prevents: node mounts that stay for ever where a kubelet, or a daemon whose records are lost, had ended."""
    stage = subject.stage(Step.ATTACHED)
    before = stage.state()
    assert found(stage) == ()
    ready = replace(stage, volume=stage.volume.set_up(stage.host))
    after = stage.state()
    devices, target = found(ready), ready.volume.device_target(ready.host)
    assert stage.state() == after
    assert len(devices) <= 1
    assert devices or target is None or not ready.host.mounts.is_mount_point(target)
    for device in devices:
        assert (device.target, device.problem) == (target, "")
        assert device.spec is not None
        assert isinstance(device.spec.source, type(ready.volume.source))
        assert ready.volume.name_of(device.spec) == ready.volume.unique_name
    replace(ready.volume, plugin=subject.plugin()).unmount_device(ready.host)
    assert leftovers(stage, before) == {}
    assert found(stage) == ()


def test_errors_of_device_operations_are_those_of_volmgr(subject: Subject) -> None:
    """Prevents: tracebacks for what is nobody's bug."""
    assert_errors_are_of_volmgr(subject, mounted_and_unmounted, (mount_device, unmount_device, expand))
