"""The paths of a volume's disk: proved to lead to it, given as one device, grown, and taken away without a loss.

Composed of the host's services, so it works on each kind of host. Where a disk is, and what lets the kernel look
there, its volume type says. Who the disk was is remembered in `ROOT/volmgr/<type>/disks/` while it is connected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import BusyError, OperationError, UnansweredError
from volmgr.host.checkpoints import Checkpoints
from volmgr.host.interface import SCSI_DEADLINE, MultipathMap, ScsiAddress, ScsiDisk
from volmgr.host.unasked import never
from volmgr.requests import Notice

if TYPE_CHECKING:
    from volmgr.host.interface import Host

MAP_WAIT = 10.0
"""Seconds that multipathd may take to make a map of the paths; kubelet's wait for it."""

DEGRADED = "PathsDegraded"
"""The reason of the event that says which paths of a disk do not work."""

_SCSI_NAME = "8"  # how an identity begins that udev's scsi_id does not know: it could not be proved a second time


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is seen of a volume's disk: paths that lead to it, and addresses at which it is, if the kernel looks there.

    A disk at one of the addresses need not be named.
    """

    disks: tuple[ScsiDisk, ...] = ()
    addresses: tuple[ScsiAddress, ...] = ()


Look = Callable[[], Sight]
"""Looks where a volume's disk is now; changes nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedDisk:
    """The device of a connected disk, and what its Pods' owners should know of its paths."""

    device: Path
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the paths answered when they were asked who they are."""

    answers: Mapping[ScsiDisk, str]
    silent: Mapping[ScsiDisk, str]
    """Those that did not answer, each with what was said instead."""
    stale: tuple[ScsiDisk, ...]
    """Those of which the kernel remembers another disk than there is, or that nothing is behind any more."""

    @property
    def proved(self) -> tuple[ScsiDisk, ...]:
        return tuple(disk for disk in self.answers if disk not in self.stale)


def _nowhere() -> None:
    """Look nowhere else."""


class DiskPaths:
    """The paths of one volume's disk on one host."""

    def __init__(
        self,
        host: Host,
        plugin: str,
        target: Path,
        volume: str,
        *,
        deadline: float = float("inf"),
        cancelled: Callable[[], bool] = never,
    ) -> None:
        """Take the volume whose directory on the node is `target`; `volume` names it in messages.

        `deadline` is that of the request, in seconds on the host's clock.
        """
        self._host = host
        self._scsi = host.scsi
        self._volume = volume
        self._deadline = deadline
        self._cancelled = cancelled
        self._checkpoints = Checkpoints(host, plugin.rpartition("/")[2], "disks", durable=False)
        self._record = self._checkpoints.name_of(target)

    def connect(
        self,
        look: Look,
        *,
        several: bool = False,
        in_use: bool = False,
        disk_wait: float = SCSI_DEADLINE,
        map_wait: float = MAP_WAIT,
        search: Callable[[], None] = _nowhere,
    ) -> ConnectedDisk | None:
        """Give the device of the disk that is seen; None when there is none after `disk_wait` seconds.

        Each path is asked who it leads to (the kernel has just asked those that it found now), and all must say the
        same; what the kernel only remembers is removed and looked for anew. A map is waited for, for `map_wait`
        seconds, when there are `several` paths or should be; one that is there is always taken. While the volume is
        `in_use`, it must be the disk that it was. `search` is done where neither disks nor addresses are seen.

        Raises OperationError when the paths lead to different disks, to another one than the volume had, or to a map
        that is another's or not ready; UnansweredError when none answers. What was let appear stays: `take_away`.
        """
        found, new = self._sought(look, disk_wait, search)
        if not found.disks:
            return None
        asked = self._asked(found.disks, new, in_use=in_use)
        if asked.stale:
            self._dismiss(asked.stale)
            found, new = self._sought(look, disk_wait, search)
            if not found.disks:
                return None
            asked = self._asked(found.disks, new, in_use=in_use)
        identity = self._identity(asked)
        several = several or len(found.disks) > 1
        expected = several and not in_use and self._scsi.multipath_runs()
        over = self._map(asked.proved, map_wait, expected=expected)
        if over is not None and over.wwid != identity:
            raise OperationError(
                f"{self._cannot} its paths lead to {identity}, and the multipath map over them,"
                f" {over.device} ({over.name}), is of {over.wwid}: flush it (multipath -f {over.name})"
            )
        self._remember(identity)
        device = over.device if over is not None else self._one_of(asked, in_use=in_use).device
        return ConnectedDisk(device=device, notices=self._notices(asked, over, several=several))

    def take_away(self, look: Look, *, device: str = "") -> None:
        """Let the disk go, which nobody has mounted any more: nothing that is buffered is lost; gone is success.

        The map is flushed and removed, then each path is flushed, then each is removed; whatever fails stops it.
        A path that is down is not flushed, if all was written by a map. `device` is what it was known by. Raises
        BusyError while somebody uses it, unless nobody knows that it is this volume's.
        """
        identity = self._remembered()
        seen = [disk for disk in self._seen(look).disks if self._is(disk, identity)]
        if identity:  # paths of which nothing else leads here any more: a port that is gone, a session that ended
            seen += self._scsi.disks(identities={identity})
        try:
            self._take_away(seen, self._known_map(identity, device))
        except BusyError:
            if identity:
                raise  # else it was never connected as this volume's: who uses it has it by right

    def grow(self, look: Look) -> Path:
        """Let the kernel see the size that the disk has now, by each of its paths; gives the device.

        Raises OperationError for a path that leads to another disk: a file system would be grown over that one's data.
        """
        seen = self._seen(look).disks
        over = self._scsi.map_over(seen)
        disks = over.disks if over is not None else seen
        if not disks:
            raise OperationError(f"cannot grow the disk of {self._volume}: no path to it is known")
        self._refuse_others({disk: self._scsi.identity(disk, deadline=self._left()) for disk in disks})
        for disk in disks:
            self._scsi.rescan(disk, deadline=self._left())
        if over is None:
            return self._used_of(disks).device
        self._scsi.grow_map(over, deadline=self._left())
        return over.device

    def forget(self) -> None:
        """Forget who the disk was: it is connected no more."""
        self._checkpoints.remove(self._record)

    # Finding it

    def _sought(self, look: Look, wait: float, search: Callable[[], None]) -> tuple[Sight, frozenset[ScsiAddress]]:
        """Look, let the kernel look where it has not found the disk, and wait for what it finds.

        Gives what is seen then, and the addresses at which the kernel knew nothing before.
        """
        found = self._seen(look)
        missing = self._missing(found)
        new = frozenset(address for address in missing if not self._is_known(address))
        failures: list[OperationError] = []
        if not found.disks and not found.addresses:
            search()
        for address in missing:
            try:
                self._scan(address)
            except OperationError as error:
                failures.append(error)

        def settled() -> Sight | None:
            now = self._seen(look)
            return now if now.disks and not any(map(self._is_known, self._missing(now))) else None

        found = self._scsi.awaited(settled, deadline=self._left(wait), cancelled=self._cancelled) or self._seen(look)
        if failures and not found.disks:
            raise failures[0]
        return found, new

    def _seen(self, look: Look) -> Sight:
        """Look, and give the disks that the kernel has at the addresses, too."""
        sight = look()
        at = (self._scsi.disk_at(address) for address in sight.addresses)
        named = {disk.name: disk for disk in (*sight.disks, *at) if disk is not None}
        return Sight(disks=tuple(named.values()), addresses=sight.addresses)

    def _missing(self, seen: Sight) -> tuple[ScsiAddress, ...]:
        return tuple(address for address in seen.addresses if self._scsi.disk_at(address) is None)

    def _is_known(self, address: ScsiAddress) -> bool:
        """Say whether the kernel has found a LUN, of which it may not have made a disk yet."""
        return self._host.files.info(Path(f"/sys/class/scsi_device/{address}")) is not None

    def _scan(self, address: ScsiAddress) -> None:
        host, channel, target, lun = address
        self._scsi.scan(host, channel=channel, target=target, lun=lun, deadline=self._left())

    # Proving it

    def _asked(self, disks: Sequence[ScsiDisk], new: Collection[ScsiAddress], *, in_use: bool) -> _Asked:
        """Ask each path who it leads to; raises OperationError where that is not the disk which the volume uses.

        The kernel has just asked those that are new, before it made a disk of them.
        """
        answers: dict[ScsiDisk, str] = {}
        silent: dict[ScsiDisk, str] = {}
        for disk in disks:
            is_new = disk.address in new and disk.is_running
            said = self._scsi.remembered_identity(disk) if is_new else ""
            try:
                answers[disk] = (said if said[:1] != _SCSI_NAME else "") or self._scsi.identity(
                    disk, deadline=self._left()
                )
            except OperationError as error:
                silent[disk] = str(error)
        if in_use:
            self._refuse_others(answers)
            return _Asked(answers=answers, silent=silent, stale=())
        changed = [disk for disk, who in answers.items() if self._scsi.remembered_identity(disk) not in ("", who)]
        dead = [disk for disk in silent if disk.is_running and self._is_unused(disk)]  # its port answers
        return _Asked(answers=answers, silent=silent, stale=(*changed, *dead))

    def _is_unused(self, disk: ScsiDisk) -> bool:
        over = self._scsi.map_over([disk])
        return self._host.block.is_free(disk.device if over is None else over.device)

    def _refuse_others(self, answers: Mapping[ScsiDisk, str]) -> None:
        for disk, who in answers.items():
            was = self._remembered() or self._scsi.remembered_identity(disk)  # of one that a kubelet connected
            if was and who != was:
                raise OperationError(
                    f"{self._cannot} {disk.device} ({disk.address}) leads to the disk {who} now, and the volume in use"
                    f" is {was}: the storage gave its LUN to another volume; give it back, or delete the volume's pods"
                )

    def _dismiss(self, stale: Iterable[ScsiDisk]) -> None:
        """Let the kernel forget paths to what is there no more, with the unused maps over them, and look again.

        The other paths of such a map go, too: multipathd gathers what appears, not what it once had.
        """
        gone = {disk.name: disk for disk in stale}
        for disk in stale:
            over = self._scsi.map_over([disk])
            if over is not None:
                self._scsi.remove_map(over, deadline=self._left())
                gone |= {each.name: each for each in over.disks}
        for disk in gone.values():
            self._scsi.remove(disk, deadline=self._left())
        for disk in gone.values():
            self._scan(disk.address)

    def _identity(self, asked: _Asked) -> str:
        """Say who the disk is, as all paths say that answer; raises OperationError where nobody can say that."""
        if asked.stale:
            disk = asked.stale[0]
            said = asked.silent.get(disk) or f"it leads to {asked.answers[disk]}, and is taken for another disk"
            raise OperationError(
                f"{self._cannot} {disk.device} ({disk.address}) was looked for anew, and still: {said}"
            )
        if not asked.answers:
            raise UnansweredError(f"{self._cannot} no path answers: {'; '.join(asked.silent.values())}")
        if len(set(asked.answers.values())) > 1:
            said = ", ".join(f"{disk.device} ({disk.address}) to {who}" for disk, who in asked.answers.items())
            raise OperationError(
                f"{self._cannot} its paths lead to different disks: {said}; correct the volume, or what the storage"
                " shows by these ports"
            )
        return next(iter(asked.answers.values()))

    def _is(self, disk: ScsiDisk, identity: str) -> bool:
        """Say whether a path is of this disk, as far as the kernel knows: where nobody knows, it is."""
        return not identity or self._scsi.remembered_identity(disk) in ("", identity)

    # Giving one device

    def _map(self, disks: Sequence[ScsiDisk], wait: float, *, expected: bool) -> MultipathMap | None:
        """Give the map over the paths; if one is expected, or is being made, wait for it with all of them in it."""

        def whole() -> MultipathMap | None:
            over = self._scsi.map_over(disks)
            has = {disk.name for disk in over.disks} if over is not None and over.size else set[str]()
            return over if {disk.name for disk in disks} <= has else None

        over = self._scsi.map_over(disks)
        if expected or (over is not None and not over.size):
            self._scsi.awaited(whole, deadline=self._left(wait), cancelled=self._cancelled)
            over = self._scsi.map_over(disks)
        if over is not None and not over.size:
            raise OperationError(
                f"{self._cannot} the multipath map {over.name} ({over.device}) is not ready after {wait:g} s; see why:"
                f" dmsetup info {over.name}"
            )
        return over

    def _one_of(self, asked: _Asked, *, in_use: bool) -> ScsiDisk:
        return self._used_of((*asked.proved, *asked.silent)) if in_use else asked.proved[0]

    def _used_of(self, disks: Sequence[ScsiDisk]) -> ScsiDisk:
        """Give the path that is used, of a disk without a map."""
        return next((disk for disk in disks if not self._host.block.is_free(disk.device)), disks[0])

    def _notices(self, asked: _Asked, over: MultipathMap | None, *, several: bool) -> tuple[Notice, ...]:
        said = [f"{disk.device} ({disk.address}, {disk.state}): {why}" for disk, why in asked.silent.items()]
        if over is not None:
            has = {disk.name for disk in over.disks}
            said += [
                f"{disk.device} ({disk.address}) is not in {over.name}" for disk in asked.proved if disk.name not in has
            ]
        elif several and self._scsi.multipath_runs():
            said.append(
                "multipathd made no map of them, so one alone is used; ask it why: multipath -v3 -d"
                f" {asked.proved[0].device}"
            )
        elif several:
            said.append("multipathd does not run, so one path alone is used: start it")
        if not said:
            return ()
        return (Notice(DEGRADED, f"not every path to the disk of {self._volume} is used: {'; '.join(said)}"),)

    # Taking it away

    def _known_map(self, identity: str, device: str) -> MultipathMap | None:
        """Find a map that may have lost all of its paths."""
        names = (f"/dev/disk/by-id/dm-uuid-mpath-{identity}", device)
        found = (self._scsi.map_of(Path(name)) for name in names if identity and name)
        return next((over for over in found if over is not None and over.wwid == identity), None)

    def _take_away(self, disks: Iterable[ScsiDisk], known: MultipathMap | None = None) -> None:
        every = {disk.name: disk for disk in disks}
        over = self._scsi.map_over(tuple(every.values())) or known
        if over is not None:
            self._scsi.remove_map(over, deadline=self._left())
            every |= {disk.name: disk for disk in over.disks}
        for disk in every.values():
            if over is None or disk.is_running:
                self._scsi.flush(disk.device, deadline=self._left())
        for disk in every.values():
            self._scsi.remove(disk, deadline=self._left())

    # Remembering it

    def _remember(self, identity: str) -> None:
        if self._remembered() != identity:
            self._checkpoints.write(self._record, {"volume": self._volume, "identity": identity})

    def _remembered(self) -> str:
        """Give who the disk was; empty when nobody knows."""
        identity = (self._checkpoints.read(self._record) or {}).get("identity")
        return identity if isinstance(identity, str) else ""

    @property
    def _cannot(self) -> str:
        return f"cannot connect the disk of {self._volume}:"

    def _left(self, at_most: float = SCSI_DEADLINE) -> float:
        """Give the seconds that one more step may take."""
        return max(0.0, min(at_most, self._deadline - self._host.clock()))
