"""What the configuration may say of volumes of `fc`, below `plugins: {kubernetes.io/fc: …}`."""

from __future__ import annotations

from dataclasses import dataclass, field

from volmgr.plugin import MAP_WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class FibreChannelSettings:
    """Seconds."""

    disk_wait: float = field(default=10.0, metadata={"name": "disk_wait"})
    """How long a disk may take to appear after the kernel was told to look for it."""
    map_wait: float = field(default=MAP_WAIT, metadata={"name": "map_wait"})
    """How long multipathd may take to make a map of a disk's paths."""

    def __post_init__(self) -> None:
        """Refuse times that are none."""
        for name in ("disk_wait", "map_wait"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name):g}; write seconds, such as 10")
