"""SCSI disks and the multipath maps over them: where they are, who they are, and how they go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")

SCSI_DEADLINE = 30.0
"""Seconds that a disk may take to appear, answer, flush or go when its caller says nothing; kubelet's wait for one."""

SCSI_ID = ("/usr/lib/udev/scsi_id", "/lib/udev/scsi_id")
"""Where udev's tool is that asks a disk who it is."""


class ScsiAddress(NamedTuple):
    """Where a LUN is: `2:0:0:5` in sysfs."""

    host: int
    channel: int
    target: int
    lun: int

    def __str__(self) -> str:
        return ":".join(map(str, self))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScsiDisk:
    """One LUN as it is reached over one path; `state` is sysfs' (`running`, `offline`, `transport-offline` …)."""

    name: str
    """The kernel's: `sdb`."""
    address: ScsiAddress
    state: str = "running"
    size: int = 0
    """Bytes, as the kernel knows them."""

    @property
    def device(self) -> Path:
        """Its block device."""
        return Path("/dev") / self.name

    @property
    def is_running(self) -> bool:
        """Whether it can be asked; what asks another one may wait for its path."""
        return self.state == "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipathMap:
    """A multipath map and its paths that the kernel knows."""

    name: str
    """The device mapper's: `mpatha`, or the WWID."""
    kernel_name: str
    """`dm-0`."""
    wwid: str
    """As in its UUID `mpath-36001405…`; what `identity` gives for each of its disks."""
    disks: tuple[ScsiDisk, ...] = ()
    size: int = 0
    """Bytes; 0 while it is being made."""

    @property
    def device(self) -> Path:
        """Its block device, under the name that the kernel has for it, as kubelet gives it."""
        return Path("/dev") / self.kernel_name


class Scsi(Protocol):
    """SCSI disks of the node. What may wait for a storage that does not answer is done by killable helpers."""

    def disks(self, *, host: int | None = None, identities: Collection[str] | None = None) -> tuple[ScsiDisk, ...]:
        """Give every disk that the kernel knows, whatever it is reached by: of a SCSI host, or of these identities.

        Of hundreds no more is read than that. Identities are as `remembered_identity` gives them.
        """
        ...

    def disk_at(self, address: ScsiAddress) -> ScsiDisk | None:
        """Give the disk of a LUN that the kernel knows, when its block device is there, too."""
        ...

    def disk_of(self, device: Path) -> ScsiDisk | None:
        """Give the disk whose block device (or link to it) this is; None for another kind of device, or none."""
        ...

    def scan(
        self,
        host: int,
        *,
        channel: int | None = None,
        target: int | None = None,
        lun: int | None = None,
        deadline: float = SCSI_DEADLINE,
    ) -> None:
        """Let one SCSI host look for a LUN; None is every one of them. Raises OperationError.

        What it finds may appear later, also that of other LUNs: `awaited`.
        """
        ...

    def identity(self, disk: ScsiDisk, *, deadline: float = SCSI_DEADLINE) -> str:
        """Ask the disk itself, not what the kernel remembers of it, who it is (VPD page 0x83): `36001405…`.

        The text is udev's and multipath's WWID. Raises OperationError when it does not answer or has none.
        """
        ...

    def remembered_identity(self, disk: ScsiDisk) -> str:
        """Give who the kernel found at that address when it was scanned, as `identity` writes it; empty: not known."""
        ...

    def rescan(self, disk: ScsiDisk, *, deadline: float = SCSI_DEADLINE) -> ScsiDisk:
        """Let the kernel read a disk's size anew, and give the disk as it is now.

        What it remembers of the identity is read anew, too. Raises OperationError for a disk that does not run.
        """
        ...

    def flush(self, device: Path, *, deadline: float = SCSI_DEADLINE) -> None:
        """Write what is buffered of a block device; raises OperationError when that, or a write since, failed."""
        ...

    def remove(self, disk: ScsiDisk, *, deadline: float = SCSI_DEADLINE) -> None:
        """Let the kernel forget a disk, and wait until it has; gone is success. Raises BusyError for one in use.

        It is not flushed: that comes before, and its failure is a reason not to go on.
        """
        ...

    def map_over(self, disks: Sequence[ScsiDisk]) -> MultipathMap | None:
        """Give the multipath map that has one of these as a path; other holders (partitions, LVM) are none.

        One that is being made, or is suspended, is given, too: a map with a `size` can be used.
        """
        ...

    def map_of(self, device: Path) -> MultipathMap | None:
        """Give the multipath map whose block device (or link to it) this is."""
        ...

    def remove_map(self, found: MultipathMap, *, deadline: float = SCSI_DEADLINE) -> None:
        """Flush a map and take it away (`multipath -f`); gone is success. Raises BusyError, OperationError.

        A map none of whose paths works fails what is written, from then on: it would wait for a path for ever.
        """
        ...

    def grow_map(self, found: MultipathMap, *, deadline: float = SCSI_DEADLINE) -> None:
        """Let a map have the new size of its disks, which were rescanned before; raises OperationError."""
        ...

    def multipath_runs(self) -> bool:
        """Say whether multipathd runs: only then maps are made of new disks."""
        ...

    def awaited(
        self, look: Callable[[], T | None], *, deadline: float = SCSI_DEADLINE, cancelled: Callable[[], bool] = ...
    ) -> T | None:
        """Give what `look` finds: at once, or when the kernel or udev says that a device came, changed or went.

        None: it found nothing in `deadline` seconds, or is cancelled. It does not poll.
        """
        ...
