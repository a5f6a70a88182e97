"""A storage network in memory: LUNs behind addresses, what the kernel knows of them, and multipath maps over them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from volmgr.errors import BusyError, OperationError
from volmgr.host.interface import SCSI_DEADLINE, MultipathMap, ScsiAddress, ScsiDisk
from volmgr.testing.disks import Disk, Node, Shared
from volmgr.testing.fake_services import FakeBlockDevices, attempt, never, one_at_a_time
from volmgr.testing.machine import Machine

T = TypeVar("T")

Address = ScsiAddress | tuple[int, int, int, int]

_MIB = 1 << 20
_SD, _DM = 8, 253  # major numbers
_TOPS = ("/dev/disk/by-id", "/dev/disk/by-path", "/dev/mapper", "/sys/block", "/sys/class/scsi_device")
_LETTERS = "bcdefghijklmnopqrstuvwxyz"  # sda is the machine's own


class Lun:
    """A disk of the storage, whichever paths lead to it; grown there, it is larger for the kernel after a rescan."""

    def __init__(self, wwid: str, size: int) -> None:
        self.wwid = wwid
        self.size = size
        self.storage = Node(_NOWHERE, "block", 0, content=_empty(size))

    def grow(self, size: int) -> None:
        """Give it more room."""
        self.storage.content = self.storage.content.ljust(size, b"\0")
        self.size = size


@cache
def _empty(size: int) -> bytes:
    """Give what is on a disk that nobody has written to: all of one size share it."""
    return bytes(size)


_NOWHERE = Disk("none", 0, source="storage")


@dataclass
class _Known:
    """A disk that the kernel found at an address, and who it was then."""

    disk: ScsiDisk
    identity: str
    shared: Shared
    links: tuple[str, ...]
    rdev: int
    cut: bool = False


@dataclass
class _Map:
    name: str
    wwid: str
    paths: list[str]
    shared: Shared
    rdev: int


@one_at_a_time
@dataclass
class FakeScsi:
    """SCSI disks in memory.

    `plug` and `unplug` are what the storage does, and nobody hears of it before a scan; `cut` and `mend` are the cable.
    Known disks are block devices in `/dev`, with their links below `/dev/disk`, and directories below
    `/sys/class/scsi_device` and `/sys/block`.
    """

    machine: Machine
    block: FakeBlockDevices
    pass_time: Callable[[float], None]
    multipathd: bool = False
    """Whether multipathd runs, and makes a map of disks that come by two paths."""
    paths_of_a_map: int = 2
    """How many paths of one disk multipathd makes a map of; 1 is `find_multipaths no`."""
    slow: bool = False
    """Whether what a scan finds appears only while somebody waits for it."""
    unflushable: set[Path] = field(default_factory=set[Path])
    """Devices whose buffers cannot be written."""
    flushed: list[Path] = field(default_factory=list[Path])
    """Devices that were flushed, maps with their removal, in order."""
    mapped: dict[ScsiAddress, tuple[Lun, tuple[str, ...]]] = field(
        default_factory=dict[ScsiAddress, tuple[Lun, tuple[str, ...]]]
    )
    """What the storage has behind each address, with the links that udev makes of it."""

    def __post_init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._maps: dict[str, _Map] = {}
        self._coming: deque[Callable[[], None]] = deque()

    # The storage and its network

    def plug(
        self,
        address: Address,
        lun: Lun | str,
        *,
        size: int = 16 * _MIB,
        links: Sequence[str] = (),
    ) -> Lun:
        """Let a LUN (or a new one of this WWID and size) be behind an address, instead of what is there.

        The kernel goes on with what it knows of that address, and finds a new one when it scans. `links` are names
        below `/dev/disk` that udev gives its disk: `by-path/pci-0000:00:05.0-fc-0x5006-lun-1`.
        """
        place = ScsiAddress(*address)
        plugged = Lun(lun, size) if isinstance(lun, str) else lun
        self.mapped[place] = plugged, tuple(links)
        for top in _TOPS:
            self.machine.make_directories(Path(top))
        self.machine.make_directories(Path(f"/sys/class/scsi_host/host{place.host}"))
        self._reroute()
        return plugged

    def unplug(self, address: Address) -> None:
        """Let nothing be behind an address any more; the kernel does not notice, but gets no answer."""
        del self.mapped[ScsiAddress(*address)]
        self._reroute()

    def cut(self, host: int) -> None:
        """Take the cable of a SCSI host away: its disks do not answer."""
        self._set_cut(host, cut=True)

    def mend(self, host: int) -> None:
        """Put the cable of a SCSI host back."""
        self._set_cut(host, cut=False)

    def soon(self, event: Callable[[], None]) -> None:
        """Let something happen while somebody waits for a device."""
        self._coming.append(event)

    def start_anew(self) -> None:
        """Forget all disks, as a boot does; the storage has them still."""
        for found in list(self._maps):
            self._drop_map(found)
        for name in list(self._known):
            self._drop(name)
        self._coming.clear()

    @property
    def known(self) -> tuple[ScsiDisk, ...]:
        """The disks that the kernel knows."""
        return tuple(each.disk for each in self._known.values())

    @property
    def maps(self) -> tuple[MultipathMap, ...]:
        """The multipath maps that there are."""
        return tuple(map(self._map, self._maps))

    # What the interface promises

    def disks(self, *, host: int | None = None, identities: Collection[str] | None = None) -> tuple[ScsiDisk, ...]:
        return tuple(
            each.disk
            for each in self._known.values()
            if host in (None, each.disk.address.host) and (identities is None or each.identity in identities)
        )

    def disk_at(self, address: ScsiAddress) -> ScsiDisk | None:
        return next((each.disk for each in self._known.values() if each.disk.address == address), None)

    def disk_of(self, device: Path) -> ScsiDisk | None:
        number = self._number(device)
        return next((each.disk for each in self._known.values() if each.rdev == number), None)

    def scan(
        self,
        host: int,
        *,
        channel: int | None = None,
        target: int | None = None,
        lun: int | None = None,
        deadline: float = SCSI_DEADLINE,
    ) -> None:
        del deadline
        if self.machine.look(f"/sys/class/scsi_host/host{host}") is None:
            message = f"cannot scan SCSI host {host}: there is none"
            raise OperationError(message)
        for address in list(self.mapped):
            wanted = ((channel, address.channel), (target, address.target), (lun, address.lun))
            if address.host == host and all(asked in (None, is_at) for asked, is_at in wanted):
                if self.slow:
                    self.machine.make_directories(_sysfs(address))  # found at once; its disk comes later
                    self.soon(partial(self._appear, address))
                else:
                    self._appear(address)

    def identity(self, disk: ScsiDisk, *, deadline: float = SCSI_DEADLINE) -> str:
        del deadline
        known = self._must_answer(disk, "ask")
        return self.mapped[known.disk.address][0].wwid

    def remembered_identity(self, disk: ScsiDisk) -> str:
        known = self._known.get(disk.name)
        return "" if known is None else known.identity

    def rescan(self, disk: ScsiDisk, *, deadline: float = SCSI_DEADLINE) -> ScsiDisk:
        del deadline
        known = self._must_answer(disk, "rescan")
        known.shared.size = self.mapped[known.disk.address][0].size
        known.disk = replace(known.disk, size=known.shared.size)
        return known.disk

    def flush(self, device: Path, *, deadline: float = SCSI_DEADLINE) -> None:
        del deadline
        with attempt(f"flush {device}"):
            self.machine.find(device)
        if device in self.unflushable or device in self.block.unreadable:
            message = f"cannot flush {device}: input/output error"
            raise OperationError(message)
        self.flushed.append(device)

    def remove(self, disk: ScsiDisk, *, deadline: float = SCSI_DEADLINE) -> None:
        del deadline
        if self.disk_at(disk.address) == disk or disk.name in self._known:
            self._must_be_free(disk.device, "remove")
            self._drop(disk.name)

    def map_over(self, disks: Sequence[ScsiDisk]) -> MultipathMap | None:
        names = {disk.name for disk in disks}
        return next((self._map(key) for key, each in self._maps.items() if names.intersection(each.paths)), None)

    def map_of(self, device: Path) -> MultipathMap | None:
        number = self._number(device)
        return next((self._map(key) for key, each in self._maps.items() if each.rdev == number), None)

    def remove_map(self, found: MultipathMap, *, deadline: float = SCSI_DEADLINE) -> None:
        if found.kernel_name in self._maps:
            self._must_be_free(found.device, "remove the multipath map")
            self.flush(found.device, deadline=deadline)
            self._drop_map(found.kernel_name)

    def grow_map(self, found: MultipathMap, *, deadline: float = SCSI_DEADLINE) -> None:
        del deadline
        paths = self._maps[found.kernel_name].paths
        self._maps[found.kernel_name].shared.size = min(self._known[name].shared.size for name in paths)

    def multipath_runs(self) -> bool:
        return self.multipathd

    def awaited(
        self,
        look: Callable[[], T | None],
        *,
        deadline: float = SCSI_DEADLINE,
        cancelled: Callable[[], bool] = never,
    ) -> T | None:
        found = look()
        while found is None and self._coming and not cancelled():
            self._coming.popleft()()
            found = look()
        if found is None and not cancelled():
            self.pass_time(deadline)
        return found

    # How it is kept

    def _number(self, device: Path) -> int:
        place = self.machine.look(device)
        return place[1].rdev if place is not None and place[1].kind == "block" else -1

    def _must_be_free(self, device: Path, what: str) -> None:
        if not self.block.is_free(device):
            message = f"cannot {what} {device}: it is in use"
            raise BusyError(message, self.block.busy.get(device, ()))

    def _must_answer(self, disk: ScsiDisk, what: str) -> _Known:
        known = self._known.get(disk.name)
        if known is None or known.cut or known.disk.address not in self.mapped:
            message = f"cannot {what} {disk.device}: it does not answer"
            raise OperationError(message)
        return known

    def _appear(self, address: ScsiAddress) -> None:
        """Let the kernel know what is at an address, if it knows nothing there yet, and multipathd then."""
        if address not in self.mapped or self.disk_at(address) is not None:
            return
        lun, links = self.mapped[address]
        name, minor = next((name, minor) for name, minor in _names() if name not in self._known)
        disk = ScsiDisk(name=name, address=address, size=lun.size)
        known = _Known(disk, lun.wwid, Shared(lun.storage, lun.size), links, os.makedev(_SD, minor))
        self._known[name] = known
        self._make_device(disk.device, known.rdev, known.shared)
        for link in (*links, f"by-id/scsi-{lun.wwid}"):
            self._link(Path("/dev/disk", link), f"../../{name}")
        self.machine.make_directories(_sysfs(address) / "block" / name)
        self._put(_sysfs(address) / "state", "running\n")
        self.machine.make_directories(Path("/sys/block", name, "holders"))
        if self.slow:
            self.soon(partial(self._gather, lun.wwid))
        else:
            self._gather(lun.wwid)

    def _gather(self, wwid: str) -> None:
        """Do what multipathd does when a path came."""
        paths = [name for name, known in self._known.items() if known.identity == wwid]
        if not self.multipathd or len(paths) < self.paths_of_a_map:
            return
        name = next((key for key, each in self._maps.items() if each.wwid == wwid), "")
        if not name:
            number = next(n for n in range(len(self._maps) + 1) if f"dm-{n}" not in self._maps)
            name = f"dm-{number}"
            first = self._known[paths[0]].shared
            made = _Map(f"mpath{chr(ord('a') + number)}", wwid, [], Shared(first.storage, first.size), _dm(number))
            self._maps[name] = made
            self._make_device(Path("/dev", name), made.rdev, made.shared)
            self._link(Path("/dev/disk/by-id", f"scsi-{wwid}"), f"../../{name}")
            self._link(Path("/dev/disk/by-id", f"dm-uuid-mpath-{wwid}"), f"../../{name}")
            self._link(Path("/dev/mapper", made.name), f"../{name}")
            self._put(Path("/sys/block", name, "dm/uuid"), f"mpath-{wwid}\n")
            self._put(Path("/sys/block", name, "dm/name"), f"{made.name}\n")
        self._maps[name].paths = paths
        for path in paths:
            self._known[path].shared.held = True
            self.machine.make_directories(Path("/sys/block", path, "holders", name))
            self.machine.make_directories(Path("/sys/block", name, "slaves", path))
        self._reroute()

    def _map(self, kernel_name: str) -> MultipathMap:
        found = self._maps[kernel_name]
        disks = tuple(self._known[name].disk for name in found.paths)
        return MultipathMap(
            name=found.name, kernel_name=kernel_name, wwid=found.wwid, disks=disks, size=found.shared.size
        )

    def _drop(self, name: str) -> None:
        known = self._known.pop(name)
        del self.machine.shared[known.rdev]
        self.block.unreadable.discard(known.disk.device)
        for link in (*known.links, f"by-id/scsi-{known.identity}"):
            self._unlink(Path("/dev/disk", link), f"../../{name}")
        self.machine.unlink(known.disk.device)
        self._remove(_sysfs(known.disk.address).parent)
        self._remove(Path("/sys/block", name))

    def _drop_map(self, kernel_name: str) -> None:
        found = self._maps.pop(kernel_name)
        del self.machine.shared[found.rdev]
        self.block.unreadable.discard(Path("/dev", kernel_name))
        for name in found.paths:
            self._known[name].shared.held = False
            self._remove(Path("/sys/block", name, "holders", kernel_name))
        self._link(Path("/dev/disk/by-id", f"scsi-{found.wwid}"), f"../../{found.paths[0]}")
        self._unlink(Path("/dev/disk/by-id", f"dm-uuid-mpath-{found.wwid}"), f"../../{kernel_name}")
        self._unlink(Path("/dev/mapper", found.name), f"../{kernel_name}")
        self.machine.unlink(Path("/dev", kernel_name))
        self._remove(Path("/sys/block", kernel_name))

    def _set_cut(self, host: int, *, cut: bool) -> None:
        for known in self._known.values():
            if known.disk.address.host == host:
                known.cut = cut
                known.disk = replace(known.disk, state="transport-offline" if cut else "running")
                self._put(_sysfs(known.disk.address) / "state", f"{known.disk.state}\n")
        self._reroute()

    def _reroute(self) -> None:
        """Let each known device show what is behind its address now, and fail where nothing is."""
        for known in self._known.values():
            lun = None if known.cut else self.mapped.get(known.disk.address, (None,))[0]
            known.shared.storage = Node(_NOWHERE, "block", 0) if lun is None else lun.storage
            self._set_readable(known.disk.device, lun is not None)
        for kernel_name, found in self._maps.items():
            paths = [self._known[name] for name in found.paths]
            working = [known for known in paths if known.disk.device not in self.block.unreadable]
            found.shared.storage = (working or paths)[0].shared.storage
            self._set_readable(Path("/dev", kernel_name), bool(working))

    def _set_readable(self, device: Path, readable: bool) -> None:  # noqa: FBT001 - what it is set to
        if readable:
            self.block.unreadable.discard(device)
        else:
            self.block.unreadable.add(device)

    # Its part of the file tree

    def _put(self, path: Path, text: str) -> None:
        self.machine.make_directories(path.parent)
        if self.machine.look(path) is None:
            self.machine.make(path, "file", 0o444)
        self.machine.write(path, text.encode())

    def _make_device(self, path: Path, rdev: int, shared: Shared) -> None:
        self.machine.make(path, "block", 0o660, rdev=rdev)
        self.machine.shared[rdev] = shared

    def _link(self, path: Path, target: str) -> None:
        self.machine.make_directories(path.parent)
        with suppress(FileNotFoundError):
            self.machine.unlink(path)
        self.machine.make(path, "symlink", 0o777, content=target.encode())

    def _unlink(self, path: Path, target: str) -> None:
        """Remove a link if it still leads there: another device may have taken its name."""
        place = self.machine.look(path, follow=False)
        if place is not None and place[1].target == target:
            self.machine.unlink(path)

    def _remove(self, path: Path) -> None:
        place = self.machine.look(path, follow=False)
        if place is None:
            return
        if place[1].kind != "directory":
            self.machine.unlink(path)
            return
        for name in tuple(place[1].children):
            self._remove(path / name)
        self.machine.rmdir(path)


def _sysfs(address: ScsiAddress) -> Path:
    return Path(f"/sys/class/scsi_device/{address}/device")


def _names() -> Iterator[tuple[str, int]]:
    for number, letter in enumerate(_LETTERS, 1):
        yield f"sd{letter}", 16 * number
    for number, (first, second) in enumerate(((a, b) for a in f"a{_LETTERS}" for b in f"a{_LETTERS}"), 26):
        yield f"sd{first}{second}", 16 * number


def _dm(number: int) -> int:
    return os.makedev(_DM, number)
