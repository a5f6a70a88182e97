"""What sysfs says of SCSI disks and of multipath maps. Nothing here asks a device: no answer can be late."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from volmgr.host.interface import MultipathMap, ScsiAddress, ScsiDisk

RUNNING = "running"
"""The state of a disk, and of a SCSI host, that can be asked."""

_SECTOR = 512  # bytes of what sysfs counts sizes in, whatever the disk has
_MAP = "mpath-"  # how the UUID of a multipath map begins; `part1-mpath-` is a partition of one, `LVM-` a logical volume
_PARTITION = re.compile(r"part\d+-mpath-")
_ADDRESS = re.compile(r"(\d+):(\d+):(\d+):(\d+)")


def number_of(path: Path) -> str:
    """Give the number of a block device as sysfs writes it, `8:16`; empty when it is none, or missing."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}" if stat.S_ISBLK(found.st_mode) else ""


class Sysfs:
    """The devices of one sysfs; `number` tells the block devices of `/dev`."""

    def __init__(
        self, top: Path = Path("/sys"), dev: Path = Path("/dev"), *, number: Callable[[Path], str] = number_of
    ) -> None:
        self.top = top
        self._dev = dev
        self._number = number

    def device(self, address: ScsiAddress) -> Path:
        """Give the directory of what is at an address, which need not be there."""
        return self.top / "class/scsi_device" / str(address) / "device"

    def host(self, number: int) -> Path:
        """Give the directory of a SCSI host, which need not be there."""
        return self.top / "class/scsi_host" / f"host{number}"

    def disks(self, wanted: Callable[[ScsiAddress], bool]) -> Iterator[ScsiDisk]:
        """Give the disks at all addresses that are wanted, by address."""
        for address in sorted(filter(None, map(_address, _names(self.top / "class/scsi_device")))):
            disk = self.disk_at(address) if wanted(address) else None
            if disk is not None:
                yield disk

    def disk_at(self, address: ScsiAddress) -> ScsiDisk | None:
        """Give the disk of a LUN whose block device is there, too: that may come later."""
        place = self.device(address)
        for name in _names(place / "block"):
            block = place / "block" / name
            if _text(block / "dev") == self._number(self._dev / name) != "":
                return ScsiDisk(name=name, address=address, state=_text(place / "state"), size=_size(block))
        return None

    def disk_of(self, device: Path) -> ScsiDisk | None:
        """Give the disk whose block device this is; a partition is none."""
        return self._disk_named(self._kernel_name(device))

    def map_over(self, name: str) -> MultipathMap | None:
        """Give the map that holds a disk of this name."""
        return next(filter(None, map(self.map_named, self.holders(name))), None)

    def map_of(self, device: Path) -> MultipathMap | None:
        """Give the map whose block device this is."""
        return self.map_named(self._kernel_name(device))

    def map_named(self, kernel_name: str) -> MultipathMap | None:
        """Give the map that the kernel calls so; None for another kind of device."""
        block = self.top / "block" / kernel_name
        uuid = _text(block / "dm/uuid")
        if not uuid.startswith(_MAP):
            return None
        disks = filter(None, map(self._disk_named, _names(block / "slaves")))
        return MultipathMap(
            name=_text(block / "dm/name"),
            kernel_name=kernel_name,
            wwid=uuid.removeprefix(_MAP),
            disks=tuple(sorted(disks, key=lambda disk: disk.address)),
            size=_size(block),
        )

    def holders(self, name: str) -> tuple[str, ...]:
        """Give the names of the block devices that are made of one."""
        return tuple(_names(self.top / "block" / name / "holders"))

    def users(self, name: str) -> tuple[str, ...]:
        """Name what is made of a map, but its own partitions, which go with it: logical volumes, and users of those."""
        found: list[str] = []
        for holder in self.holders(name):
            dm = self.top / "block" / holder / "dm"
            if _PARTITION.match(_text(dm / "uuid")):
                found.extend(self.users(holder))
            else:
                found.append(_text(dm / "name") or holder)
        return tuple(found)

    def trouble(self, disk: ScsiDisk) -> str:
        """Say in which state a disk, or its SCSI host, is that lets it not answer; empty when it can be asked."""
        states = _text(self.device(disk.address) / "state"), _text(self.host(disk.address.host) / "state")
        return next((state or "gone" for state in states if state != RUNNING), "")

    def numbers(self, name: str) -> frozenset[str]:
        """Give the numbers of a disk and of its partitions, as the mount table has them."""
        block = self.top / "block" / name
        parts = (block / part for part in _names(block) if part.startswith(name))
        return frozenset(filter(None, (_text(each / "dev") for each in (block, *parts))))

    def _kernel_name(self, device: Path) -> str:
        number = self._number(device)
        return os.path.basename(os.path.realpath(self.top / "dev/block" / number)) if number else ""

    def _disk_named(self, name: str) -> ScsiDisk | None:
        address = _address(os.path.basename(os.path.realpath(self.top / "block" / name / "device"))) if name else None
        disk = None if address is None else self.disk_at(address)
        return disk if disk is not None and disk.name == name else None


def _address(text: str) -> ScsiAddress | None:
    found = _ADDRESS.fullmatch(text)
    return None if found is None else ScsiAddress(*map(int, found.groups()))


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:  # it is not there, or is just going
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # as above; some files of a device that is going cannot be read
        return ""


def _size(block: Path) -> int:
    text = _text(block / "size")
    return _SECTOR * int(text) if text.isdecimal() else 0
