"""File systems on block devices: formatted if the device is proved empty, checked, mounted, and grown.

Composed of the host's services, so it works on each kind of host. Source: `behaviours.md` §3.3, which is
`FormatAndMount` of mount-utils; we format less readily (`docs/decisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import CommandError, OperationError
from volmgr.host.device_content import ext_size
from volmgr.host.empty_dirs import Usage
from volmgr.host.formatting import EXT, Formatting, probed
from volmgr.host.mount_options import read_only_options
from volmgr.host.mount_points import remove_mount_point
from volmgr.host.unasked import silent

if TYPE_CHECKING:
    from volmgr.host.interface import Host, MountEntry

DEFAULT_TYPE = "ext4"
"""The type of a volume that names none; kubelet's."""

FORMAT_DEADLINE = 120.0
"""Seconds that mkfs, fsck and the like may take when the caller says nothing; as long as an operation, by default."""

_CORRECTED, _UNCORRECTED = 1, 4  # bits of fsck's exit code, see fsck(8)
_ALL = range(256)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemSettings:
    """What the configuration says of file systems on devices."""

    xfs_nouuid: bool = True
    """Mount xfs with `nouuid`: a clone or snapshot has its origin's UUID, and xfs refuses two of one UUID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMount:
    """What is wanted: the file system of a device on a directory. `owner` names the volume in messages.

    `size` is what the volume should have (bytes, 0: no matter), `deadline` seconds from now for each command that is
    executed; `sensitive` options are shown nowhere.
    """

    device: Path
    target: Path
    owner: str
    fstype: str = DEFAULT_TYPE
    options: Sequence[str] = ()
    sensitive: Sequence[str] = field(default=(), repr=False)
    read_only: bool = False
    size: int = 0
    deadline: float = FORMAT_DEADLINE
    progress: Callable[[str], None] = silent


class FileSystems:
    """File systems of a host's block devices."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._formatting = Formatting(host)

    def ensure_mounted(self, wanted: DeviceMount) -> None:
        """Mount a device's file system on its directory, which exists; one is made first on a device proved empty.

        Mounted already is success. Raises OperationError for a device whose content cannot be proved, or is another,
        or has errors; nothing is ever formatted because it cannot be mounted.
        """
        begun = self._formatting.begun(wanted.device)
        if begun is not None:
            self._go_on(wanted, begun.identity)
        if self._is_there(wanted):
            return
        content = probed(self._host, wanted.device, wanted.owner)
        if not content.fstype:
            self._refuse_read_only(wanted)
            self._format(wanted, self._formatting.prove_empty(wanted.device, wanted.fstype, wanted.owner))
        elif not wanted.read_only and self._host.block.is_free(wanted.device):
            has = ext_size(self._host, wanted.device) if content.fstype in EXT else 0
            self._refuse_shrunk(wanted, has)
            self._check(wanted)
            self._grow_unmounted(wanted, has)
        self._mount_found(wanted, content.fstype or wanted.fstype)

    def unmount(self, target: Path) -> None:
        """Unmount a device's directory and remove it; gone is success. Raises BusyError, or OperationError for data."""
        self._host.mounts.unmount(target)
        remove_mount_point(target, self._host)

    def grow(self, device: Path, target: Path, *, deadline: float = FORMAT_DEADLINE) -> int:
        """Let the file system mounted on `target` use all of its device; gives the device's size in bytes.

        xfs and btrfs grow mounted; ext does so if volmgr may (CAP_SYS_RESOURCE), else at its next mount.
        """
        entry = self._host.mounts.entry(target)
        if entry is None:
            raise OperationError(f"cannot grow the file system of {device}: it is not mounted on {target}")
        commands = {
            "xfs": ("xfs_growfs", "-d", str(target)),
            "btrfs": ("btrfs", "filesystem", "resize", "max", str(target)),
        }
        if entry.fstype in commands:
            self._host.commands.run(commands[entry.fstype], deadline=deadline)
        elif entry.fstype in EXT:
            self._grow_mounted_ext(device, deadline)
        else:
            raise OperationError(f"cannot grow the file system of {device}: nobody knows how, for type {entry.fstype}")
        return self._host.block.size(device)

    def measure(self, path: Path) -> Usage:
        """Say what the file system on `path` uses; of a device (a link to one), how large it is, and that it is free.

        What a Pod has in a device of its own, it alone knows; kubelet gives the capacity and no more.
        """
        info = self._host.files.info(path, follow=True)
        if info is not None and info.kind == "block":
            size = self._host.block.size(path)
            return Usage(capacity=size, available=size, used=0, inodes=0, inodes_free=0, inodes_used=0)
        found = self._host.mounts.file_system(path)
        return Usage(
            capacity=found.size,
            available=found.available,
            used=found.size - found.available,
            inodes=found.inodes,
            inodes_free=found.inodes_free,
            inodes_used=found.inodes - found.inodes_free,
        )

    def _is_there(self, wanted: DeviceMount) -> bool:
        if not self._host.mounts.is_mount_point(wanted.target):
            return False
        entry = self._host.mounts.entry(wanted.target)
        if entry is None or not self._is_of(entry, wanted.device):
            source = "something" if entry is None else f"{entry.source} ({entry.fstype})"
            raise OperationError(
                f"cannot mount {wanted.device} on {wanted.target}: {source} is mounted there; unmount it first"
            )
        return True

    def _is_of(self, entry: MountEntry, device: Path) -> bool:
        """Say whether a mount is of a device: by its source's number, since that of a btrfs is made up."""
        there, wanted = (self._host.files.info(path, follow=True) for path in (Path(entry.source), device))
        return there is not None and wanted is not None and there.kind == "block" and there.rdev == wanted.rdev

    def _refuse_read_only(self, wanted: DeviceMount) -> None:
        if wanted.read_only:
            raise OperationError(
                f"cannot mount {wanted.device} for {wanted.owner}: it has no file system, and a read-only volume is"
                " never formatted; make one by hand, or use the volume writable once"
            )

    def _format(self, wanted: DeviceMount, identity: str, *, again: bool = False) -> None:
        wanted.progress(f"making a file system of type {wanted.fstype} on {wanted.device}")
        self._formatting.format(
            wanted.device, identity, wanted.fstype, wanted.owner, deadline=wanted.deadline, again=again
        )

    def _go_on(self, wanted: DeviceMount, identity: str) -> None:
        """End a formatting of ours that was cut off: no Pod has had the device since."""
        self._host.mounts.unmount(wanted.target)  # of _is_whole(), if that was cut off
        content = probed(self._host, wanted.device, wanted.owner)
        ours = not content.known or content.fstype == wanted.fstype
        if ours and not (content.fstype and self._is_whole(wanted)):
            self._refuse_read_only(wanted)
            if not self._host.block.is_free(wanted.device):
                raise OperationError(f"cannot format {wanted.device} for {wanted.owner}: the device is in use")
            self._format(wanted, identity, again=True)
        self._formatting.ended(wanted.device)

    def _is_whole(self, wanted: DeviceMount) -> bool:
        """Say whether the file system that is there can be mounted at all."""
        try:
            self._mount(replace(wanted, read_only=True, options=(), sensitive=()))
        except OperationError:
            return False
        self._host.mounts.unmount(wanted.target)
        return True

    def _refuse_shrunk(self, wanted: DeviceMount, has: int) -> None:
        """Refuse a device that is smaller than its file system, before fsck takes that for an error to correct."""
        size = self._host.block.size(wanted.device)
        if has > size:
            raise OperationError(
                f"cannot mount {wanted.device} for {wanted.owner}: its file system has {has} bytes and the device only"
                f" {size}: it shrank, or is another one; nothing on it was touched"
            )

    def _check(self, wanted: DeviceMount) -> None:
        """Let fsck correct what it safely can; refuse what it cannot."""
        if self._host.commands.find("fsck") is None:
            wanted.progress(f"fsck is not installed: {wanted.device} is mounted unchecked")
            return
        argv = ("fsck", "-a", str(wanted.device))
        result = self._host.commands.run(argv, deadline=wanted.deadline, accept=_ALL)
        if result.exit_code == _UNCORRECTED:
            raise OperationError(
                f"cannot mount {wanted.device} for {wanted.owner}: `{' '.join(argv)}` found errors that it does not"
                f" correct by itself; repair it by hand: fsck {wanted.device}"
            )
        if result.exit_code == _CORRECTED:
            wanted.progress(f"fsck corrected errors on {wanted.device}")

    def _grow_unmounted(self, wanted: DeviceMount, has: int) -> None:
        """Grow ext before it is mounted, which needs no privilege, if the volume asks for more than it has."""
        device = wanted.device
        if not 0 < has < min(wanted.size, self._host.block.size(device)):
            return
        wanted.progress(f"growing the file system of {device}")
        argv = ("e2fsck", "-f", "-p", str(device))
        self._host.commands.run(argv, deadline=wanted.deadline, accept=(0, _CORRECTED))
        self._host.commands.run(("resize2fs", str(device)), deadline=wanted.deadline)

    def _mount_found(self, wanted: DeviceMount, fstype: str) -> None:
        try:
            self._mount(wanted)
        except OperationError as error:
            if fstype == wanted.fstype:
                raise
            raise OperationError(
                f"cannot mount {wanted.device} for {wanted.owner}: filesystem mismatch: it has {fstype}, and the volume"
                f" asks for {wanted.fstype}; correct fsType, or use another device ({error})"
            ) from error

    def _mount(self, wanted: DeviceMount) -> None:
        options = ["defaults", *(read_only_options(wanted.options) if wanted.read_only else wanted.options)]
        if wanted.fstype == "xfs" and self._host.settings_of(FileSystemSettings).xfs_nouuid:
            options.append("nouuid")
        self._host.mounts.ensure_mounted(
            wanted.target,
            wanted.fstype,
            source=str(wanted.device),
            options=tuple(dict.fromkeys(options)),
            sensitive=wanted.sensitive,
            deadline=wanted.deadline,
        )

    def _grow_mounted_ext(self, device: Path, deadline: float) -> None:
        try:
            self._host.commands.run(("resize2fs", str(device)), deadline=deadline)
        except CommandError as error:
            raise OperationError(
                f"cannot grow the mounted file system of {device}: it needs CAP_SYS_RESOURCE; give volmgr that, or let"
                f" all pods of the volume go: it grows when it is mounted next ({error.stderr.strip()})"
            ) from error
