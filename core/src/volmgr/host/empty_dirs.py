"""Directories that live as long as their Pod: on disk, in memory, on huge pages; for emptyDir and what is built on it.

Source: `pkg/volume/emptydir` of kubelet 1.37, with its paths, modes, messages and ready marker (behaviours §4.1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import OperationError, SpecError, TransientError, taken_back
from volmgr.host.unasked import never, silent
from volmgr.model.pod import Pod
from volmgr.model.quantity import Quantity

if TYPE_CHECKING:
    from volmgr.host.interface import Host

log = logging.getLogger("volmgr.empty_dirs")

PLUGIN = "kubernetes.io/empty-dir"
"""The type whose marker directory holds the ready markers, those of other types too."""
DISK = ""
MEMORY = "Memory"
HUGE_PAGES = "HugePages"
_HUGE_MEDIUM = "HugePages-"
_HUGE_RESOURCE = "hugepages-"
_PAGE_SIZE = "pagesize="
_MODE = 0o777
_MARKER_MODE = 0o750


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDirectory:
    """One such directory: whose it is, and what it is to be; sizes in bytes, 0 is no limit.

    `wrapped`: it holds the volume of another type, below whose name `target` lies; only its marker is an emptyDir's.
    `fs_group`: the group that gets it when it is made.
    """

    pod: Pod
    name: str
    target: Path
    medium: str = DISK
    size_limit: int = 0
    memory_limit: int = 0
    options: tuple[str, ...] = ()
    wrapped: bool = False
    fs_group: int | None = None


@dataclass(frozen=True, slots=True)
class FileSystemOptions:
    """What a medium other than the disk mounts."""

    fstype: str
    source: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Bytes and inodes of a directory, and of the file system that it is on."""

    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int
    inodes_used: int


class EmptyDirs:
    """Makes them, and takes them away."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def set_up(
        self,
        wanted: PodDirectory,
        *,
        cancelled: Callable[[], bool] = never,
        progress: Callable[[str], None] = silent,
    ) -> bool:
        """Let the directory be there and be marked as ready; True when it was not.

        What is in a ready one stays; one whose directory or mount is gone is made anew. A failure takes back what it
        made. Raises SpecError for a wish that cannot be, UncertainError when taking back failed too.
        """
        host, target = self._host, wanted.target
        medium = file_system(wanted, host)
        marker = self.marker(wanted.pod.uid, wanted.name, wrapped=wanted.wrapped)
        ready = host.files.info(marker) is not None
        there = _is_there(wanted, medium, host, ready=ready)
        if ready and there:
            return False
        if ready:  # the directory was deleted by hand, or a reboot took the mount
            host.files.remove_file(marker)
        made = host.files.ensure_directory(target, _MODE, exact=True)

        def undo() -> None:
            host.files.remove_directory(marker.parent)
            if not there:
                host.mounts.unmount(target)
            if made:
                host.files.remove_directory(target)

        with taken_back(undo, f"mounting {target}"):
            _fill(wanted, medium, host)
            if wanted.fs_group is not None:
                self._give(wanted, wanted.fs_group, cancelled, progress)
            host.files.ensure_directory(marker.parent, _MARKER_MODE, exact=True)
            host.files.ensure_file(marker)
        return True

    def tear_down(self, pod_uid: str, name: str, target: Path, *, wrapped: bool = False) -> None:
        """Take it away with all that is in it; missing is success. Raises BusyError naming who holds it."""
        files, mounts = self._host.files, self._host.mounts
        marker = self.marker(pod_uid, name, wrapped=wrapped)
        files.remove_file(marker)
        files.remove_directory(marker.parent)
        # Not the source (a restarted daemon does not know it) but what is mounted there says what there is to do:
        # the tmpfs or hugetlbfs of the volume, and whatever others mounted on it or below it.
        mounts.unmount_below(target)
        if not files.remove_directory(target):
            files.discard(target)

    def is_ready(self, pod_uid: str, name: str, *, wrapped: bool = False) -> bool:
        """Say whether it is marked as ready, which proves that we (or a kubelet) made it."""
        return self._host.files.info(self.marker(pod_uid, name, wrapped=wrapped)) is not None

    def marker(self, pod_uid: str, name: str, *, wrapped: bool = False) -> Path:
        """Give the path of the ready marker, an empty file."""
        return self._host.paths.pod_plugin(pod_uid, PLUGIN, f"wrapped_{name}" if wrapped else name) / "ready"

    def measure(self, path: Path, *, cancelled: Callable[[], bool] = never, deadline: float = float("inf")) -> Usage:
        """Measure a directory: by its file system if it has one of its own, else in the manner of du.

        `deadline` is on the host's clock. Raises TransientError when it was cancelled.
        """
        mounts = self._host.mounts
        whole = mounts.file_system(path)
        if mounts.is_mount_point(path) and whole.type in {"tmpfs", "hugetlbfs"}:
            used, inodes_used = whole.size - whole.available, whole.inodes - whole.inodes_free
        else:
            used, inodes_used = self._disk_usage(path, cancelled, deadline)
        return Usage(
            capacity=whole.size,
            available=whole.available,
            used=used,
            inodes=whole.inodes,
            inodes_free=whole.inodes_free,
            inodes_used=inodes_used,
        )

    def _give(
        self, wanted: PodDirectory, group: int, cancelled: Callable[[], bool], progress: Callable[[str], None]
    ) -> None:
        try:
            self._host.ownership.apply(wanted.target, group, policy="Always", cancelled=cancelled, progress=progress)
        except OperationError as error:  # kubelet: a volume that its group cannot use is better than none
            log.warning("volume %s of pod %s: %s", wanted.name, wanted.pod.key, error)

    def _disk_usage(self, top: Path, cancelled: Callable[[], bool], deadline: float) -> tuple[int, int]:
        """Give bytes and inodes below a path; never below what others mounted in it."""
        foreign = {entry.target for entry in self._host.mounts.below(top)} - {top}
        size, inodes, pending = 0, 1, [top]
        while pending:
            if cancelled() or self._host.clock() > deadline:
                raise TransientError(f"measuring {top} was cancelled")
            directory = pending.pop()
            for name in self._host.files.names(directory):
                path = directory / name
                info = None if path in foreign else self._host.files.info(path)
                if info is None:
                    continue
                inodes += 1
                if info.kind == "directory":
                    pending.append(path)
                else:
                    size += info.size
        return size, inodes


def file_system(wanted: PodDirectory, host: Host) -> FileSystemOptions | None:
    """Say what to mount for the medium; None for the disk. Raises SpecError."""
    medium = wanted.medium
    check_medium(medium, wanted.pod)
    if medium == DISK:
        return None
    if medium == MEMORY:
        options = [*wanted.options]
        if size := memory_size(wanted, host.kernel.memory):
            options.append(f"size={size}")
        if host.kernel.tmpfs_noswap and not host.kernel.user_namespace:  # the kernel refuses it in a user namespace
            options.append("noswap")
        return FileSystemOptions("tmpfs", "tmpfs", tuple(options))
    size = huge_page_size(medium, wanted.pod)
    return FileSystemOptions("hugetlbfs", "nodev", (*wanted.options, f"{_PAGE_SIZE}{_binary(size)}"))


def check_medium(medium: str, pod: Pod | None) -> None:
    """Raise SpecError for a medium that there is not, or that a Pod does not ask its huge pages for; pure."""
    if medium == HUGE_PAGES or medium.startswith(_HUGE_MEDIUM):
        if pod is not None:
            huge_page_size(medium, pod)
    elif medium not in {DISK, MEMORY}:
        raise SpecError(f'unknown storage medium "{medium}"; write Memory, HugePages, HugePages-<size> or nothing')


def memory_size(wanted: PodDirectory, machine: int) -> int:
    """Give the smallest limit that is set, in bytes; 0: none is."""
    limits = (wanted.size_limit, wanted.memory_limit, machine)
    return min((size for size in limits if size > 0), default=0)


def huge_page_size(medium: str, pod: Pod) -> int:
    """Give the page size, in bytes, that the medium names or that the Pod's only huge page request has."""
    requested = set(_requested_page_sizes(pod))
    if medium == HUGE_PAGES:
        if len(requested) > 1:
            raise SpecError(f"medium: {medium} can't be used if container requests multiple huge page sizes")
    else:
        requested &= {_quantity(medium.removeprefix(_HUGE_MEDIUM), f'storage medium "{medium}"')}
    if not requested:
        raise SpecError(
            f"medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        )
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
        raise OperationError(
            f"the page size of the mounted hugetlbfs is not determined from its options {','.join(options)!r}"
        ) from error


def _is_there(wanted: PodDirectory, medium: FileSystemOptions | None, host: Host, *, ready: bool) -> bool:
    """Say whether what the medium asks for is there; refuse what somebody else put in its place."""
    target = wanted.target
    if medium is None and not wanted.options and ready:
        info = host.files.info(target)
        return info is not None and info.kind == "directory"
    entry = host.mounts.entry(target)
    if entry is None:
        return False
    if medium is None and wanted.options:  # bound to itself, for its flags
        return True
    if medium is None or entry.fstype != medium.fstype:
        raise OperationError(f"cannot make an emptyDir at {target}: a {entry.fstype} is mounted there; unmount it")
    _refuse_other_page_size(wanted, entry.super_options)
    return True


def _refuse_other_page_size(wanted: PodDirectory, options: tuple[str, ...]) -> None:
    if not wanted.medium.startswith(_HUGE_MEDIUM):
        return
    mounted, size = mounted_page_size(options), huge_page_size(wanted.medium, wanted.pod)
    if mounted != size:
        raise SpecError(
            f"pod {wanted.pod.key}: mounted dir {wanted.target} pagesize({_binary(mounted)}) and "
            f"requested medium size({_binary(size)}) differ"
        )


def _fill(wanted: PodDirectory, medium: FileSystemOptions | None, host: Host) -> None:
    target = wanted.target
    if medium is not None:
        host.mounts.ensure_mounted(target, medium.fstype, source=medium.source, options=medium.options)
        host.files.chmod(target, _MODE)  # a tmpfs begins as 1777, a hugetlbfs as 0755
    elif wanted.options:
        host.mounts.ensure_bound(target, target, options=wanted.options)


def _quantity(text: str, where: str) -> int:
    try:
        return Quantity.parse(text).to_int()
    except ValueError as error:
        raise SpecError(f"{where}: {error}") from error


def _binary(size: int) -> str:
    for suffix in ("", "Ki", "Mi", "Gi", "Ti"):
        if size % 1024 or suffix == "Ti":
            return f"{size}{suffix}"
        size //= 1024
    return str(size)
