"""The promises of every type about what is not its volume's."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from volmgr.errors import OperationError
from volmgr.testing.contract.abilities import Ability, needs
from volmgr.testing.contract.attempts import (
    GROUP,
    differences,
    leftovers,
    mounted_with_data,
    place_for_a_mount,
    read_back,
)
from volmgr.testing.contract.subject import Subject
from volmgr.testing.volume import pod


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
