"""emptyDir: a directory that lives as long as its Pod, on disk, in memory or on huge pages.

Behaviour: `pkg/volume/emptydir` of kubelet 1.37, with its paths, modes, messages and ready marker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from volmgr.plugin import (
    Applies,
    Facets,
    Found,
    Handles,
    Host,
    Measurable,
    Measure,
    Measured,
    Mount,
    Mounted,
    NotOurs,
    Objects,
    OperationError,
    Pod,
    Quantity,
    Reconstructed,
    SpecError,
    TransientError,
    UncertainError,
    Unmount,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
    Where,
)

log = logging.getLogger(__name__)

DISK = ""
MEMORY = "Memory"
HUGE_PAGES = "HugePages"
_HUGE_MEDIUM = "HugePages-"
_HUGE_RESOURCE = "hugepages-"
_PAGE_SIZE = "pagesize="
_MODE = 0o777
_MARKER_MODE = 0o750


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyDirSource:
    """`emptyDir` of a Pod volume: where it lives, and how much it may hold."""

    medium: str = DISK
    size_limit: Quantity | None = None


@dataclass(frozen=True, slots=True)
class FileSystemOptions:
    """What a medium other than the disk mounts."""

    fstype: str
    source: str
    options: tuple[str, ...]


class EmptyDir(VolumePlugin[EmptyDirSource], Measurable):
    """Give a Pod an empty directory of its own, and delete it with the Pod."""

    name = "kubernetes.io/empty-dir"
    handles = (Handles("emptyDir", where=Where.POD, source=EmptyDirSource),)

    def facets(self, spec: VolumeSpec[EmptyDirSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(fs_group=Applies.PLUGIN)

    def mount(self, request: Mount[EmptyDirSource], host: Host) -> Mounted:
        wanted = file_system(request, host)
        marker = _marker(host, request.pod.uid, request.spec.name)
        ready = host.files.info(marker) is not None
        there = _is_there(request, wanted, host, ready=ready)
        if ready and there:
            return Mounted()
        if ready:  # the directory was deleted by hand, or a reboot took the mount
            host.files.remove_file(marker)
        made = host.files.ensure_directory(request.target, _MODE, exact=True)
        try:
            _fill(request, wanted, host)
            host.files.ensure_directory(marker.parent, _MARKER_MODE, exact=True)
            host.files.ensure_file(marker)
        except (OperationError, TransientError, SpecError) as error:
            _take_back(request.target, marker, host, error, made=made, mounted=not there)
            raise
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        marker = _marker(host, request.pod_uid, request.spec_name)
        host.files.remove_file(marker)
        host.files.remove_directory(marker.parent)
        # Not the source (a restarted daemon does not know it) but what is mounted there says what there is to do:
        # the tmpfs or hugetlbfs of the volume, and whatever others mounted on it or below it.
        host.mounts.unmount_below(request.target)
        if not host.files.remove_directory(request.target):
            host.files.discard(request.target)
        return Unmounted()

    def reconstruct(self, found: Found, host: Host) -> Reconstructed[EmptyDirSource]:
        marker = host.paths.pod_plugin(found.pod_uid, self.name, found.spec_name) / "ready"
        if host.files.info(marker) is None and host.files.names(found.path):
            # kubelet's marker proves that an emptyDir is managed; without it, its data may be anybody's.
            raise NotOurs(f"{found.path} holds data and has no ready marker")
        # The disk does not say which medium it was: like kubelet, `EmptyDir{}`; unmount looks at what is mounted.
        return Reconstructed(spec=VolumeSpec(name=found.spec_name, type="emptyDir", source=EmptyDirSource()))

    def measure(self, request: Measure, host: Host) -> Measured:
        whole = host.mounts.file_system(request.path)
        if host.mounts.is_mount_point(request.path) and whole.type in {"tmpfs", "hugetlbfs"}:
            used, inodes_used = whole.size - whole.available, whole.inodes - whole.inodes_free
        else:
            used, inodes_used = _disk_usage(request, host)
        return Measured(
            capacity=whole.size,
            available=whole.available,
            used=used,
            inodes=whole.inodes,
            inodes_free=whole.inodes_free,
            inodes_used=inodes_used,
        )


def file_system(request: Mount[EmptyDirSource], host: Host) -> FileSystemOptions | None:
    """Say what to mount for the medium; None for the disk. Raises SpecError."""
    medium = request.spec.source.medium
    if medium == DISK:
        return None
    if medium == MEMORY:
        options = [*request.options]
        if size := memory_size(request, host.kernel.memory):
            options.append(f"size={size}")
        if host.kernel.tmpfs_noswap and not host.kernel.user_namespace:  # the kernel refuses it in a user namespace
            options.append("noswap")
        return FileSystemOptions("tmpfs", "tmpfs", tuple(options))
    if medium == HUGE_PAGES or medium.startswith(_HUGE_MEDIUM):
        size = huge_page_size(medium, request.pod)
        return FileSystemOptions("hugetlbfs", "nodev", (*request.options, f"{_PAGE_SIZE}{_binary(size)}"))
    message = f'unknown storage medium "{medium}"; write Memory, HugePages, HugePages-<size> or nothing'
    raise SpecError(message)


def memory_size(request: Mount[EmptyDirSource], machine: int) -> int:
    """Give the smallest limit that is set, in bytes; 0: none is."""
    limit = request.spec.source.size_limit
    limits = (limit.to_int() if limit else 0, request.memory_limit, machine)
    return min((size for size in limits if size > 0), default=0)


def huge_page_size(medium: str, pod: Pod) -> int:
    """Give the page size, in bytes, that the medium names or that the Pod's only huge page request has."""
    requested = set(_requested_page_sizes(pod))
    if medium == HUGE_PAGES:
        if len(requested) > 1:
            message = f"medium: {medium} can't be used if container requests multiple huge page sizes"
            raise SpecError(message)
    else:
        requested &= {_quantity(medium.removeprefix(_HUGE_MEDIUM), f'storage medium "{medium}"')}
    if not requested:
        message = f"medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        raise SpecError(message)
    return requested.pop()


def _requested_page_sizes(pod: Pod) -> Iterator[int]:
    for resources in (pod.spec.resources, *(container.resources for container in pod.all_containers())):
        for name in {**resources.limits, **resources.requests}:  # an API server copies limits to requests
            if name.startswith(_HUGE_RESOURCE):
                yield _quantity(name.removeprefix(_HUGE_RESOURCE), f"resource {name}")


def mounted_page_size(options: tuple[str, ...]) -> int:
    """Give the page size of a mounted hugetlbfs, in bytes; the kernel writes `2M` for 2Mi."""
    text = next((option.removeprefix(_PAGE_SIZE) for option in options if option.startswith(_PAGE_SIZE)), "")
    try:
        return Quantity.parse(text.removesuffix("i") + "i").to_int()
    except ValueError as error:
        message = f"the page size of the mounted hugetlbfs is not determined from its options {','.join(options)!r}"
        raise OperationError(message) from error


def _marker(host: Host, pod_uid: str, spec_name: str) -> Path:
    return host.paths.pod_plugin(pod_uid, EmptyDir.name, spec_name) / "ready"


def _is_there(request: Mount[EmptyDirSource], wanted: FileSystemOptions | None, host: Host, *, ready: bool) -> bool:
    """Say whether what the medium asks for is there; refuse what somebody else put in its place."""
    target = request.target
    if wanted is None and not request.options and ready:
        info = host.files.info(target)
        return info is not None and info.kind == "directory"
    entry = host.mounts.entry(target)
    if entry is None:
        return False
    if wanted is None and request.options:  # bound to itself, for its flags
        return True
    if wanted is None or entry.fstype != wanted.fstype:
        message = f"cannot make an emptyDir at {target}: a {entry.fstype} is mounted there; unmount it"
        raise OperationError(message)
    _refuse_other_page_size(request, entry.super_options)
    return True


def _refuse_other_page_size(request: Mount[EmptyDirSource], options: tuple[str, ...]) -> None:
    medium = request.spec.source.medium
    if not medium.startswith(_HUGE_MEDIUM):
        return
    mounted, size = mounted_page_size(options), huge_page_size(medium, request.pod)
    if mounted != size:
        message = (
            f"pod {request.pod.key}: mounted dir {request.target} pagesize({_binary(mounted)}) and "
            f"requested medium size({_binary(size)}) differ"
        )
        raise SpecError(message)


def _fill(request: Mount[EmptyDirSource], wanted: FileSystemOptions | None, host: Host) -> None:
    target = request.target
    if wanted is not None:
        host.mounts.ensure_mounted(target, wanted.fstype, source=wanted.source, options=wanted.options)
        host.files.chmod(target, _MODE)  # a tmpfs begins as 1777, a hugetlbfs as 0755
    elif request.options:
        host.mounts.ensure_bound(target, target, options=request.options)
    if request.fs_group is None:
        return
    try:
        host.ownership.apply(
            target, request.fs_group, policy="Always", cancelled=request.cancelled, progress=request.progress
        )
    except OperationError as error:  # kubelet: a volume that its group cannot use is better than none
        log.warning("volume %s of pod %s: %s", request.spec.name, request.pod.key, error)


def _take_back(target: Path, marker: Path, host: Host, error: Exception, *, made: bool, mounted: bool) -> None:
    """Undo what a failed mount did; raises UncertainError where that fails too."""
    try:
        host.files.remove_directory(marker.parent)
        if mounted:
            host.mounts.unmount(target)
        if made:
            host.files.remove_directory(target)
    except (OperationError, TransientError) as second:
        message = f"mounting {target} failed ({error}), and so did undoing it: {second}"
        raise UncertainError(message) from error


def _disk_usage(request: Measure, host: Host) -> tuple[int, int]:
    """Give bytes and inodes below a path, in the manner of du; never below what others mounted in it."""
    foreign = {entry.target for entry in host.mounts.below(request.path)} - {request.path}
    size, inodes, pending = 0, 1, [request.path]
    while pending:
        if request.cancelled() or host.clock() > request.deadline:
            message = f"measuring {request.path} was cancelled"
            raise TransientError(message)
        directory = pending.pop()
        for name in host.files.names(directory):
            path = directory / name
            info = None if path in foreign else host.files.info(path)
            if info is None:
                continue
            inodes += 1
            if info.kind == "directory":
                pending.append(path)
            else:
                size += info.size
    return size, inodes


def _quantity(text: str, where: str) -> int:
    try:
        return Quantity.parse(text).to_int()
    except ValueError as error:
        message = f"{where}: {error}"
        raise SpecError(message) from error


def _binary(size: int) -> str:
    for suffix in ("", "Ki", "Mi", "Gi", "Ti"):
        if size % 1024 or suffix == "Ti":
            return f"{size}{suffix}"
        size //= 1024
    return str(size)
