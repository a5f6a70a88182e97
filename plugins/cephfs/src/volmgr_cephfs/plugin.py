"""cephfs: a directory of CephFS.

Behaviour: `pkg/volume/cephfs` of kubelet.
"""

from __future__ import annotations

from dataclasses import dataclass

from volmgr.plugin import Handles, SecretReference, VolumePlugin


@dataclass(frozen=True, slots=True, kw_only=True)
class CephFsSource:
    """`cephfs` of a volume: a directory of a file system that these monitors know, and as whom it is mounted."""

    monitors: tuple[str, ...]
    path: str = ""
    user: str = ""
    secret_file: str = ""
    secret_ref: SecretReference | None = None
    read_only: bool = False


class CephFs(VolumePlugin[CephFsSource]):
    """Give a Pod a directory of CephFS."""

    name = "kubernetes.io/cephfs"
    api_version = 1
    handles = (Handles("cephfs", source=CephFsSource),)
    supports_mount_options = True
