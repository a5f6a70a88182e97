"""nfs: an NFS export.

Behaviour: `pkg/volume/nfs` of kubelet.
"""

from __future__ import annotations

from dataclasses import dataclass

from volmgr.plugin import Handles, VolumePlugin


@dataclass(frozen=True, slots=True, kw_only=True)
class NfsSource:
    """`nfs` of a volume: what a server exports."""

    server: str
    path: str
    read_only: bool = False


class Nfs(VolumePlugin[NfsSource]):
    """Give a Pod an NFS export."""

    name = "kubernetes.io/nfs"
    api_version = 1
    handles = (Handles("nfs", source=NfsSource),)
    supports_mount_options = True
