"""The promises of volumes that are used as devices."""

from __future__ import annotations

from pathlib import Path

from volmgr.plugin import Measurable
from volmgr.testing.contract.abilities import Ability, needs
from volmgr.testing.contract.subject import Subject


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
