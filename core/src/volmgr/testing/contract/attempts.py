"""What the promises are made of: how a volume is used, killed and failed, and how its stage must look then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from volmgr.errors import BusyError, OperationError, TransientError, UncertainError, VolmgrError
from volmgr.host.interface import Host
from volmgr.plugin import DeviceMountable, Expandable, FoundDevice, Measurable, Mounted, VolumePlugin
from volmgr.testing.contract.abilities import Ability, can
from volmgr.testing.contract.subject import MOUNT, Stage, Step, Subject
from volmgr.testing.fault_host import Fault, FaultHost, Killed, When

GROUP = 4711
"""A group that nothing on a host has."""

_MOST_CALLS = 1000

MOST_LOOKS = 100
"""How often it is tried whether a device is gone: who looks at a loop device just then keeps it that long."""

BOTH_SIDES = pytest.mark.parametrize("when", list(When))
"""Once with the host killed before the call that is cut off, once after it."""

Written = dict[Path, bytes]
Action = Callable[[Stage, Host], object]


def nothing(_stage: Stage) -> Written:
    """Begin with a fresh host."""
    return {}


def mounted_with_data(stage: Stage) -> Written:
    """Begin with a mounted volume that the Pod has written to."""
    return write_user_data(stage, stage.volume.mount(stage.host))


def mount(stage: Stage, host: Host) -> object:
    """Mount."""
    return stage.volume.mount(host)


def mount_for_group(stage: Stage, host: Host) -> object:
    """Mount, and give the files to a group."""
    return stage.volume.mount(host, fs_group=GROUP)


def unmount(stage: Stage, host: Host) -> object:
    """Unmount."""
    return stage.volume.unmount(host)


def mounted_and_unmounted(stage: Stage) -> Written:
    """Begin with what a Pod has used and left; gives what it wrote."""
    written = mounted_with_data(stage)
    stage.volume.unmount(stage.host)
    return written


def attach(stage: Stage, host: Host) -> object:
    """Attach."""
    return stage.volume.attach(host)


def detach(stage: Stage, host: Host) -> None:
    """Undo that."""
    stage.volume.detach(host)


def mount_device(stage: Stage, host: Host) -> object:
    """Mount once for the node."""
    return stage.volume.mount_device(host)


def unmount_device(stage: Stage, host: Host) -> object:
    """Undo that."""
    return stage.volume.unmount_device(host)


def found(stage: Stage) -> tuple[FoundDevice[Any], ...]:
    """Find the node's mounts of the volume's type."""
    return cast("DeviceMountable[Any]", stage.volume.plugin).devices(stage.host)


def expand(stage: Stage, host: Host) -> object:
    """Expand, if the type can."""
    return stage.volume.expand(host) if isinstance(stage.volume.plugin, Expandable) else None


def measure(stage: Stage, host: Host) -> object:
    """Measure, if the type can."""
    return stage.volume.measure(host) if isinstance(stage.volume.plugin, Measurable) else None


def reconstruct(stage: Stage, host: Host) -> object:
    """Rebuild, if there is a directory to do it from."""
    return stage.volume.reconstruct(host) if can(stage.volume, Ability.RECONSTRUCT) else None


def killed(
    subject: Subject, begin: Callable[[Stage], Written], action: Action, when: When, step: Step = Step.SET_UP
) -> Iterator[tuple[Stage, FaultHost, Written]]:
    """Kill an action at each of its host calls in turn, on a fresh host each; go on with a new object of the type."""
    for number in range(1, _MOST_CALLS):
        stage = subject.stage(step)
        written = begin(stage)
        faulty = FaultHost(stage.host, [Fault.kill(number, when)])
        try:
            action(stage, faulty)
        except Killed:
            yield replace(stage, volume=replace(stage.volume, plugin=subject.plugin())), faulty, written
            continue
        assert not faulty.dead, "the plugin survived its own death: it catches BaseException"
        return
    pytest.fail(f"one operation made {_MOST_CALLS} host calls")


def failing(
    subject: Subject,
    begin: Callable[[Stage], Written],
    action: Action,
    error: VolmgrError,
    when: When = When.BEFORE,
    step: Step = Step.SET_UP,
) -> Iterator[tuple[Stage, FaultHost, object]]:
    """Let each host call of an action fail in turn, on a fresh host each; give the outcome, or the error."""
    for number in range(1, _MOST_CALLS):
        stage = subject.stage(step)
        begin(stage)
        faulty = FaultHost(stage.host, [Fault(number, error, when)])
        outcome: object
        try:
            outcome = action(stage, faulty)
        except Exception as caught:  # noqa: BLE001 - which one it is, is what is tested
            outcome = caught
        if len(faulty.trace) < number:
            return
        yield stage, faulty, outcome
    pytest.fail(f"one operation made {_MOST_CALLS} host calls")


def assert_the_next_completes(
    subject: Subject, begin: Callable[[Stage], Written], action: Action, when: When, step: Step = Step.SET_UP
) -> None:
    """Kill an action at each of its host calls: done again, it ends as if it had never been disturbed."""
    undisturbed = subject.stage(step)
    begin(undisturbed)
    action(undisturbed, undisturbed.host)
    wanted = undisturbed.state()
    for stage, faulty, _ in killed(subject, begin, action, when, step):
        action(stage, stage.host)
        assert stage.state() == wanted, f"killed {when} {faulty.trace[-1]}"


def assert_it_can_be_undone(
    subject: Subject, action: Action, undo: Action, when: When, step: Step = Step.SET_UP
) -> None:
    """Kill an action at each of its host calls: undone, it leaves nothing."""
    before = subject.stage(step).state()
    for stage, faulty, _ in killed(subject, nothing, action, when, step):
        undo(stage, stage.host)
        assert leftovers(stage, before) == {}, f"killed {when} {faulty.trace[-1]}"


def assert_a_failure_leaves_nothing(subject: Subject, action: Action, step: Step = Step.SET_UP) -> None:
    """Let each host call of an action fail: nothing is left, or it is said to be uncertain."""
    before = subject.stage(step).state()
    for error in (OperationError("the disk is full"), TransientError("not yet"), BusyError("in use")):
        for stage, faulty, outcome in failing(subject, nothing, action, error, step=step):
            if isinstance(outcome, VolmgrError) and not isinstance(outcome, UncertainError):
                assert leftovers(stage, before) == {}, f"{outcome!r} at {faulty.trace[-1]}"


def assert_it_can_be_repeated(subject: Subject, begin: Callable[[Stage], Written], action: Action) -> None:
    """Let each host call of an unmaking fail as busy: that is said, and done again it ends as if undisturbed."""
    undisturbed = subject.stage()
    begin(undisturbed)
    action(undisturbed, undisturbed.host)
    wanted = undisturbed.state()
    for stage, faulty, outcome in failing(subject, begin, action, BusyError("in use")):
        if not isinstance(outcome, BaseException):
            assert stage.state() == wanted, f"{faulty.trace[-1]} failed, and nobody said so"
        action(stage, stage.host)
        assert stage.state() == wanted, f"{outcome!r} at {faulty.trace[-1]}"


def assert_uncertain_stays_uncertain(subject: Subject, action: Action, step: Step = Step.SET_UP) -> None:
    """Let each host call of an action be uncertain after it was carried out: nothing less is reported."""
    for _, faulty, outcome in failing(subject, nothing, action, UncertainError("deadline"), When.AFTER, step):
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, UncertainError), f"{outcome!r} at {faulty.trace[-1]}"


def assert_errors_are_of_volmgr(
    subject: Subject, begin: Callable[[Stage], Written], actions: Iterable[Action], step: Step = Step.SET_UP
) -> None:
    """Let each host call of some actions fail: what is raised says who must act."""
    for action in actions:
        for _, faulty, outcome in failing(subject, begin, action, OperationError("input/output error"), step=step):
            if isinstance(outcome, BaseException):
                assert isinstance(outcome, VolmgrError), f"{outcome!r} at {faulty.trace[-1]}"


def device_identity(stage: Stage, device: Path) -> str | None:
    """Tell a device from what has its name later; None for what is not, or no longer, there or no device."""
    try:
        return stage.host.block.identity(device)
    except OperationError:
        return None


def lose_everything(stage: Stage) -> None:
    """Take away what a reboot takes: mounts, and the locks of block maps."""
    directory = stage.volume.device_target(stage.host)
    if stage.volume.is_block and directory is not None:
        for name in stage.host.files.names(directory):
            for lock in stage.host.block.find_loops(directory / name):
                stage.host.block.detach_loop(lock)
    stage.host.mounts.unmount_below(stage.host.paths.root)


def write_user_data(stage: Stage, mounted: Mounted, size: int = 64) -> Written:
    """Write as the Pod would, into a directory or over a file; gives what was written, which may be nothing."""
    path = stage.path(mounted)
    info = stage.host.files.info(path, follow=True)
    if info is None or info.kind not in {"directory", "file"}:
        return {}
    place = path / "user-data" if info.kind == "directory" else path
    content = b"written by the pod".ljust(size, b".")
    try:
        stage.host.files.write(place, content)
    except OperationError:  # a file system that takes nothing by write(2), such as hugetlbfs
        return {}
    return {place: content}


def place_for_a_mount(stage: Stage, volume: Path) -> Path | None:
    """Give a directory inside a volume; one that is read-only may have none, and then nobody can mount there."""
    files = stage.host.files
    try:
        files.ensure_directory(volume / "inner", 0o755)
    except OperationError:
        inside = (volume / name for name in files.names(volume))
        return next((path for path in inside if (info := files.info(path)) and info.kind == "directory"), None)
    return volume / "inner"


def read_back(stage: Stage, written: Written) -> Written:
    """Read what the Pod wrote."""
    return {path: stage.host.files.read(path) or b"" for path in written}


def differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Name what two states differ in."""
    return sorted(path for path in before | after if before.get(path) != after.get(path))


def leftovers(stage: Stage, before: dict[str, str]) -> dict[str, str]:
    """Give what was not there before; data that lies where a manifest says, or on a mounted device, stays by right."""
    after = stage.state()
    stays = [str(stage.top)] if stage.is_named or not stage.volume.facets.directory else []
    device = stage.volume.device_target(stage.host)
    if device is not None and stage.host.mounts.is_mount_point(device):
        stays.append(str(device))
    return {
        path: what
        for path, what in after.items()
        if before.get(path) != what
        and (path.endswith(MOUNT) or not any(stage.absolute(path).is_relative_to(place) for place in stays))
    }


def memory_of(plugin: VolumePlugin[Any]) -> dict[str, str]:
    """Show everything that an object and its class remember."""
    shown = {name: repr(value) for name, value in vars(plugin).items()}
    for cls in type(plugin).__mro__:
        shown |= {f"{cls.__qualname__}.{name}": repr(value) for name, value in vars(cls).items()}
    return shown
