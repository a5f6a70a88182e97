"""The promises of types that give files to a group, or make them of objects."""

from __future__ import annotations

from volmgr.host.atomic import DATA
from volmgr.testing.contract.abilities import Ability, needs
from volmgr.testing.contract.attempts import GROUP
from volmgr.testing.contract.subject import Subject


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
