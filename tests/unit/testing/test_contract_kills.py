"""The contract suite itself: a type that keeps every promise passes, and each promise catches a type that breaks it."""

import inspect
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from volmgr.plugin import (
    Applies,
    Attach,
    Attached,
    Detach,
    Detached,
    DeviceMounted,
    DeviceUnmounted,
    Expand,
    Expanded,
    Facets,
    Found,
    FoundDevice,
    Handles,
    Host,
    Measurable,
    Measure,
    Measured,
    Mount,
    MountDevice,
    Mounted,
    Objects,
    OperationError,
    Payload,
    PayloadFile,
    PayloadVolume,
    Pod,
    Reconstructed,
    SpecError,
    TransientError,
    UncertainError,
    Unmount,
    UnmountDevice,
    Unmounted,
    VolumeMode,
    VolumePlugin,
    VolumeSpec,
    WaitForAttach,
)
from volmgr.testing import FakeHost, When, loopdisk
from volmgr.testing.contract.promises import promises
from volmgr.testing.contract.subject import Samples, Subject
from volmgr.testing.loopdisk import LoopDisk, LoopDiskSource


@dataclass(frozen=True, kw_only=True)
class ScratchSource:
    size: str = "1m"


class Honest(VolumePlugin[ScratchSource], Measurable):
    """A tmpfs for each Pod, with a marker beside it; keeps every promise."""

    name = "example.com/scratch"
    handles = (Handles("scratch", source=ScratchSource),)

    def facets(self, spec: VolumeSpec[ScratchSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(fs_group=Applies.PLUGIN)

    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        there = host.mounts.is_mount_point(request.target)
        host.files.ensure_directory(request.target, 0o777, exact=True)
        try:
            host.mounts.ensure_mounted(request.target, "tmpfs", options=(f"size={request.spec.source.size}",))
            host.files.chmod(request.target, 0o777)
            if request.fs_group is not None:
                host.ownership.apply(request.target, request.fs_group)
            host.files.ensure_directory(marker_of(request, host).parent, 0o750)
            host.files.ensure_file(marker_of(request, host))
        except (OperationError, TransientError):
            host.files.remove_directory(marker_of(request, host).parent)
            if not there:
                host.mounts.unmount(request.target)
                host.files.remove_directory(request.target)
            raise
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        marker = host.paths.pod_plugin(request.pod_uid, self.name, request.spec_name) / "ready"
        host.files.remove_file(marker)
        host.files.remove_directory(marker.parent)
        host.mounts.unmount_below(request.target)
        host.files.discard(request.target)
        return Unmounted()

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[ScratchSource]:
        del host
        return Reconstructed(spec=VolumeSpec(name=found.spec_name, type="scratch", source=ScratchSource()))

    def measure(self, request: Measure, host: Host) -> Measured:
        whole = host.mounts.file_system(request.path)
        return Measured(capacity=whole.size, available=whole.available, used=whole.size - whole.available)


def marker_of(request: Mount[ScratchSource], host: Host) -> Path:
    return host.paths.pod_plugin(request.pod.uid, Honest.name, request.spec.name) / "ready"


class OtherNameEachTime(Honest):
    def unique_name(self, spec: VolumeSpec[ScratchSource], pod_uid: str) -> str:
        del spec, pod_uid
        return f"{self.name}/{id(self)}"


class RefusesWhatItMounts(Honest):
    def check(self, spec: VolumeSpec[ScratchSource], pod: Pod | None) -> None:
        del pod
        if not spec.source.size.isdigit():
            raise SpecError(f"scratch: {spec.source.size} is no size; write a number of bytes")


class ChecksWithAPodAlone(LoopDisk):
    def check(self, spec: VolumeSpec[LoopDiskSource], pod: Pod | None) -> None:
        if pod is None:
            raise SpecError(f"loopDisk: nobody uses {spec.source.path}")


class ForgetsToReturn(Honest):
    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        super().unmount(request, host)
        return None  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


class CountsMounts(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        mounted = super().mount(request, host)
        count = host.files.read(marker_of(request, host)) or b""
        host.files.write(marker_of(request, host), count + b"x")
        return mounted


class SignsWithItself(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        mounted = super().mount(request, host)
        host.files.write(marker_of(request, host), str(id(self)).encode())
        return mounted


class BeginsWithNothing(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        host.mounts.unmount_below(request.target)
        return super().mount(request, host)


class TakesAwayAndPutsBack(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        data = host.files.read(request.target / "user-data")
        host.mounts.unmount_below(request.target)
        mounted = super().mount(request, host)
        if data is not None:
            host.files.write(request.target / "user-data", data)
        return mounted


class LeavesItsMarker(Honest):
    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        host.mounts.unmount_below(request.target)
        host.files.discard(request.target)
        return Unmounted()


class UnmountsOnceOnly(Honest):
    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        if host.files.info(request.target) is None:
            raise OperationError(f"{request.target} is not there")
        return super().unmount(request, host)


class Remembers(Honest):
    def __init__(self) -> None:
        self._mounted: set[str] = set()

    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        self._mounted.add(request.volume)
        return super().mount(request, host)

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        return super().unmount(request, host) if request.volume in self._mounted else Unmounted()


class SharesBetweenPods(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        host.files.ensure_directory(host.paths.plugin(self.name) / request.spec.name, 0o750)
        return super().mount(request, host)

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        host.files.remove_directory(host.paths.plugin(self.name) / request.spec_name)
        return super().unmount(request, host)


class MarksReadyFirst(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        marker = marker_of(request, host)
        if host.files.info(marker) is not None:
            return Mounted()
        host.files.ensure_directory(marker.parent, 0o750)
        host.files.ensure_file(marker)
        return super().mount(request, host)


class TrustsItsMarker(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        ready = host.files.info(marker_of(request, host)) is not None
        return Mounted() if ready else super().mount(request, host)

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        marker = host.paths.pod_plugin(request.pod_uid, self.name, request.spec_name) / "ready"
        return Unmounted() if host.files.info(marker) is None else super().unmount(request, host)


class LeavesWhatFailed(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        host.files.ensure_directory(request.target, 0o777, exact=True)
        host.mounts.ensure_mounted(request.target, "tmpfs")
        return super().mount(request, host)


class PlaysDown(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        try:
            return super().mount(request, host)
        except UncertainError as error:
            raise OperationError(str(error)) from error


class HidesItsFailures(Honest):
    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        try:
            return super().unmount(request, host)
        except OperationError:
            return Unmounted()


class RaisesWhatItLikes(Honest):
    def measure(self, request: Measure, host: Host) -> Measured:
        try:
            return super().measure(request, host)
        except OperationError as error:
            raise RuntimeError("measuring failed") from error


class Sprawls(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        host.files.ensure_file(Path("/etc/scratch.conf"))
        return super().mount(request, host)


class RemovesAcrossMounts(Honest):
    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        self._empty(request.target, host)
        return super().unmount(request, host)

    def _empty(self, path: Path, host: Host) -> None:
        for name in host.files.names(path):
            self._empty(path / name, host)
            if not host.files.names(path / name) and not host.mounts.is_mount_point(path / name):
                host.files.discard(path / name)


class RemovesThroughLinks(Honest):
    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        for name in host.files.names(request.target):
            if link := host.files.read_link(request.target / name):
                host.files.discard(Path(link))
        return super().unmount(request, host)


class CannotRebuild(Honest):
    def reconstruct(self, found: Found, host: Host) -> Reconstructed[ScratchSource]:
        return VolumePlugin[ScratchSource].reconstruct(self, found, host)


class ForgetsTheGroup(Honest):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        return super().mount(replace(request, fs_group=None), host)


class MeasuresNonsense(Honest):
    def measure(self, request: Measure, host: Host) -> Measured:
        return replace(super().measure(request, host), used=-1)


class AttachesAnewEachTime(LoopDisk):
    def attach(self, request: Attach[LoopDiskSource], host: Host) -> Attached:
        image = Path(request.spec.source.path)
        copy = image.with_name(f"copy-{len(host.files.names(image.parent))}")
        host.files.write(copy, bytes(1 << 20))
        return Attached(device_path=str(host.block.attach_loop(copy)))

    def wait_for_attach(self, request: WaitForAttach[LoopDiskSource], host: Host) -> Attached:
        del host
        return Attached(device_path=request.device_path)


class MeasuresWhatHoldsTheLink(LoopDisk):
    def measure(self, request: Measure, host: Host) -> Measured:
        found = host.mounts.file_system(request.path)
        return Measured(capacity=found.size, available=found.available, used=found.size - found.available)


class LeavesALockWhenKilled(LoopDisk):
    """Guards attach and detach by a lock that the dead never give back."""

    def attach(self, request: Attach[LoopDiskSource], host: Host) -> Attached:
        lock = self._taken(host, "attach")
        attached = super().attach(request, host)
        host.files.remove_directory(lock)
        return attached

    def detach(self, request: Detach, host: Host) -> Detached:
        lock = self._taken(host, "detach")
        detached = super().detach(request, host)
        host.files.remove_directory(lock)
        return detached

    def _taken(self, host: Host, operation: str) -> Path:
        lock = host.paths.plugin(self.name) / operation
        if not host.files.ensure_directory(lock, 0o750):
            raise OperationError(f"somebody else is at it: {lock}")
        return lock


class ForgetsToSayDetached(LoopDisk):
    def detach(self, request: Detach, host: Host) -> Detached:
        super().detach(request, host)
        return None  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


class KeepsWhatItDetaches(LoopDisk):
    def detach(self, request: Detach, host: Host) -> Detached:
        del request, host
        return Detached()


class PlaysDownAttachments(LoopDisk):
    def attach(self, request: Attach[LoopDiskSource], host: Host) -> Attached:
        try:
            return super().attach(request, host)
        except UncertainError as error:
            raise OperationError(str(error)) from error


class DetachesOrCrashes(LoopDisk):
    def detach(self, request: Detach, host: Host) -> Detached:
        try:
            return super().detach(request, host)
        except OperationError as error:
            raise RuntimeError("detaching failed") from error


class LeavesAStampWhereItGrew(LoopDisk):
    def expand(self, request: Expand[LoopDiskSource], host: Host) -> Expanded:
        if not host.files.ensure_directory(host.paths.plugin(self.name) / "grown", 0o750):
            return Expanded(size=request.new_size)
        return super().expand(request, host)


class ForgetsToReturnADevice(LoopDisk):
    def mount_device(self, request: MountDevice[LoopDiskSource], host: Host) -> DeviceMounted:
        super().mount_device(request, host)
        return None  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


class CountsDeviceMounts(LoopDisk):
    def mount_device(self, request: MountDevice[LoopDiskSource], host: Host) -> DeviceMounted:
        mounted = super().mount_device(request, host)
        counts = host.paths.plugin(self.name) / "counts"
        host.files.ensure_directory(counts, 0o750)
        host.files.ensure_directory(counts / str(len(host.files.names(counts))), 0o750)
        return mounted


class FormatsWhatIsNotMounted(LoopDisk):
    def mount_device(self, request: MountDevice[LoopDiskSource], host: Host) -> DeviceMounted:
        if host.block.is_free(Path(request.device_path)):
            host.commands.run(("mkfs.ext4", "-F", request.device_path))
        return super().mount_device(request, host)


class LeavesItsDeviceDirectory(LoopDisk):
    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        host.mounts.unmount(request.target)
        return DeviceUnmounted()


class FindsWhatIsGone(LoopDisk):
    def devices(self, host: Host) -> tuple[FoundDevice[LoopDiskSource], ...]:
        target = host.paths.plugin(self.name) / "mounts/gone"
        return (*super().devices(host), FoundDevice(target=target, problem="nothing says which it is"))


class RemembersDevices(LoopDisk):
    def __init__(self) -> None:
        self._mounted: set[str] = set()

    def mount_device(self, request: MountDevice[LoopDiskSource], host: Host) -> DeviceMounted:
        self._mounted.add(request.volume)
        return super().mount_device(request, host)

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        return super().unmount_device(request, host) if request.volume in self._mounted else DeviceUnmounted()


class TakesADirectoryForAMount(LoopDisk):
    def mount_device(self, request: MountDevice[LoopDiskSource], host: Host) -> DeviceMounted:
        if host.files.info(request.target) is not None:
            return DeviceMounted(device_path=request.device_path)
        return super().mount_device(request, host)


class LeavesAStampOnTheDevice(LoopDisk):
    def mount_device(self, request: MountDevice[LoopDiskSource], host: Host) -> DeviceMounted:
        host.files.ensure_directory(host.paths.plugin(self.name) / "begun", 0o750)
        mounted = super().mount_device(request, host)
        host.files.remove_directory(host.paths.plugin(self.name) / "begun")
        return mounted


class UnmountsDevicesOnceOnly(LoopDisk):
    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        if request.mode is VolumeMode.FILESYSTEM and not host.mounts.is_mount_point(request.target):
            raise OperationError(f"{request.target} is not mounted")
        return super().unmount_device(request, host)


class LeavesFailedDevices(LoopDisk):
    def mount_device(self, request: MountDevice[LoopDiskSource], host: Host) -> DeviceMounted:
        host.files.ensure_directory(request.target, 0o750)
        host.mounts.ensure_mounted(request.target, "ext4", source=request.device_path)
        return super().mount_device(request, host)


class HidesFailedDevices(LoopDisk):
    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        try:
            return super().unmount_device(request, host)
        except OperationError:
            return DeviceUnmounted()


class PlaysDownDevices(LoopDisk):
    def mount_device(self, request: MountDevice[LoopDiskSource], host: Host) -> DeviceMounted:
        try:
            return super().mount_device(request, host)
        except UncertainError as error:
            raise OperationError(str(error)) from error


class ExpandsOrCrashes(LoopDisk):
    def expand(self, request: Expand[LoopDiskSource], host: Host) -> Expanded:
        try:
            return super().expand(request, host)
        except OperationError as error:
            raise RuntimeError("growing failed") from error


class GivesADirectory(LoopDisk):
    def mount(self, request: Mount[LoopDiskSource], host: Host) -> Mounted:
        if request.mode is VolumeMode.BLOCK:
            return Mounted(device_path=str(host.paths.root))
        return super().mount(request, host)


class GrowsUnmounted(LoopDisk):
    def expand(self, request: Expand[LoopDiskSource], host: Host) -> Expanded:
        if request.target is not None:
            host.mounts.unmount(request.target)
        return super().expand(request, host)


class Written(PayloadVolume[ScratchSource]):
    """One file that says the volume's size; keeps every promise."""

    name = "example.com/written"
    handles = (Handles("written", source=ScratchSource),)

    def _payload(self, request: Mount[ScratchSource], host: Host) -> Payload:
        del host
        return {"size": PayloadFile(data=request.spec.source.size.encode(), mode=0o600)}


class WritesOnce(Written):
    def mount(self, request: Mount[ScratchSource], host: Host) -> Mounted:
        if host.empty_dirs.is_ready(request.pod.uid, request.spec.name, wrapped=True):
            return Mounted()
        return super().mount(request, host)


BROKEN: dict[str, type[VolumePlugin[Any]]] = {
    "the_name_is_qualified_and_the_same_for_every_object": OtherNameEachTime,
    "a_volume_that_can_be_mounted_is_not_refused_beforehand": RefusesWhatItMounts,
    "operations_give_values_of_their_own_type": ForgetsToReturn,
    "a_second_mount_changes_nothing": CountsMounts,
    "user_data_survives_a_second_mount": BeginsWithNothing,
    "user_data_survives_a_second_mount_that_is_killed": TakesAwayAndPutsBack,
    "nothing_is_left_after_an_unmount": LeavesItsMarker,
    "a_second_unmount_is_a_success": UnmountsOnceOnly,
    "an_unmount_of_what_was_never_mounted_is_a_success": UnmountsOnceOnly,
    "an_unmount_needs_names_only": Remembers,
    "objects_hold_no_state": Remembers,
    "two_objects_of_a_type_are_interchangeable": SignsWithItself,
    "pods_do_not_share_what_is_theirs": SharesBetweenPods,
    "a_killed_mount_is_completed_by_the_next": MarksReadyFirst,
    "a_killed_mount_can_be_unmounted": TrustsItsMarker,
    "a_killed_unmount_is_completed_by_the_next": TrustsItsMarker,
    "a_failed_mount_leaves_nothing_or_says_that_it_is_uncertain": LeavesWhatFailed,
    "a_failed_mount_is_mended_by_the_next": MarksReadyFirst,
    "what_is_uncertain_is_never_reported_as_less": PlaysDown,
    "a_failed_unmount_can_be_repeated": HidesItsFailures,
    "errors_are_those_of_volmgr": RaisesWhatItLikes,
    "nothing_but_the_volumes_own_paths_is_touched": Sprawls,
    "mounts_of_others_below_are_taken_away_and_never_followed": RemovesAcrossMounts,
    "links_in_the_volume_are_not_followed": RemovesThroughLinks,
    "what_a_reboot_took_is_made_again": TrustsItsMarker,
    "a_volume_is_rebuilt_from_its_directory": CannotRebuild,
    "the_group_of_the_pod_gets_the_volume_where_the_type_says_that_it_does_it": ForgetsTheGroup,
    "files_that_are_made_from_objects_are_put_right_by_the_next_mount": WritesOnce,
    "usage_is_measured_sanely": MeasuresNonsense,
    "attaching_and_detaching_give_values_of_their_own_type": ForgetsToSayDetached,
    "what_is_detached_is_given_back": KeepsWhatItDetaches,
    "attaching_again_gives_the_same_device": AttachesAnewEachTime,
    "a_killed_attach_is_completed_by_the_next": LeavesALockWhenKilled,
    "a_killed_detach_is_completed_by_the_next": LeavesALockWhenKilled,
    "what_is_uncertain_of_an_attachment_is_never_reported_as_less": PlaysDownAttachments,
    "errors_of_attaching_and_detaching_are_those_of_volmgr": DetachesOrCrashes,
    "device_operations_give_values_of_their_own_type": ForgetsToReturnADevice,
    "a_second_device_mount_changes_nothing": CountsDeviceMounts,
    "user_data_survives_its_device_s_unmount": FormatsWhatIsNotMounted,
    "nothing_is_left_after_a_device_unmount": LeavesItsDeviceDirectory,
    "a_device_is_found_without_its_pod": FindsWhatIsGone,
    "a_device_unmount_needs_names_only": RemembersDevices,
    "a_killed_device_mount_is_completed_by_the_next": TakesADirectoryForAMount,
    "a_killed_device_mount_can_be_unmounted": LeavesAStampOnTheDevice,
    "a_killed_device_unmount_is_completed_by_the_next": UnmountsDevicesOnceOnly,
    "a_failed_device_mount_leaves_nothing_or_says_that_it_is_uncertain": LeavesFailedDevices,
    "a_failed_device_unmount_can_be_repeated": HidesFailedDevices,
    "what_is_uncertain_of_a_device_is_never_reported_as_less": PlaysDownDevices,
    "errors_of_device_operations_are_those_of_volmgr": ExpandsOrCrashes,
    "a_block_volume_leads_to_a_block_device": GivesADirectory,
    "a_block_volume_is_measured_by_its_device": MeasuresWhatHoldsTheLink,
    "an_expansion_gives_a_size_and_changes_no_mount": GrowsUnmounted,
    "a_killed_expansion_is_completed_by_the_next": LeavesAStampWhereItGrew,
}
PROMISES = promises()


def keeps(plugin: type[VolumePlugin[Any]], promise: str) -> None:
    function = PROMISES[promise]
    samples: Samples = loopdisk.samples if issubclass(plugin, LoopDisk) else lambda _top: [ScratchSource()]
    sides = list(When) if "when" in inspect.signature(function).parameters else [None]
    for index, _ in enumerate(samples(Path("TOP"))):
        for side in sides:
            function(Subject(plugin, fake_machine, samples, index), **({} if side is None else {"when": side}))


def fake_machine() -> tuple[Host, Path]:
    host, top = FakeHost(), Path("/srv/contract")
    host.mkdir(top)
    return host, top


@pytest.mark.parametrize("plugin", [Honest, LoopDisk, Written])
@pytest.mark.parametrize("promise", PROMISES)
def test_a_type_that_keeps_its_promises_passes(promise: str, plugin: type[VolumePlugin[Any]]) -> None:
    keeps(plugin, promise)


@pytest.mark.parametrize("promise", PROMISES)
def test_each_promise_catches_a_type_that_breaks_it(promise: str) -> None:
    with pytest.raises((AssertionError, Exception)) as caught:
        keeps(BROKEN[promise], promise)
    assert not isinstance(caught.value, (NotImplementedError, KeyError)), "the test is broken, not the type"


def test_a_check_of_a_persistent_volume_that_wants_a_pod_is_caught() -> None:
    with pytest.raises(SpecError, match="nobody uses"):
        keeps(ChecksWithAPodAlone, "a_volume_that_can_be_mounted_is_not_refused_beforehand")


def test_each_promise_says_which_bug_it_prevents() -> None:
    assert BROKEN.keys() == PROMISES.keys()
    for function in PROMISES.values():
        assert (function.__doc__ or "").startswith("Prevents: ")
