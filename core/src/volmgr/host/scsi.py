"""SCSI disks of this machine: found in sysfs, and asked, scanned and removed by helpers that can be killed.

Whatever may wait for a storage that does not answer is a helper's: writing to sysfs' `scan`, `rescan` and `delete`,
too. Sources: `drivers/scsi/scsi_sysfs.c`, `scsi_scan.c` and `block/ioctl.c` of Linux.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from volmgr.errors import BusyError, CommandError, OperationError, UncertainError
from volmgr.host import multipath, uevents
from volmgr.host.interface import SCSI_DEADLINE, SCSI_ID, MultipathMap, ScsiAddress, ScsiDisk
from volmgr.host.multipath import MultipathTools
from volmgr.host.scsi_identity import identity_of
from volmgr.host.sysfs import Sysfs
from volmgr.host.unasked import never

if TYPE_CHECKING:
    from volmgr.host.interface import BlockDevices, Commands, Mounts

T = TypeVar("T")

_WAITING = frozenset({"blocked", "created-blocked", "recovery"})
"""States in which the kernel waits for a path, or a SCSI host, before it does anything to a disk."""
_ASKING = ("--whitelisted", "--replace-whitespace", "--page=0x83", "--device")


class LocalScsi:
    """SCSI disks, by sysfs."""

    def __init__(self, commands: Commands, block: BlockDevices, mounts: Mounts, sysfs: Sysfs | None = None) -> None:
        self._commands = commands
        self._block = block
        self._mounts = mounts
        self._sysfs = sysfs or Sysfs()
        self._tools = MultipathTools(commands, self._sysfs)

    def disks(self, *, host: int | None = None, identities: Collection[str] | None = None) -> tuple[ScsiDisk, ...]:
        """Give every disk that the kernel knows, or those that are asked for, by address."""

        def wanted(address: ScsiAddress) -> bool:
            is_there = host in (None, address.host)
            return is_there and (identities is None or self._remembered(address) in identities)

        return tuple(self._sysfs.disks(wanted))

    def disk_at(self, address: ScsiAddress) -> ScsiDisk | None:
        """Give the disk of a LUN, when its block device is there."""
        return self._sysfs.disk_at(address)

    def disk_of(self, device: Path) -> ScsiDisk | None:
        """Give the disk whose block device this is."""
        return self._sysfs.disk_of(device)

    def scan(
        self,
        host: int,
        *,
        channel: int | None = None,
        target: int | None = None,
        lun: int | None = None,
        deadline: float = SCSI_DEADLINE,
    ) -> None:
        """Let one SCSI host look for a LUN."""
        words = " ".join("-" if word is None else str(word) for word in (channel, target, lun))
        place = self._sysfs.host(host)
        if not place.exists():
            raise OperationError(f"cannot scan SCSI host {host}: there is none")
        self._write(place / "scan", words, f"scan SCSI host {host} for {words}", deadline)

    def identity(self, disk: ScsiDisk, *, deadline: float = SCSI_DEADLINE) -> str:
        """Ask the disk itself, by udev's scsi_id."""
        attempt = f"ask {disk.device} ({disk.address}) who it is"
        self._refuse_silent(disk, attempt)
        tool = next(filter(None, map(self._commands.find, SCSI_ID)), None)
        if tool is None:
            raise OperationError(f"cannot {attempt}: {SCSI_ID[0]} is not installed; install udev")
        try:
            said = self._commands.run((str(tool), *_ASKING, str(disk.device)), deadline=deadline, changes=False)
        except (CommandError, UncertainError) as error:  # it only looks: nothing is left behind
            raise OperationError(f"cannot {attempt}: it does not answer ({error})") from error
        if not said.stdout.strip():
            raise OperationError(f"cannot {attempt}: it has no identity (VPD page 0x83); let its storage give it one")
        return said.stdout.strip()

    def remembered_identity(self, disk: ScsiDisk) -> str:
        """Read what the kernel read when it scanned, or last rescanned."""
        return self._remembered(disk.address)

    def _remembered(self, address: ScsiAddress) -> str:
        try:
            return identity_of((self._sysfs.device(address) / "vpd_pg83").read_bytes())
        except OSError:
            return ""

    def rescan(self, disk: ScsiDisk, *, deadline: float = SCSI_DEADLINE) -> ScsiDisk:
        """Let the kernel read the size anew; what it remembers of the identity, too."""
        attempt = f"rescan {disk.device} ({disk.address})"
        self._refuse_silent(disk, attempt)
        self._write(self._sysfs.device(disk.address) / "rescan", "1", attempt, deadline)
        self._refuse_silent(disk, attempt)  # the kernel asks none in another state, and says nothing of it
        found = self._sysfs.disk_at(disk.address)
        if found is None:
            raise OperationError(f"cannot {attempt}: it is gone")
        return found

    def flush(self, device: Path, *, deadline: float = SCSI_DEADLINE) -> None:
        """Write what is buffered, by fdatasync: `blockdev --flushbufs` does, and is silent about what it could not."""
        disk = self._sysfs.disk_of(device)
        if disk is not None:
            self._refuse_silent(disk, f"flush {device}")
        try:
            self._commands.run(("sync", "-d", str(device)), deadline=deadline)
        except CommandError as error:
            raise OperationError(
                f"cannot flush {device}: {error.stderr.strip()}; what was written may not be on the storage"
            ) from error

    def remove(self, disk: ScsiDisk, *, deadline: float = SCSI_DEADLINE) -> None:
        """Let the kernel forget a disk."""
        until = time.monotonic() + deadline
        attempt = f"remove {disk.device} ({disk.address})"
        if not self._is_known(disk):
            return
        holders = self._sysfs.holders(disk.name)
        if holders or not self._is_free(disk):
            raise BusyError(f"cannot {attempt}: it is in use", holders)
        trouble = self._sysfs.trouble(disk)
        if trouble in _WAITING:
            raise OperationError(f"cannot {attempt}: it is {trouble}; it goes when the kernel gives its path up")
        try:
            self._write(self._sysfs.device(disk.address) / "delete", "1", attempt, deadline)
        except OperationError:
            if self._is_known(disk):
                raise
        gone = self.awaited(lambda: None if self._is_known(disk) else True, deadline=until - time.monotonic())
        if gone is None:
            raise UncertainError(f"cannot {attempt}: the kernel was told to, and still has it")

    def map_over(self, disks: Sequence[ScsiDisk]) -> MultipathMap | None:
        """Give the map that holds one of these."""
        return next(filter(None, (self._sysfs.map_over(disk.name) for disk in disks)), None)

    def map_of(self, device: Path) -> MultipathMap | None:
        """Give the map whose block device this is."""
        return self._sysfs.map_of(device)

    def remove_map(self, found: MultipathMap, *, deadline: float = SCSI_DEADLINE) -> None:
        """Flush a map that nobody uses, and take it away."""
        until = time.monotonic() + deadline
        if self._sysfs.map_named(found.kernel_name) is None:
            return
        users = self._sysfs.users(found.kernel_name)
        if users or not self._block.is_free(found.device):
            raise BusyError(f"cannot remove the multipath map {found.name} ({found.device}): it is in use", users)
        failing = self._tools.fail_if_no_path_works(found, deadline=deadline)
        try:
            self.flush(found.device, deadline=until - time.monotonic())
        except OperationError as error:
            if failing:
                raise OperationError(f"{error}: none of the paths of map {found.name} works") from error
            raise
        self._tools.remove(found, deadline=until - time.monotonic())

    def grow_map(self, found: MultipathMap, *, deadline: float = SCSI_DEADLINE) -> None:
        """Let a map have the size of its disks."""
        self._tools.grow(found, deadline=deadline)

    def multipath_runs(self) -> bool:
        """Say whether multipathd runs."""
        return multipath.daemon_runs()

    def awaited(
        self,
        look: Callable[[], T | None],
        *,
        deadline: float = SCSI_DEADLINE,
        cancelled: Callable[[], bool] = never,
    ) -> T | None:
        """Look at once, and whenever the kernel or udev says something of a disk."""
        return uevents.awaited(look, deadline=deadline, cancelled=cancelled)

    def _is_known(self, disk: ScsiDisk) -> bool:
        return (self._sysfs.device(disk.address) / "block" / disk.name).exists()

    def _is_free(self, disk: ScsiDisk) -> bool:
        """Say whether nobody has a disk; one that may not answer is not opened, which could wait for it."""
        mounted = {entry.device for entry in self._mounts.table()}
        if mounted & self._sysfs.numbers(disk.name):
            return False
        return bool(self._sysfs.trouble(disk)) or self._block.is_free(disk.device)

    def _refuse_silent(self, disk: ScsiDisk, attempt: str) -> None:
        """Refuse at once what a disk would not answer: each try would leave a process that waits in the kernel."""
        trouble = self._sysfs.trouble(disk)
        if trouble:
            raise OperationError(f"cannot {attempt}: it is {trouble}; look at the path to its storage")

    def _write(self, path: Path, text: str, attempt: str, deadline: float) -> None:
        try:
            self._commands.run(("tee", str(path)), stdin=text.encode(), deadline=deadline)
        except CommandError as error:
            raise OperationError(f"cannot {attempt}: {error.stderr.strip()}") from error
