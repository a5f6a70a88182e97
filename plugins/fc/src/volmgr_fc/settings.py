"""What the configuration may say of volumes of `fc`."""

from __future__ import annotations

from dataclasses import dataclass

from volmgr.plugin import MAP_WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class FibreChannelSettings:
    """Seconds."""

    disk_wait: float = 10.0
    """How long a disk may take to appear after the kernel was told to look for it."""
    map_wait: float = MAP_WAIT
    """How long multipathd may take to make a map of a disk's paths."""
