"""loop as a volume type: a disk is attached as a loop device, mounted once for the node, and bound for each Pod.

Where a controller attaches, its VolumeAttachment says which file; else `volumeAttributes.image` does.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from volmgr.plugin import (
    DEFAULT_TYPE,
    Attach,
    Attachable,
    Attached,
    BlockMappable,
    CSIDriver,
    CsiSource,
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
DIRECTORY = "kubernetes.io/csi"
"""Where kubelet has whatever drivers of `csi` mount once for the node."""


class Loop(VolumePlugin[CsiSource], Attachable[CsiSource], DeviceMountable[CsiSource], BlockMappable):
    """Give Pods a disk."""

    name = "volmgr.test/loop"
    handles = tuple(Handles("csi", driver=driver, where=Where.PV) for driver in DRIVERS)

    def volume_name(self, spec: VolumeSpec[CsiSource]) -> str:
        return csi_volume_name(spec.source.driver, spec.source.volume_handle)

    def references(self, spec: VolumeSpec[CsiSource], pod: Pod) -> tuple[Reference, ...]:
        attachment = attachment_name(spec.source.driver, spec.source.volume_handle, pod.spec.node_name)
        return Reference(_driver(spec)), Reference(ObjectRef("VolumeAttachment", "", attachment))

    def facets(self, spec: VolumeSpec[CsiSource], objects: Objects) -> Facets:
        driver = objects.get(_driver(spec))
        return Facets(attach=not isinstance(driver, CSIDriver) or driver.attach_required, device=True, block=True)

    def attach(self, request: Attach[CsiSource], host: Host) -> Attached:
        return Attached(device_path=str(host.block.attach_loop(_image(request.spec, request.objects))))

    def wait_for_attach(self, request: WaitForAttach[CsiSource], host: Host) -> Attached:
        return Attached(device_path=str(host.block.attach_loop(_image(request.spec, request.objects))))

    def detach(self, request: Detach, host: Host) -> Detached:
        if request.device_path:
            host.block.detach_loop(Path(request.device_path))
        return Detached()

    def device_target(self, spec: VolumeSpec[CsiSource], host: Host) -> Path:
        if spec.mode is VolumeMode.BLOCK:
            return host.paths.block_maps(DIRECTORY) / spec.name / "dev"
        handle = sha256(spec.source.volume_handle.encode()).hexdigest()
        return host.paths.plugin(DIRECTORY) / spec.source.driver / handle / "globalmount"

    def mount_device(self, request: MountDevice[CsiSource], host: Host) -> DeviceMounted:
        given = request.device_path
        device = Path(given) if given else host.block.attach_loop(_image(request.spec, request.objects))
        if request.mode is VolumeMode.FILESYSTEM:
            wanted = DeviceMount(
                device=device,
                target=request.target,
                owner=f"PersistentVolume {request.spec.name}",
                fstype=request.spec.source.fs_type or DEFAULT_TYPE,
                options=request.options,
            )
            with unmounted_if_it_fails(request.target, host):
                host.files.ensure_directory(request.target, 0o750)
                host.filesystems.ensure_mounted(wanted)
        return DeviceMounted(device_path=str(device))

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        if request.mode is VolumeMode.FILESYSTEM:
            host.filesystems.unmount(request.target)
            host.files.remove_directory(request.target.parent)
        if request.device_path:
            host.block.detach_loop(Path(request.device_path))
        return DeviceUnmounted()

    def mount(self, request: Mount[CsiSource], host: Host) -> Mounted:
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
            host.mounts.unmount_below(request.target)
            host.files.remove_directory(request.target)
        return Unmounted()


def _driver(spec: VolumeSpec[CsiSource]) -> ObjectRef:
    return ObjectRef("CSIDriver", "", spec.source.driver)


def _image(spec: VolumeSpec[CsiSource], objects: Objects) -> Path:
    for item in objects.values():
        if isinstance(item, VolumeAttachment):
            return Path(item.attachment_metadata["image"])
    return Path(spec.source.volume_attributes["image"])
