"""The promises of every type: who a volume is, and that mounting and unmounting can be repeated, by any object."""

from __future__ import annotations

from dataclasses import replace

from volmgr.model.names import is_qualified
from volmgr.plugin import Measurable, Measured, Mounted, Reconstructed, Unmounted, Where
from volmgr.testing.contract.abilities import Ability, can
from volmgr.testing.contract.attempts import (
    GROUP,
    killed,
    leftovers,
    lose_everything,
    memory_of,
    mount,
    mounted_with_data,
    read_back,
)
from volmgr.testing.contract.subject import Step, Subject
from volmgr.testing.fault_host import When


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


def test_what_a_reboot_took_is_made_again(subject: Subject) -> None:
    """Prevents: a ready marker that outlives the mount it speaks of."""
    stage = subject.stage()
    stage.volume.mount(stage.host, fs_group=GROUP)
    wanted = stage.state()
    lose_everything(stage)
    stage.volume.set_up(stage.host)
    stage.volume.mount(stage.host, fs_group=GROUP)
    assert stage.state() == wanted
