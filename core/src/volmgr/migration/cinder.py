"""cinder: disks of OpenStack, which cinder.csi.openstack.org serves. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from volmgr.migration import topology
from volmgr.migration.provisioning import with_file_system, with_topologies
from volmgr.migration.translation import (
    NAME,
    PodVolumeSource,
    Provisioning,
    Translation,
    compact,
    csi_volume,
    of_pod,
    read,
    read_csi,
)
from volmgr.model.driver_sources import SecretReference
from volmgr.model.volume import PersistentVolume

_DRIVER = "cinder.csi.openstack.org"
_ZONE = "topology.cinder.csi.openstack.org/zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class CinderSource:
    """`cinder` of a Pod volume or a PersistentVolume."""

    volume_id: str = field(metadata={"name": "volumeID", **NAME})
    fs_type: str = ""
    read_only: bool = False
    secret_ref: SecretReference | None = None
    """The driver has its own credentials: it is not told."""


def _translated(pv: PersistentVolume, source: CinderSource) -> PersistentVolume:
    return csi_volume(pv, _DRIVER, source.volume_id, fs_type=source.fs_type, read_only=source.read_only)


def _inline(declared: PodVolumeSource) -> PersistentVolume:
    source = read(CinderSource, declared.source)
    return _translated(of_pod(f"{_DRIVER}-{source.volume_id}", "ReadWriteOnce"), source)


def _to_csi(pv: PersistentVolume) -> PersistentVolume:
    return topology.to_driver(_translated(pv, read(CinderSource, pv.source)), _ZONE)


def _to_in_tree(pv: PersistentVolume) -> PersistentVolume:
    source = read_csi(pv)
    written = {"volumeID": source.volume_handle, **compact(fsType=source.fs_type, readOnly=source.read_only)}
    return topology.from_driver(replace(pv, type="cinder", source=written), _ZONE)


def _provisioning(given: Provisioning) -> Provisioning:
    """Keep the zone, which this driver is told as a parameter."""
    return with_topologies(with_file_system(given), _ZONE)


CINDER = Translation(
    driver=_DRIVER,
    source=CinderSource,
    inline=_inline,
    to_csi=_to_csi,
    to_in_tree=_to_in_tree,
    provisioning=_provisioning,
)
