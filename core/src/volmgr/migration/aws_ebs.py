"""awsElasticBlockStore: disks of AWS, which ebs.csi.aws.com serves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from volmgr.errors import SpecError
from volmgr.migration import topology
from volmgr.migration.ebs_ids import volume_id
from volmgr.migration.provisioning import with_file_system, with_zones
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

_DRIVER = "ebs.csi.aws.com"
_ZONE = f"topology.{_DRIVER}/zone"
_IOPS = "iopspergb"
_MORE_IOPS = "allowautoiopspergbincrease"
"""The in-tree type gave a small disk more than was asked for, as AWS demands; the driver has to be told so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EbsSource:
    """`awsElasticBlockStore` of a Pod volume or a PersistentVolume."""

    volume_id: str = field(metadata={"name": "volumeID", **NAME})
    fs_type: str = ""
    partition: int = field(default=0, metadata={"read": read_partition})
    read_only: bool = False


def _translated(pv: PersistentVolume, source: EbsSource) -> PersistentVolume:
    handle, attributes = volume_id(source.volume_id), {PARTITION: str(source.partition)}
    return csi_volume(pv, _DRIVER, handle, fs_type=source.fs_type, read_only=source.read_only, attributes=attributes)


def _inline(declared: PodVolumeSource) -> PersistentVolume:
    source = read(EbsSource, declared.source)
    return _translated(of_pod(f"{_DRIVER}-{volume_id(source.volume_id)}", "ReadWriteOnce"), source)


def _to_csi(pv: PersistentVolume) -> PersistentVolume:
    return topology.to_driver(_translated(pv, read(EbsSource, pv.source)), _ZONE)


def _to_in_tree(pv: PersistentVolume) -> PersistentVolume:
    source = read_csi(pv)
    partition = partition_of(source) if PARTITION in source.volume_attributes else 0
    optional = compact(fsType=source.fs_type, partition=partition, readOnly=source.read_only)
    written = {"volumeID": source.volume_handle, **optional}
    return topology.from_driver(replace(pv, type="awsElasticBlockStore", source=written), _ZONE, _region)


def _region(zones: Sequence[str]) -> str:
    regions = {_region_of_one(zone) for zone in zones}
    if len(regions) != 1:
        raise SpecError(f"nodeAffinity: zones {', '.join(zones) or 'of none'} are not of one region; name one at least")
    return regions.pop()


def _region_of_one(zone: str) -> str:
    """Give the region of `us-west-2a`, `us-gov-east-1a`, `us-west-2-lax-1a` or `us-east-1-wl1-bos-wlz-1`."""
    *first, last = parts = zone.split("-")
    if len(parts) in {3, 4} and len(last.encode()) == 2 and last.isascii():  # noqa: PLR2004 - a digit and a letter
        return "-".join((*first, last[0]))
    if len(parts) in {5, 7}:
        return "-".join(parts[:3])
    raise SpecError(f"nodeAffinity: {zone!r} is no zone of AWS; write one such as us-west-2a")


def _provisioning(given: Provisioning) -> Provisioning:
    asked = with_zones(with_file_system(given), _ZONE)
    if not any(key.lower() == _IOPS for key in asked.parameters):
        return asked
    return replace(asked, parameters={**asked.parameters, _MORE_IOPS: "true"})


AWS_EBS = Translation(
    driver=_DRIVER,
    source=EbsSource,
    inline=_inline,
    to_csi=_to_csi,
    to_in_tree=_to_in_tree,
    provisioning=_provisioning,
)
