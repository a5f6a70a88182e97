"""The volume types of disks that a network brings: connected once for the node, then mounted, or mapped as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from volmgr.disk_paths import ConnectedDisk, DiskPaths
from volmgr.errors import DeviceLostError, NotReconstructible, taken_back
from volmgr.host.filesystems import DEFAULT_TYPE, DeviceMount
from volmgr.host.interface import SCSI_ID, Host
from volmgr.host.mount_points import remove_mount_point, unmounted_if_it_fails
from volmgr.model.selinux import context_option, mounted_label
from volmgr.model.volume import Facets, VolumeMode, VolumeSpec
from volmgr.requests import (
    Attach,
    Attached,
    Detach,
    Detached,
    DeviceMounted,
    DeviceUnmounted,
    Expand,
    Expanded,
    Found,
    FoundDevice,
    Measure,
    Measured,
    Mount,
    MountDevice,
    Mounted,
    Objects,
    Reconstructed,
    Requirement,
    Unmount,
    UnmountDevice,
    Unmounted,
    WaitForAttach,
)
from volmgr.volume_plugin import Attachable, BlockMappable, DeviceMountable, Expandable, Measurable, VolumePlugin

S = TypeVar("S")

_MODE = 0o750
_UDEV = Path("/run/udev/control")
_MULTIPATH = Path("/etc/multipath.conf")


class DiskVolume(
    VolumePlugin[S], Attachable[S], DeviceMountable[S], BlockMappable, Expandable[S], Measurable, Generic[S]
):
    """Derive from it, and say how a disk is connected, grown and disconnected; the rest is the same for all of them.

    A disk is connected by `mount_device` and disconnected by `unmount_device`, in both modes: what a controller
    attaches, and what needs no attaching, is taken away before the node stops to report that it uses it.
    """

    supports_mount_options = True

    def _directory(self, spec: VolumeSpec[S]) -> str:
        """Name the volume's directory below that of its type; pure. Block volumes have it below `volumeDevices/`."""
        raise NotImplementedError

    def _fs_type(self, source: S) -> str:
        """Give the type of file system that the source names; empty: it names none; pure."""
        raise NotImplementedError

    def _connect(self, request: MountDevice[S], host: Host) -> ConnectedDisk:
        """Make the disk reachable and give its device, by `DiskPaths.connect`; called again it changes nothing.

        When it fails, and nothing was mounted or mapped before, the disk is given back.
        """
        raise NotImplementedError

    def _disconnect(self, request: UnmountDevice, host: Host) -> None:
        """Give the disk back, which is not mounted any more, by `DiskPaths.take_away`; called again it changes nothing.

        `request.target` is the volume's directory; it may be missing, and goes after this.
        """
        raise NotImplementedError

    def _grow(self, request: Expand[S], host: Host) -> Path:
        """Let the kernel see the new size of a connected disk, by `DiskPaths.grow`; gives its device."""
        raise NotImplementedError

    def _places(self, top: Path, host: Host) -> Iterable[Path]:
        """Give the directories of volumes below `top`, which is the type's, or its `volumeDevices`."""
        raise NotImplementedError

    def _rebuilt(self, place: Path, host: Host) -> S:
        """Rebuild a source from its directory's name and what lies in or beside it; raises NotReconstructible."""
        raise NotImplementedError

    def _spec_name(self, place: Path, host: Host) -> str:
        """Say what the volume of a directory is called, where that can be told."""
        del host
        return place.name

    def facets(self, spec: VolumeSpec[S], objects: Objects) -> Facets:
        """Attached first, once per node; a device or a file system that can be labelled and grown."""
        del spec, objects
        return Facets(attach=True, device=True, block=True, expand=True, selinux=True)

    def attach(self, request: Attach[S], host: Host) -> Attached:
        """Do nothing: the storage lets every node in that it knows."""
        del request, host
        return Attached()

    def wait_for_attach(self, request: WaitForAttach[S], host: Host) -> Attached:
        """Wait for nothing: the disk comes when it is connected."""
        del host
        return Attached(device_path=request.device_path)

    def detach(self, request: Detach, host: Host) -> Detached:
        """Do nothing: the disk went with its device mount."""
        del request, host
        return Detached()

    def device_target(self, spec: VolumeSpec[S], host: Host) -> Path:
        """Give kubelet's directory for the node's mount, or its block map."""
        return self._top(spec.mode, host) / self._directory(spec)

    def _target(self, request: Mount[S] | Expand[S], host: Host) -> Path:
        """Give the directory of the node's mount, or block map, that a Pod's request is about."""
        return request.device_target or self.device_target(request.spec, host)

    def _top(self, mode: VolumeMode, host: Host) -> Path:
        own = host.paths.plugin(self.name)
        return own / "volumeDevices" if mode is VolumeMode.BLOCK else own

    def devices(self, host: Host) -> tuple[FoundDevice[S], ...]:
        """Find what is connected for the node, or was before a reboot, whether any Pod has it or not."""
        return tuple(self._all_found(VolumeMode.FILESYSTEM, host)) + tuple(self._all_found(VolumeMode.BLOCK, host))

    def _all_found(self, mode: VolumeMode, host: Host) -> Iterator[FoundDevice[S]]:
        for place in self._places(self._top(mode, host), host):
            yield self._found(place, mode, host)

    def _found(self, place: Path, mode: VolumeMode, host: Host) -> FoundDevice[S]:
        entry = host.mounts.entry(place) if mode is VolumeMode.FILESYSTEM else None
        try:
            source = self._rebuilt(place, host)
        except NotReconstructible as error:
            return FoundDevice(target=place, problem=str(error))
        return FoundDevice(
            target=place,
            spec=VolumeSpec(name=self._spec_name(place, host), type=self.handles[0].field, source=source, mode=mode),
            device_path=entry.source if entry is not None else "",
            selinux_label=mounted_label(entry.super_options) if entry is not None else "",
            pod_uids=_pods_of(place, host) if mode is VolumeMode.BLOCK else (),
        )

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[S]:
        """Say whose a Pod's directory or link is: that of the node's mount, or block map, of the same device."""
        device, top = self._number(found.path, found.mode, host), self._top(found.mode, host)
        for place in self._places(top, host) if device else ():
            shown = place if found.mode is VolumeMode.FILESYSTEM else place / found.pod_uid
            if self._number(shown, found.mode, host) != device:
                continue  # before anything is read of it: there may be hundreds, and this is asked for each Pod
            each = self._found(place, found.mode, host)
            if each.spec is not None:
                return Reconstructed(
                    spec=replace(each.spec, name=found.spec_name),
                    device_path=each.device_path,
                    selinux_label=each.selinux_label,
                )
        raise NotReconstructible(f"{found.path} does not say which volume it is: nothing below {top} is of its device")

    @staticmethod
    def _number(path: Path, mode: VolumeMode, host: Host) -> str:
        """Tell the device of a mount, or the device that a link or a bind is; empty where there is none."""
        if mode is VolumeMode.FILESYSTEM:
            entry = host.mounts.entry(path)
            return entry.device if entry is not None else ""
        info = host.files.info(path, follow=True)
        return str(info.rdev) if info is not None and info.kind == "block" else ""

    def _disk(self, request: MountDevice[S] | UnmountDevice | Expand[S], host: Host) -> DiskPaths:
        """Give the paths of the disk that a request is about."""
        target = self._target(request, host) if isinstance(request, Expand) else request.target
        return DiskPaths(
            host,
            self.name,
            target,
            f"volume {request.volume}",
            deadline=request.deadline,
            cancelled=request.cancelled,
        )

    def mount_device(self, request: MountDevice[S], host: Host) -> DeviceMounted:
        """Connect the disk and mount its file system; what was connected before stays when that fails."""
        was_there = self._is_used(request, host)

        def undo() -> None:
            if not was_there:
                gone = UnmountDevice(
                    volume=request.volume,
                    device_path="",
                    target=request.target,
                    mode=request.mode,
                    deadline=request.deadline,
                    progress=request.progress,
                )
                self.unmount_device(gone, host)

        with taken_back(undo, f"mounting {request.target}"):
            disk = self._connect(request, host)
            if request.mode is VolumeMode.FILESYSTEM:
                host.files.ensure_directory(request.target, _MODE)
                host.filesystems.ensure_mounted(self._device_mount(request, disk.device, host))
        return DeviceMounted(device_path=str(disk.device), notices=disk.notices)

    def _is_used(self, request: MountDevice[S], host: Host) -> bool:
        if request.mode is VolumeMode.BLOCK:
            places = (request.target / name for name in _pods_of(request.target, host))  # plain files after a reboot
            return any((info := host.files.info(place)) is not None and info.kind == "block" for place in places)
        return host.mounts.is_mount_point(request.target)

    def _device_mount(self, request: MountDevice[S], device: Path, host: Host) -> DeviceMount:
        pv = request.spec.pv
        return DeviceMount(
            device=device,
            target=request.target,
            owner=f"volume {request.spec.name}",
            fstype=self._fs_type(request.spec.source) or DEFAULT_TYPE,
            options=(*request.options, *context_option(request.selinux_label)),
            read_only=request.spec.read_only,
            size=pv.size if pv else 0,
            deadline=request.deadline - host.clock(),
            progress=request.progress,
        )

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        """Unmount the file system, then give the disk back."""
        if request.mode is VolumeMode.FILESYSTEM:
            host.mounts.unmount(request.target, deadline=max(0.0, request.deadline - host.clock()))
        self._disconnect(request, host)
        remove_mount_point(request.target, host)
        self._disk(request, host).forget()
        return DeviceUnmounted(device_is_gone=True)

    def mount(self, request: Mount[S], host: Host) -> Mounted:
        """Bind the node's mount for the Pod; a block volume's device is mapped by the core."""
        if request.mode is VolumeMode.BLOCK:
            return Mounted(device_path=request.device_path)
        origin = self._target(request, host)
        if not host.mounts.is_mount_point(origin):
            raise DeviceLostError(f"cannot give {request.spec.name} to the pod: nothing is mounted on {origin}")
        read_only = ("ro",) if request.read_only else ()
        with unmounted_if_it_fails(request.target, host):
            host.files.ensure_directory(request.target, _MODE)
            options = tuple(dict.fromkeys((*request.options, *read_only)))
            host.mounts.ensure_bound(origin, request.target, options=options)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        """Take the Pod's bind away."""
        if request.mode is VolumeMode.FILESYSTEM:
            host.mounts.unmount_below(request.target)
            remove_mount_point(request.target, host)
        return Unmounted()

    def expand(self, request: Expand[S], host: Host) -> Expanded:
        """Let the disk, its map and its file system have their new size."""
        device = self._grow(request, host)
        if request.mode is VolumeMode.BLOCK:
            return Expanded(size=host.block.size(device))
        left = request.deadline - host.clock()
        return Expanded(size=host.filesystems.grow(device, self._target(request, host), deadline=left))

    def measure(self, request: Measure, host: Host) -> Measured:
        """Ask the file system."""
        return Measured.of(host.filesystems.measure(request.path))


def _pods_of(place: Path, host: Host) -> tuple[str, ...]:
    """Name the Pods that have a device, by its map's directory; kubelet keeps what it knows of the disk there, too."""
    return tuple(name for name in host.files.names(place) if not name.endswith(".json"))


def disk_requirements(host: Host) -> tuple[Requirement, ...]:
    """Say whether the node has what volumes of disks need, whatever network brings them."""
    scsi_id = next(filter(None, map(host.commands.find, SCSI_ID)), None)
    runs = host.scsi.multipath_runs()
    heard = host.files.info(_UDEV) is not None
    configured = host.files.info(_MULTIPATH, follow=True) is not None
    return (
        Requirement(
            check="scsi_id",
            met=scsi_id is not None,
            detail=f"{scsi_id} asks disks who they are" if scsi_id else f"{SCSI_ID[0]} is not there",
            remedy="install udev, which brings it: no disk is used that nobody can ask",
        ),
        Requirement(
            check="udev",
            met=heard,
            detail="it runs, and makes links to disks" if heard else "it does not run: disks have no links",
            remedy="start systemd-udevd: without it, disks are found by what the kernel says alone",
            optional=True,
        ),
        Requirement(
            check="multipathd",
            met=runs,
            detail="it runs" if runs else "it does not run: of several paths to a disk one alone is used",
            remedy="install multipath-tools (device-mapper-multipath) and start multipathd",
            optional=True,
        ),
        Requirement(
            check=_MULTIPATH.name,
            met=configured,
            detail=f"{_MULTIPATH} is {'' if configured else 'not '}there",
            remedy="write one with find_multipaths in its defaults; on Fedora, where multipathd needs one to start,"
            " run mpathconf --enable",
            optional=True,
        ),
    )
