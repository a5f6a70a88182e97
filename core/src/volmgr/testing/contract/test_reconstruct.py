"""The promise of types that can rebuild a volume from disk."""

from __future__ import annotations

from dataclasses import replace

from volmgr.testing.contract.abilities import Ability, needs
from volmgr.testing.contract.attempts import leftovers
from volmgr.testing.contract.subject import Subject


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
