"""The promises of types whose volumes can grow."""

from __future__ import annotations

from volmgr.plugin import Expanded
from volmgr.testing.contract.abilities import Ability, needs
from volmgr.testing.contract.attempts import BOTH_SIDES, expand, killed, mounted_with_data, read_back
from volmgr.testing.contract.subject import Subject
from volmgr.testing.fault_host import When


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
