"""A volume type with everything: a disk image that is attached as a loop device, mounted or mapped, and can grow.

For tests of the core, on FakeHost and on the kernel alike. The image must exist and hold a file system.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote

from volmgr.plugin import (
    Attach,
    Attachable,
    Attached,
    BlockMappable,
    Detach,
    Detached,
    DeviceMountable,
    DeviceMounted,
    DeviceUnmounted,
    Expand,
    Expandable,
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
    NotReconstructible,
    Objects,
    OperationError,
    Reconstructed,
    Unmount,
    UnmountDevice,
    Unmounted,
    VolumeMode,
    VolumePlugin,
    VolumeSpec,
    WaitForAttach,
    Where,
    unmounted_if_it_fails,
)
from volmgr.testing.volume import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopDiskSource:
    """`loopDisk` of a PersistentVolume: the image file, and the file system that it holds."""

    path: str
    fs_type: str = "ext4"


class LoopDisk(
    VolumePlugin[LoopDiskSource],
    Attachable[LoopDiskSource],
    DeviceMountable[LoopDiskSource],
    BlockMappable,
    Expandable[LoopDiskSource],
    Measurable,
):
    """A disk image on a loop device."""

    name = "example.com/loop-disk"
    api_version = 1
    handles = (Handles("loopDisk", where=Where.PV, source=LoopDiskSource),)
    supports_mount_options = True

    def volume_name(self, spec: VolumeSpec[LoopDiskSource]) -> str:
        return spec.source.path

    def facets(self, spec: VolumeSpec[LoopDiskSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(attach=True, device=True, block=True, expand=True, multi_attach=False)

    def exclusive(self, spec: VolumeSpec[LoopDiskSource]) -> tuple[str, ...]:
        return (f"image {spec.source.path}",)

    def attach(self, request: Attach[LoopDiskSource], host: Host) -> Attached:
        return Attached(device_path=str(host.block.attach_loop(Path(request.spec.source.path))))

    def wait_for_attach(self, request: WaitForAttach[LoopDiskSource], host: Host) -> Attached:
        path = request.spec.source.path
        loops = host.block.find_loops(Path(path))
        if not loops:
            raise OperationError(f"waiting for the loop device of {path}: it has none; it is attached again")
        return Attached(device_path=str(loops[0]))

    def detach(self, request: Detach, host: Host) -> Detached:
        for loop in host.block.find_loops(Path(request.volume.removeprefix(f"{self.name}/"))):
            host.block.detach_loop(loop)
        return Detached()

    def device_target(self, spec: VolumeSpec[LoopDiskSource], host: Host) -> Path:
        block = spec.mode is VolumeMode.BLOCK
        return (_maps if block else _mounts)(host) / quote(spec.source.path, safe="")

    def devices(self, host: Host) -> tuple[FoundDevice[LoopDiskSource], ...]:
        top = _mounts(host)
        return tuple(
            FoundDevice(target=top / name, spec=_spec(name, LoopDiskSource(path=unquote(name))))
            for name in host.files.names(top)
            if host.mounts.is_mount_point(top / name)
        )

    def mount_device(self, request: MountDevice[LoopDiskSource], host: Host) -> DeviceMounted:
        if request.mode is VolumeMode.FILESYSTEM:
            fstype = request.spec.source.fs_type
            with unmounted_if_it_fails(request.target, host):
                host.files.ensure_directory(request.target, 0o750)
                host.mounts.ensure_mounted(request.target, fstype, source=request.device_path, options=request.options)
        return DeviceMounted(device_path=request.device_path)

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        if request.mode is VolumeMode.FILESYSTEM:
            host.mounts.unmount(request.target)
            host.files.remove_directory(request.target)
        return DeviceUnmounted()

    def mount(self, request: Mount[LoopDiskSource], host: Host) -> Mounted:
        if request.mode is VolumeMode.BLOCK:
            return Mounted(device_path=request.device_path)
        if request.device_target is None:
            raise OperationError(f"mounting {request.spec.source.path}: it is not mounted on the node")
        options = ("ro",) if request.read_only else ()
        with unmounted_if_it_fails(request.target, host):
            host.files.ensure_directory(request.target, 0o750)
            host.mounts.ensure_bound(request.device_target, request.target, options=options)
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        if request.mode is VolumeMode.FILESYSTEM:
            host.mounts.unmount_below(request.target)
            host.files.remove_directory(request.target)
        return Unmounted()

    def expand(self, request: Expand[LoopDiskSource], host: Host) -> Expanded:
        device = Path(request.device_path)
        host.block.refresh_size(device)
        if request.mode is VolumeMode.FILESYSTEM:
            if request.spec.source.fs_type == "xfs":
                host.commands.run(["xfs_growfs", str(request.device_target)])
            else:
                host.commands.run(["resize2fs", str(device)])
        return Expanded(size=host.block.size(device))

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[LoopDiskSource]:
        path = _image_of(found, host)
        if path is None:
            raise NotReconstructible(f"{found.path}: neither mounted nor mapped, so its image is not known")
        loops = host.block.find_loops(Path(path))
        spec = _spec(found.spec_name, LoopDiskSource(path=path), found.mode)
        return Reconstructed(spec=spec, device_path=str(loops[0]) if loops else "")

    def measure(self, request: Measure, host: Host) -> Measured:
        return Measured.of(host.filesystems.measure(request.path))


def samples(top: Path) -> Iterator[Sample]:
    """Give the contract suite a formatted image, as a file system and as a device."""
    source = LoopDiskSource(path=f"{top}/disk.img")
    for mode in VolumeMode:
        yield Sample(source=source, spec={"mode": mode}, arrange=partial(_formatted_image, Path(source.path)))


def _formatted_image(image: Path, host: Host) -> None:
    host.files.write(image, bytes(2 << 20))
    device = host.block.attach_loop(image)
    host.commands.run(("mkfs.ext4", "-q", "-F", str(device)))
    host.block.detach_loop(device)


def _spec(name: str, source: LoopDiskSource, mode: VolumeMode = VolumeMode.FILESYSTEM) -> VolumeSpec[LoopDiskSource]:
    return VolumeSpec(name=name, type="loopDisk", source=source, mode=mode)


def _mounts(host: Host) -> Path:
    return host.paths.plugin(LoopDisk.name) / "mounts"


def _maps(host: Host) -> Path:
    return host.paths.block_maps(LoopDisk.name)


def _image_of(found: Found, host: Host) -> str | None:
    """Find the image behind a Pod's volume: by its mount's twin on the node, or by the Pod's bind in a block map."""
    if found.mode is VolumeMode.BLOCK:
        device = host.files.read_link(found.path)
        for name in host.files.names(_maps(host)):
            image = unquote(name)
            bound = found.pod_uid in host.files.names(_maps(host) / name)
            if bound and device in [str(loop) for loop in host.block.find_loops(Path(image))]:
                return image
        return None
    mine = host.mounts.entry(found.path)
    for entry in host.mounts.below(_mounts(host)):
        if mine is not None and entry.device == mine.device:
            return unquote(entry.target.name)
    return None
