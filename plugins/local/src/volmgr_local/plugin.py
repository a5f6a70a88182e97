"""local: a directory of this node, or a block device with or without a file system, as a PersistentVolume.

Behaviour: `pkg/volume/local` of kubelet 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from volmgr.plugin import (
    DEFAULT_TYPE,
    Applies,
    BlockMappable,
    DeviceMount,
    DeviceMountable,
    DeviceMounted,
    DeviceUnmounted,
    Expand,
    Expandable,
    Expanded,
    Facets,
    FileInfo,
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
    Notice,
    NotReconstructible,
    Objects,
    OperationError,
    Pod,
    Reconstructed,
    SpecError,
    TransientError,
    Unmount,
    UnmountDevice,
    Unmounted,
    VolumeMode,
    VolumePlugin,
    VolumeSpec,
    Where,
    device_behind,
    path_problem,
    remove_mount_point,
    unmounted_if_it_fails,
)

_MODE = 0o750


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSource:
    """`local` of a PersistentVolume: a path of the node, and the file system of a device that has none yet."""

    path: str
    fs_type: str = ""


class Local(
    VolumePlugin[LocalSource], DeviceMountable[LocalSource], BlockMappable, Expandable[LocalSource], Measurable
):
    """Give a Pod storage of the node itself; nothing below the path is ever deleted."""

    name = "kubernetes.io/local-volume"
    api_version = 1
    handles = (Handles("local", where=Where.PV, source=LocalSource),)
    supports_mount_options = True

    def facets(self, spec: VolumeSpec[LocalSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(device=True, block=True, expand=True, fs_group=Applies.PLUGIN)

    def check(self, spec: VolumeSpec[LocalSource], pod: Pod | None) -> None:
        del pod
        checked_path(spec)

    def exclusive(self, spec: VolumeSpec[LocalSource]) -> tuple[str, ...]:
        return (f"local path {spec.source.path}",) if spec.source.path else ()

    def device_target(self, spec: VolumeSpec[LocalSource], host: Host) -> Path:
        return (_maps if spec.mode is VolumeMode.BLOCK else _mounts)(host) / spec.name

    def devices(self, host: Host) -> tuple[FoundDevice[LocalSource], ...]:
        """Find what is mounted on the node; of block volumes, which only Pods' links lead to, there is nothing else."""
        entries = (host.mounts.entry(_mounts(host) / name) for name in host.files.names(_mounts(host)))
        return tuple(
            FoundDevice(target=entry.target, spec=_rebuilt(entry.target.name, entry.source), device_path=entry.source)
            for entry in entries
            if entry is not None
        )

    def mount_device(self, request: MountDevice[LocalSource], host: Host) -> DeviceMounted:
        path = checked_path(request.spec)
        found = _found(path, request.mode, host)
        if request.mode is VolumeMode.FILESYSTEM and found.kind == "block":
            _mount_file_system(request, path, host)
        return DeviceMounted(device_path=str(path) if found.kind == "block" else "")

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        if request.target.parent == _mounts(host):
            host.filesystems.unmount(request.target)
        return DeviceUnmounted()

    def mount(self, request: Mount[LocalSource], host: Host) -> Mounted:
        path = checked_path(request.spec)
        found = _found(path, request.mode, host)
        if request.mode is VolumeMode.BLOCK:
            return Mounted(device_path=str(path))
        origin = path if found.kind == "directory" else _mounted_device(request, host)
        with unmounted_if_it_fails(request.target, host):
            host.files.ensure_directory(request.target, _MODE)
            host.mounts.ensure_bound(origin, request.target, options=_options(request))
            return Mounted(notices=_give_to_group(request, host))

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        if request.mode is VolumeMode.FILESYSTEM:
            host.mounts.unmount_below(request.target)
            remove_mount_point(request.target, host)
        return Unmounted()

    def expand(self, request: Expand[LocalSource], host: Host) -> Expanded:
        path = checked_path(request.spec)
        if _found(path, request.mode, host).kind == "directory":
            return Expanded(size=request.new_size)
        if request.mode is VolumeMode.BLOCK:
            return Expanded(size=host.block.size(path))
        deadline = request.deadline - host.clock()
        target = request.device_target or self.device_target(request.spec, host)
        return Expanded(size=host.filesystems.grow(path, target, deadline=deadline))

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[LocalSource]:
        device = ""
        if found.mode is VolumeMode.FILESYSTEM:
            device = device_behind(found.path, _mounts(host) / found.spec_name, host)
        elif host.files.read_link(found.path) is None:
            message = f"{found.path} is no symbolic link to a device"
            raise NotReconstructible(message)
        return Reconstructed(spec=_rebuilt(found.spec_name, device, found.mode), device_path=device)

    def measure(self, request: Measure, host: Host) -> Measured:
        return Measured.of(host.filesystems.measure(request.path))


def checked_path(spec: VolumeSpec[LocalSource]) -> Path:
    """Give the path of a volume, or raise SpecError for one that must not be used."""
    path = spec.source.path
    problem = path_problem(path)
    if problem:
        message = f"invalid local.path {path!r} of PersistentVolume {spec.name}: it {problem}"
        raise SpecError(message)
    return Path(path)


def _rebuilt(name: str, device: str, mode: VolumeMode = VolumeMode.FILESYSTEM) -> VolumeSpec[LocalSource]:
    return VolumeSpec(name=name, type="local", source=LocalSource(path=device), mode=mode)


def _mounts(host: Host) -> Path:
    return host.paths.plugin(Local.name) / "mounts"


def _maps(host: Host) -> Path:
    """Give where block maps lie: other than those of all other types, below the *escaped* name."""
    return host.paths.plugin(Local.name.replace("/", "~")) / "volumeDevices"


def _found(path: Path, mode: VolumeMode, host: Host) -> FileInfo:
    """Look at the path; what is missing may come yet (a disk that is plugged in, a mount that boots late)."""
    info = host.files.info(path, follow=True)
    if info is None:
        message = (
            f"local path {path} does not exist on this node; make or connect it, or correct local.path of the"
            " PersistentVolume: it is looked for again and again"
        )
        raise TransientError(message, waits_for=str(path))
    if info.kind not in {"directory", "block"}:
        message = f"local path {path} is a {info.kind}: only directory and block device are supported."
        raise OperationError(message)
    if mode is VolumeMode.BLOCK and info.kind != "block":
        message = f"local path {path} is a {info.kind}, and the volume's mode is Block: it must be a block device"
        raise OperationError(message)
    return info


def _mount_file_system(request: MountDevice[LocalSource], path: Path, host: Host) -> None:
    pv = request.spec.pv
    wanted = DeviceMount(
        device=path,
        target=request.target,
        owner=f"PersistentVolume {request.spec.name}",
        fstype=request.spec.source.fs_type or DEFAULT_TYPE,
        options=request.options,
        read_only=request.spec.read_only,
        size=pv.size if pv else 0,
        deadline=request.deadline - host.clock(),
        progress=request.progress,
    )
    with unmounted_if_it_fails(request.target, host):
        host.files.ensure_directory(request.target, _MODE)
        host.filesystems.ensure_mounted(wanted)


def _mounted_device(request: Mount[LocalSource], host: Host) -> Path:
    target = request.device_target
    if target is None or not host.mounts.is_mount_point(target):
        message = f"mounting {request.spec.source.path} for the pod: its file system is not mounted on the node"
        raise OperationError(message)
    return target


def _options(request: Mount[LocalSource]) -> tuple[str, ...]:
    read_only = ("ro",) if request.read_only else ()
    return tuple(dict.fromkeys((*request.options, *read_only)))


def _give_to_group(request: Mount[LocalSource], host: Host) -> tuple[Notice, ...]:
    """Give the files to the Pod's group, unless another Pod has them: that one came first."""
    group = request.fs_group
    if group is None or request.read_only:
        return ()
    if not others(request.target, host):
        host.ownership.apply(
            request.target,
            group,
            policy=request.fs_group_policy,
            cancelled=request.cancelled,
            progress=request.progress,
        )
        return ()
    info = host.files.info(request.target)
    if info is None or info.gid == group:
        return ()
    message = (
        f"the requested fsGroup is {group}, but the volume {request.spec.name} has GID {info.gid}: another pod uses it;"
        " the volume may not be shareable"
    )
    return (Notice("AlreadyMountedVolume", message),)


def others(target: Path, host: Host) -> tuple[Path, ...]:
    """Name the mounts of the same directory that other Pods have; what lies outside of the Pods' directory is none."""
    mine = host.mounts.entry(target)
    return tuple(
        entry.target
        for entry in host.mounts.below(host.paths.pods)
        if mine is not None and entry.target != target and (entry.device, entry.root) == (mine.device, mine.root)
    )
