"""The promises of every type when the daemon is killed, or the host fails."""

from __future__ import annotations

from volmgr.errors import OperationError
from volmgr.testing.contract.attempts import (
    BOTH_SIDES,
    assert_a_failure_leaves_nothing,
    assert_errors_are_of_volmgr,
    assert_it_can_be_repeated,
    assert_it_can_be_undone,
    assert_the_next_completes,
    assert_uncertain_stays_uncertain,
    failing,
    measure,
    mount,
    mount_for_group,
    mounted_with_data,
    nothing,
    reconstruct,
    unmount,
)
from volmgr.testing.contract.subject import Subject
from volmgr.testing.fault_host import When


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
