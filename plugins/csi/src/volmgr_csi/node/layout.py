"""Where kubelet keeps what belongs to volumes of csi: the same directories, names and hashes. Pure.

Source: `behaviours.md` §4.11, which is `csi_util.go` and `csi_block.go` of kubelet 1.37.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.plugin import VolumeMode
from volmgr_csi.settings import NAME

if TYPE_CHECKING:
    from volmgr.plugin import Host

MOUNT = "mount"
"""What a driver makes in a Pod's volume directory: there the volume is mounted."""
DIRECTORY_MODE = 0o750
GLOBAL_MOUNT = "globalmount"
_DIRECTORY = NAME.replace("/", "~")
"""What a Pod's directory for volumes of csi is called; kubelet's escaping."""


def digest(handle: str) -> str:
    """Give the directory name of a handle, which may be any text."""
    return hashlib.sha256(handle.encode()).hexdigest()


def ephemeral_handle(pod_uid: str, spec_name: str) -> str:
    """Give the handle by which a driver knows an inline volume."""
    return f"csi-{digest(f'{pod_uid}{spec_name}')}"


def device_target(host: Host, driver: str, handle: str, spec_name: str, mode: VolumeMode) -> Path:
    """Give what the core takes for the node's mount: the directory of the mount, or of the block map."""
    if mode is VolumeMode.BLOCK:
        return host.paths.block_maps(NAME) / spec_name / "dev"
    return host.paths.plugin(NAME) / driver / digest(handle) / GLOBAL_MOUNT


@dataclass(frozen=True, slots=True)
class Place:
    """Where a driver puts a volume, and where kubelet's file says which volume that is.

    `path` is what the driver is told; `data` the directory of `vol_data.json`.
    """

    path: Path
    data: Path


def staged(target: Path, mode: VolumeMode) -> Place:
    """Give the place of the node's mount, by the target of a request."""
    if mode is VolumeMode.BLOCK:
        spec_directory = target.parent
        return Place(spec_directory.parent / "staging" / spec_directory.name, spec_directory / "data")
    return Place(target, target.parent)


def published(host: Host, target: Path, pod_uid: str, spec_name: str, mode: VolumeMode) -> Place:
    """Give the place of one Pod's volume, by the target of a request."""
    if mode is VolumeMode.BLOCK:
        maps = host.paths.block_maps(NAME)
        return Place(publications(host, spec_name) / pod_uid, maps / spec_name / "data")
    return Place(target / MOUNT, target)


def publications(host: Host, spec_name: str) -> Path:
    """Give the directory in which a driver publishes a block volume, for each Pod by its UID."""
    return host.paths.block_maps(NAME) / "publish" / spec_name


def mount_of(path: Path) -> Path:
    """Give where a volume is mounted, by that or by its directory below its Pod's."""
    return path if path.parent.parent.name == _DIRECTORY else path / MOUNT
