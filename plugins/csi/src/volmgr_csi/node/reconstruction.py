"""Reconstruction: which volumes are published, and which are staged, whether a Pod has them or not.

kubelet finds volumes by their Pods alone: what it left staged when it ended between two calls, it never unstages.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.plugin import (
    CSI_FIELD,
    CsiSource,
    FoundDevice,
    NotOurs,
    NotReconstructible,
    OperationError,
    Reconstructed,
    VolumeMode,
    VolumeSpec,
)
from volmgr_csi.node import call_records, layout, vol_data
from volmgr_csi.node.identification import identify
from volmgr_csi.settings import NAME

if TYPE_CHECKING:
    from volmgr.plugin import Found, Host
    from volmgr_csi.node.layout import Place
    from volmgr_csi.node.vol_data import VolData


def reconstruct(found: Found, host: Host) -> Reconstructed[CsiSource]:
    """Say which volume a directory, or the link to a device, is of; raises NotReconstructible, or NotOurs."""
    place = layout.published(host, found.path, found.pod_uid, found.spec_name, found.mode)
    data = identify(place, call_records.of_publishing(host, found.pod_uid, found.spec_name), "", host)
    if data is None:
        said = f"{place.data / vol_data.FILE} is damaged or missing, and nothing else says which volume {found.path} is"
        if not host.mounts.is_mount_point(place.path) and host.files.names(place.path):
            raise NotOurs(f"{said}: what is in {place.path} is kept")
        raise NotReconstructible(said)
    handle = "" if data.lifecycle == vol_data.EPHEMERAL else data.handle
    spec = VolumeSpec(
        name=found.spec_name,
        type=CSI_FIELD,
        driver=data.driver,
        source=CsiSource(driver=data.driver, volume_handle=handle),
        mode=found.mode,
    )
    return Reconstructed(spec=spec, selinux_label=data.label)


def devices(host: Host) -> tuple[FoundDevice[CsiSource], ...]:
    """Give every volume that is staged; of a driver that stages nothing, kubelet 1.30 wrote the file, too."""
    return (*_mounts(host), *_devices(host))


def _mounts(host: Host) -> Iterator[FoundDevice[CsiSource]]:
    top = host.paths.plugin(NAME)
    for driver in _names(top, host):
        for name in _names(top / driver, host) if top / driver != host.paths.block_maps(NAME) else ():
            target = top / driver / name / layout.GLOBAL_MOUNT
            yield from _found(layout.staged(target, VolumeMode.FILESYSTEM), target, name, VolumeMode.FILESYSTEM, host)


def _devices(host: Host) -> Iterator[FoundDevice[CsiSource]]:
    maps = host.paths.block_maps(NAME)
    shared = {parent: _names(maps / parent, host) for parent in ("staging", "publish")}
    with_file = [name for name in _names(maps, host) if _has_file(maps / name / "data", host)]
    for name in sorted({*with_file, *(name for names in shared.values() for name in names)}):
        target = maps / name / "dev"
        uids = {*_names(target, host), *_names(layout.publications(host, name), host)}
        place = layout.staged(target, VolumeMode.BLOCK)
        yield from _found(place, target, name, VolumeMode.BLOCK, host, tuple(sorted(uids)))


def _found(
    place: Place, target: Path, spec_name: str, mode: VolumeMode, host: Host, pod_uids: tuple[str, ...] = ()
) -> Iterator[FoundDevice[CsiSource]]:
    data = vol_data.read(host, place.data)
    if data is not None:
        spec = _spec(data, spec_name, mode)
        yield FoundDevice(spec=spec, target=target, selinux_label=data.label, pod_uids=pod_uids)
    elif pod_uids or _has_file(place.data, host) or host.mounts.is_mount_point(place.path) or _names(place.path, host):
        said = f"{place.data / vol_data.FILE} is damaged or missing, and nothing else says which volume is staged"
        remedy = "restore it, or let the driver's own tools take the volume away, then restart volmgrd"
        yield FoundDevice(target=target, problem=f"{said}: {remedy}")


def _spec(data: VolData, name: str, mode: VolumeMode) -> VolumeSpec[CsiSource]:
    source = CsiSource(driver=data.driver, volume_handle=data.handle)
    return VolumeSpec(name=name, type=CSI_FIELD, driver=data.driver, source=source, mode=mode)


def _has_file(directory: Path, host: Host) -> bool:
    return vol_data.FILE in _names(directory, host)


def _names(path: Path, host: Host) -> tuple[str, ...]:
    with suppress(OperationError):  # a file, a link or something dead in its place
        return host.files.names(path)
    return ()
