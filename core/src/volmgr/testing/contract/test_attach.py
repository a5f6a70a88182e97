"""The promises of types whose volumes are attached."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from volmgr.plugin import Detached
from volmgr.testing.contract.abilities import Ability, needs
from volmgr.testing.contract.attempts import (
    BOTH_SIDES,
    MOST_LOOKS,
    assert_errors_are_of_volmgr,
    assert_uncertain_stays_uncertain,
    attach,
    detach,
    device_identity,
    killed,
    nothing,
)
from volmgr.testing.contract.subject import Step, Subject
from volmgr.testing.fault_host import When


@needs(Ability.ATTACH)
def test_attaching_and_detaching_give_values_of_their_own_type(subject: Subject) -> None:
    """Prevents: a detach that forgets to return, which counts as failed: it is repeated for ever."""
    attached = subject.stage(Step.ATTACHED)
    assert attached.volume.device_path or attached.volume.has_device  # or its device comes when it is mounted
    assert isinstance(attached.volume.detach(attached.host), Detached)


@needs(Ability.ATTACH)
def test_what_is_detached_is_given_back(subject: Subject) -> None:
    """Prevents: a detach that says yes and keeps the storage, which no other node can have then."""
    stage = subject.stage(Step.ATTACHED)
    if not stage.volume.device_path:
        return  # nothing was attached yet: its device comes, and goes, with the node's mount
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
    assert attached.device_path or attached.has_device
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
