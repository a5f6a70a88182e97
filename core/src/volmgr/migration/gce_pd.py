"""gcePersistentDisk: disks of Google Cloud, which pd.csi.storage.gke.io serves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from volmgr.errors import SpecError
from volmgr.migration import topology
from volmgr.migration.provisioning import with_file_system, with_zones
from volmgr.migration.topology import BETA_ZONE, SEPARATOR, ZONE
from volmgr.migration.translation import (
    NAME,
    PARTITION,
    PodVolumeSource,
    Provisioning,
    Translation,
    compact,
    csi_volume,
    of_pod,
    partition_of,
    read,
    read_csi,
    read_partition,
)
from volmgr.model.volume import PersistentVolume

_DRIVER = "pd.csi.storage.gke.io"
_ZONE = "topology.gke.io/zone"
_UNKNOWN = "UNSPECIFIED"
"""What a handle says where a manifest does not: which project, which zone."""
_PARTS = 6
"""Those of `projects/PROJECT/zones/ZONE/disks/DISK`, at least."""
_ZONE_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GceSource:
    """`gcePersistentDisk` of a Pod volume or a PersistentVolume."""

    pd_name: str = field(metadata=NAME)
    fs_type: str = ""
    partition: int = field(default=0, metadata={"read": read_partition})
    read_only: bool = False


def _handle(disk: str, *, zone: str = _UNKNOWN, region: str = "", project: str = _UNKNOWN) -> str:
    place = f"regions/{region}" if region else f"zones/{zone}"
    return f"projects/{project}/{place}/disks/{disk}"


def _translated(pv: PersistentVolume, source: GceSource, handle: str) -> PersistentVolume:
    attributes = {PARTITION: str(source.partition or "")}
    return csi_volume(pv, _DRIVER, handle, fs_type=source.fs_type, read_only=source.read_only, attributes=attributes)


def _inline(declared: PodVolumeSource) -> PersistentVolume:
    source = read(GceSource, declared.source)
    pv = of_pod(f"{_DRIVER}-{source.pd_name}", "ReadOnlyMany" if source.read_only else "ReadWriteOnce")
    return _translated(pv, source, _handle(source.pd_name))


def _to_csi(pv: PersistentVolume) -> PersistentVolume:
    source = read(GceSource, pv.source)
    labels = pv.metadata.labels
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(SEPARATOR)
    if len(zones) > 1:
        handle = _handle(source.pd_name, region=_region(zones))
    else:
        handle = _handle(source.pd_name, zone=zones[0] or _UNKNOWN)
    translated = topology.to_driver(_translated(pv, source, handle), _ZONE)
    return replace(translated, access_modes=_access_modes(pv.access_modes))


def _access_modes(modes: Iterable[str]) -> tuple[str, ...]:
    """Give the one mode that the driver can keep: the in-tree type never looked at them, and attached for writing."""
    asked = set(modes)
    if not asked:
        return ()
    writing = asked & {"ReadWriteOnce", "ReadWriteMany"}
    return ("ReadOnlyMany",) if "ReadOnlyMany" in asked and not writing else ("ReadWriteOnce",)


def _to_in_tree(pv: PersistentVolume) -> PersistentVolume:
    source = read_csi(pv)
    partition = partition_of(source) if source.volume_attributes.get(PARTITION) else 0
    optional = compact(fsType=source.fs_type, partition=partition, readOnly=source.read_only)
    written = {"pdName": _parts(source.volume_handle)[5], **optional}
    return topology.from_driver(replace(pv, type="gcePersistentDisk", source=written), _ZONE, _region)


def _parts(handle: str) -> Sequence[str]:
    parts = handle.split("/")
    if len(parts) < _PARTS:
        raise SpecError(f"volumeHandle: {handle!r} names no disk; write {_handle('DISK', project='PROJECT')}")
    return parts


def _region(zones: Sequence[str]) -> str:
    regions = {_region_of_one(zone) for zone in zones}
    if len(regions) != 1:
        raise SpecError(f"zones {', '.join(zones) or 'of none'} are not of one region; name zones of one in its labels")
    return regions.pop()


def _region_of_one(zone: str) -> str:
    parts = zone.split("-")
    if len(parts) != _ZONE_PARTS:
        raise SpecError(f"{zone!r} is no zone of Google Cloud; write one such as us-central1-a")
    return "-".join(parts[:2])


def _provisioning(given: Provisioning) -> Provisioning:
    return with_zones(with_file_system(given), _ZONE)


def _repaired_handle(handle: str, node_id: str) -> str:
    """Put a node's project, and its zone or region, where a handle does not say."""
    _, project, kind, place, _, disk = _parts(handle)[:_PARTS]
    if project != _UNKNOWN:
        return handle
    node = node_id.split("/")
    if len(node) < _PARTS:
        raise SpecError(f"node id {node_id!r} is none of {_DRIVER}, which has {_PARTS} parts; correct the driver")
    if kind == "zones":
        return _handle(disk, zone=node[3] if place == _UNKNOWN else place, project=node[1])
    if kind == "regions":
        return _handle(disk, region=_region(node[3:4]) if place == _UNKNOWN else place, project=node[1])
    raise SpecError(f"volumeHandle: {handle!r} is neither of zones nor of regions; write one of them")


GCE_PD = Translation(
    driver=_DRIVER,
    source=GceSource,
    inline=_inline,
    to_csi=_to_csi,
    to_in_tree=_to_in_tree,
    provisioning=_provisioning,
    repaired_handle=_repaired_handle,
)
