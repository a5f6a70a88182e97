"""Disks that the kernel's SCSI target serves: loop devices over files, so that their growth is seen."""

from __future__ import annotations

import itertools
from pathlib import Path
from uuid import uuid4

from tests.vm.servers.guest import CONFIGFS, load, mount_configfs, put, tell

TARGET = CONFIGFS / "target"
_NUMBERS = itertools.count()
_NAA = "6001405"
"""What the identity of each disk of LIO begins with: NAA type 6, and the number of the company."""


def load_target_core() -> None:
    """Let the kernel be a SCSI target."""
    mount_configfs()
    load("target_core_mod", "target_core_iblock", "loop")
    for place in ("alua", "pr"):
        Path("/var/target", place).mkdir(parents=True, exist_ok=True)


class Backstore:
    """One disk of a storage, which any number of LUNs may lead to; `close` it after those are gone."""

    def __init__(self, name: str, size: int = 64 << 20) -> None:
        """`size` is in bytes."""
        load_target_core()
        self.name = name
        self.serial = uuid4().hex
        self.file = Path("/srv") / f"{name}.disk"
        with self.file.open("wb") as disk:
            disk.truncate(size)
        self.loop = Path(tell("losetup", "--find", "--show", self.file).strip())
        self._hba = TARGET / f"core/iblock_{next(_NUMBERS)}"
        self.directory = self._hba / name
        self.directory.mkdir(parents=True)
        put(self.directory / "control", f"udev_path={self.loop}")
        put(self.directory / "wwn/vpd_unit_serial", self.serial)
        put(self.directory / "enable", "1")

    @property
    def wwid(self) -> str:
        """Its identity as udev, multipath and `host.scsi.identity` write it."""
        return f"3{_NAA}{self.serial[:25]}"

    @property
    def size(self) -> int:
        """Bytes."""
        return self.file.stat().st_size

    def format(self) -> None:
        """Give it an ext4 that is whole: the usual one is finished by the kernel once it is mounted, for minutes."""
        tell("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", self.file)

    def grow(self, size: int) -> None:
        """Let the disk have so many bytes; who has it scans it anew, then."""
        with self.file.open("r+b") as disk:
            disk.truncate(size)
        tell("losetup", "--set-capacity", self.loop)

    def close(self) -> None:
        """Remove it and its content; again, it changes nothing."""
        if self.directory.exists():
            self.directory.rmdir()
            self._hba.rmdir()
            tell("losetup", "--detach", self.loop)
        self.file.unlink(missing_ok=True)
