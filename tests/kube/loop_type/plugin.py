"""loop: image files of the machine as disks, a driver of `csi` in the daemon; loopcsi's controller attaches them.

Where a controller attaches, its VolumeAttachment says which file; else `volumeAttributes.image` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

from volmgr.plugin import (
    Attach,
    Attachable,
    Attached,
    BlockMappable,
    CSIDriver,
    Detach,
    Detached,
    DeviceMount,
    DeviceMountable,
    DeviceMounted,
    DeviceUnmounted,
    Facets,
    Handles,
    Host,
    Mount,
    MountDevice,
    Mounted,
    ObjectRef,
    Objects,
    OperationError,
    Pod,
    Reference,
    Unmount,
    UnmountDevice,
    Unmounted,
    VolumeAttachment,
    VolumeMode,
    VolumePlugin,
    VolumeSpec,
    WaitForAttach,
    Where,
    attachment_name,
    csi_volume_name,
    unmounted_if_it_fails,
)

DRIVERS = ("loop.test.volmgr", "unattached.test.volmgr", "slow.test.volmgr")
_NO_TEXTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSource:
    """What the type reads of `csi`."""

    driver: str
    volume_handle: str
    fs_type: str = "ext4"
    volume_attributes: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    read_only: bool = False


class Loop(VolumePlugin[LoopSource], Attachable[LoopSource], DeviceMountable[LoopSource], BlockMappable):
    """Give Pods a disk."""

    name = "volmgr.test/loop"
    handles = tuple(Handles("csi", driver=driver, where=Where.PV, source=LoopSource) for driver in DRIVERS)

    def volume_name(self, spec: VolumeSpec[LoopSource]) -> str:
        return csi_volume_name(spec.source.driver, spec.source.volume_handle)

    def references(self, spec: VolumeSpec[LoopSource], pod: Pod) -> tuple[Reference, ...]:
        attachment = attachment_name(spec.source.driver, spec.source.volume_handle, pod.spec.node_name)
        return Reference(_driver(spec)), Reference(ObjectRef("VolumeAttachment", "", attachment))

    def facets(self, spec: VolumeSpec[LoopSource], objects: Objects) -> Facets:
        driver = objects.get(_driver(spec))
        return Facets(attach=not isinstance(driver, CSIDriver) or driver.attach_required, device=True, block=True)

    def attach(self, request: Attach[LoopSource], host: Host) -> Attached:
        return Attached(device_path=str(host.block.attach_loop(_image(request.spec, request.objects))))

    def wait_for_attach(self, request: WaitForAttach[LoopSource], host: Host) -> Attached:
        return Attached(device_path=str(host.block.attach_loop(_image(request.spec, request.objects))))

    def detach(self, request: Detach, host: Host) -> Detached:
        if request.device_path:
            host.block.detach_loop(Path(request.device_path))
        return Detached()

    def device_target(self, spec: VolumeSpec[LoopSource], host: Host) -> Path:
        handle = sha256(spec.source.volume_handle.encode()).hexdigest()
        if spec.mode is VolumeMode.BLOCK:
            return host.paths.block_maps(self.name) / handle
        return host.paths.plugin(self.name) / spec.source.driver / handle

    def mount_device(self, request: MountDevice[LoopSource], host: Host) -> DeviceMounted:
        given = request.device_path
        device = Path(given) if given else host.block.attach_loop(_image(request.spec, request.objects))
        if request.mode is VolumeMode.FILESYSTEM:
            wanted = DeviceMount(
                device=device,
                target=request.target,
                owner=f"PersistentVolume {request.spec.name}",
                fstype=request.spec.source.fs_type,
                options=request.options,
            )
            with unmounted_if_it_fails(request.target, host):
                host.files.ensure_directory(request.target, 0o750)
                host.filesystems.ensure_mounted(wanted)
        return DeviceMounted(device_path=str(device))

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        if request.mode is VolumeMode.FILESYSTEM:
            host.filesystems.unmount(request.target)
        if request.device_path:
            host.block.detach_loop(Path(request.device_path))
        return DeviceUnmounted()

    def mount(self, request: Mount[LoopSource], host: Host) -> Mounted:
        if request.mode is VolumeMode.BLOCK:
            return Mounted(device_path=request.device_path)
        if request.device_target is None or not host.mounts.is_mount_point(request.device_target):
            raise OperationError(f"cannot mount {request.volume} for the pod: it is not mounted on the node")
        with unmounted_if_it_fails(request.target, host):
            host.files.ensure_directory(request.target, 0o750)
            host.mounts.ensure_bound(request.device_target, request.target)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        if request.mode is VolumeMode.FILESYSTEM:
            host.mounts.unmount(request.target)
            host.files.remove_directory(request.target)
        return Unmounted()


def _driver(spec: VolumeSpec[LoopSource]) -> ObjectRef:
    return ObjectRef("CSIDriver", "", spec.source.driver)


def _image(spec: VolumeSpec[LoopSource], objects: Objects) -> Path:
    for item in objects.values():
        if isinstance(item, VolumeAttachment):
            return Path(item.attachment_metadata["image"])
    return Path(spec.source.volume_attributes["image"])
