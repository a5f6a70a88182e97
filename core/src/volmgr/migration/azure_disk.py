"""azureDisk: managed disks of Azure, which disk.csi.azure.com serves. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from volmgr.errors import SpecError
from volmgr.migration.provisioning import with_zones
from volmgr.migration.translation import (
    NAME,
    PodVolumeSource,
    Provisioning,
    Source,
    Translation,
    compact,
    csi_volume,
    of_pod,
    read,
    read_csi,
)
from volmgr.model.selectors import items, mapping
from volmgr.model.volume import PersistentVolume

_DRIVER = "disk.csi.azure.com"
_ZONE = "topology.disk.csi.azure.com/zone"
_MANAGED = "Managed"
_KIND = "kind"
_CACHING_MODE = "cachingmode"
_FS_TYPE = "fstype"
"""Attributes that the driver reads."""
_DISK = re.compile(r".*/subscriptions/.*/resourceGroups/.*/providers/Microsoft.Compute/disks/(.+)")
_BLOB = re.compile(r"http.*://.*/vhds/(.+)")
"""Where a disk's name stands in its URI; the second is that of one which is a file in a storage account."""
_UNZONED = re.compile("[0-9]+")
"""A failure domain, which is the zone of nodes where a region has no zones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureDiskSource:
    """`azureDisk` of a Pod volume or a PersistentVolume."""

    disk_name: str = field(metadata=NAME)
    disk_uri: str = field(metadata={"name": "diskURI", **NAME})
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool = False
    kind: str | None = None


def _translated(pv: PersistentVolume, source: AzureDiskSource, caching_mode: str | None) -> PersistentVolume:
    if source.kind is not None and source.kind.lower() != _MANAGED.lower():
        raise SpecError(f"kind: {source.kind!r} is not served by {_DRIVER}; use a managed disk, of kind {_MANAGED}")
    attributes = {_KIND: _MANAGED}
    if caching_mode is not None:
        attributes[_CACHING_MODE] = caching_mode
    if source.fs_type is not None:
        attributes[_FS_TYPE] = source.fs_type
    fs_type = source.fs_type or ""
    return csi_volume(pv, _DRIVER, source.disk_uri, fs_type=fs_type, read_only=source.read_only, attributes=attributes)


def _inline(declared: PodVolumeSource) -> PersistentVolume:
    source = read(AzureDiskSource, declared.source)
    return _translated(of_pod(source.disk_uri, "ReadWriteOnce"), source, source.caching_mode or None)


def _to_csi(pv: PersistentVolume) -> PersistentVolume:
    source = read(AzureDiskSource, pv.source)
    return _translated(pv, source, source.caching_mode)


def _to_in_tree(pv: PersistentVolume) -> PersistentVolume:
    source = read_csi(pv)
    attributes = {key.lower(): value for key, value in sorted(source.volume_attributes.items())}
    written = {
        "diskName": _disk_name(source.volume_handle),
        "diskURI": source.volume_handle,
        **compact(cachingMode=attributes.get(_CACHING_MODE, "")),
        "fsType": attributes.get(_FS_TYPE) or source.fs_type,
        "readOnly": source.read_only,
        "kind": _MANAGED,
    }
    return replace(pv, type="azureDisk", source=written)


def _disk_name(uri: str) -> str:
    is_blob = uri[:4].lower() == "http" and len(uri) > 4  # noqa: PLR2004 - that of the scheme
    found = (_BLOB if is_blob else _DISK).search(uri)
    if found is None:
        raise SpecError(f"volumeHandle: {uri!r} is no URI of a disk; write /subscriptions/…/disks/NAME")
    return found[1]


def _provisioning(given: Provisioning) -> Provisioning:
    """Keep the file system, which this driver is told by its old name."""
    asked = with_zones(given, _ZONE)
    return replace(asked, allowed_topologies=tuple(map(_without_failure_domains, asked.allowed_topologies)))


def _without_failure_domains(term: Source) -> Source:
    """Give the empty zone in place of a failure domain: so the driver names where there are no zones."""
    expressions = [_unzoned(each) for each in map(mapping, items(term.get("matchLabelExpressions")))]
    return {**term, "matchLabelExpressions": expressions} if expressions else term


def _unzoned(expression: Mapping[str, object]) -> Mapping[str, object]:
    if expression.get("key") != _ZONE:
        return expression
    zones = map(str, items(expression.get("values")))
    return {**expression, "values": ["" if _UNZONED.fullmatch(zone) else zone for zone in zones]}


AZURE_DISK = Translation(
    driver=_DRIVER,
    source=AzureDiskSource,
    inline=_inline,
    to_csi=_to_csi,
    to_in_tree=_to_in_tree,
    provisioning=_provisioning,
)
