"""fc: a LUN of a Fibre Channel storage.

Behaviour: `pkg/volume/fc` of kubelet.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from volmgr.plugin import DiskVolume, Handles


@dataclass(frozen=True, slots=True, kw_only=True)
class FibreChannelSource:
    """`fc` of a volume: a LUN at any of these ports, or a disk by its WWID."""

    target_wwns: tuple[str, ...] = field(default=(), metadata={"name": "targetWWNs"})
    lun: int | None = None
    wwids: tuple[str, ...] = ()
    fs_type: str = ""
    read_only: bool = False


class FibreChannel(DiskVolume[FibreChannelSource]):
    """Give a Pod a LUN of a Fibre Channel storage."""

    name = "kubernetes.io/fc"
    api_version = 1
    handles = (Handles("fc", source=FibreChannelSource),)
    supports_mount_options = True
