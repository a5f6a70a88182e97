"""Disks that the kernel makes up: each has a path of its own, which fails when it is told to."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from tests.eventually import eventually
from tests.vm.servers.guest import load, put, settled, tell
from volmgr.host.interface import ScsiDisk

_PRESENT = Path("/sys/bus/pseudo/drivers/scsi_debug/adapter0")


class ScsiDebug:
    """Disks of one SCSI host; leaving the block removes them."""

    def __init__(self, luns: int = 1, megabytes: int = 16) -> None:
        """`luns` disks of so many MiB each; they share their content, as the module has it."""
        self._options = (f"max_luns={luns}", f"dev_size_mb={megabytes}", "num_tgts=1")

    def __enter__(self) -> Self:
        """Let them be there."""
        tell("modprobe", "scsi_debug", *self._options)
        load("sd_mod")
        eventually(lambda: any(_PRESENT.rglob("block/*/dev")), "a disk of scsi_debug")
        settled()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove them."""
        settled()
        tell("modprobe", "--remove", "scsi_debug")

    @property
    def host(self) -> int:
        """The number of their SCSI host."""
        return int(next(_PRESENT.glob("host*")).name.removeprefix("host"))


def cut(disk: ScsiDisk) -> None:
    """Let a disk be without its path: the kernel asks it nothing, and fails what is asked of it."""
    put(Path(f"/sys/block/{disk.name}/device/state"), "offline\n")


def mend(disk: ScsiDisk) -> None:
    """Let its path be there again."""
    put(Path(f"/sys/block/{disk.name}/device/state"), "running\n")
