"""SCSI disks by sysfs and by helpers that can be killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volmgr.host.interface import Commands


class LocalScsi:
    """SCSI disks of this machine."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
