"""The promise of types whose volumes can be measured."""

from __future__ import annotations

from volmgr.testing.contract.abilities import Ability, needs
from volmgr.testing.contract.attempts import write_user_data
from volmgr.testing.contract.subject import Subject


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
    if not stage.is_named and not stage.is_share:  # others write to the disk that holds it
        assert after.used - before.used >= sum(map(len, written.values()))
