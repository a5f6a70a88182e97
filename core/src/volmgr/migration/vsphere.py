"""vsphereVolume: disks of vSphere, which csi.vsphere.vmware.com serves. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from volmgr.migration import topology
from volmgr.migration.provisioning import FS_TYPE, OLD_FS_TYPE, with_topologies
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
from volmgr.model.volume import PersistentVolume

_DRIVER = "csi.vsphere.vmware.com"
_ZONE = "topology.csi.vmware.com/zone"
_REGION = "topology.csi.vmware.com/region"
_POLICY = "storagepolicyname"
_PATH = "initialvolumefilepath"
"""The attribute in which the driver says where a disk is that it made for an in-tree class."""
_MIGRATION = "csimigration"
"""The parameter that asks for it."""
_IN_TREE_ALONE = (
    "datastore",
    "diskformat",
    "hostfailurestotolerate",
    "forceprovisioning",
    "cachereservation",
    "diskstripes",
    "objectspacereservation",
    "iopslimit",
)
"""Parameters that the driver takes from in-tree classes alone: it has them with a suffix."""
_PARAMETERS = {OLD_FS_TYPE: FS_TYPE, _POLICY: _POLICY} | {name: f"{name}-migrationparam" for name in _IN_TREE_ALONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class VsphereSource:
    """`vsphereVolume` of a Pod volume or a PersistentVolume."""

    volume_path: str = field(metadata=NAME)
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = field(default="", metadata={"name": "storagePolicyID"})


def _translated(pv: PersistentVolume, source: VsphereSource) -> PersistentVolume:
    attributes = {_POLICY: source.storage_policy_name} if source.storage_policy_name else {}
    return csi_volume(pv, _DRIVER, source.volume_path, fs_type=source.fs_type, attributes=attributes)


def _inline(declared: PodVolumeSource) -> PersistentVolume:
    """Give the volume; kubelet's library panics where a policy is named."""
    source = read(VsphereSource, declared.source)
    return _translated(of_pod(f"{_DRIVER}-{source.volume_path}", "ReadWriteOnce"), source)


def _to_csi(pv: PersistentVolume) -> PersistentVolume:
    translated = _translated(pv, read(VsphereSource, pv.source))
    for label, key in zip(topology.labels_of(pv), (_ZONE, _REGION), strict=True):
        affinity = topology.moved(translated, label, key, [pv.metadata.labels.get(label, "")])
        translated = replace(translated, node_affinity=affinity)
    return translated


def _to_in_tree(pv: PersistentVolume) -> PersistentVolume:
    source = read_csi(pv)
    path = source.volume_attributes.get(_PATH, "")
    written = {"volumePath": path, **compact(fsType=source.fs_type)}
    pv = replace(pv, type="vsphereVolume", source=written)
    labels = topology.labels_of(pv)
    for label, key in zip(labels, (_ZONE, _REGION), strict=True):
        pv = replace(pv, node_affinity=topology.renamed(pv.node_affinity, key, label))
    for label in labels:
        pv = topology.labelled(pv, label, next(iter(topology.values(pv.node_affinity, label)), ""))
    return pv


def _provisioning(given: Provisioning) -> Provisioning:
    """Give what the driver knows; it takes nothing else."""
    taken = {name: value for key, value in given.parameters.items() if (name := _PARAMETERS.get(key.lower()))}
    return with_topologies(replace(given, parameters={**taken, _MIGRATION: "true"}), _ZONE)


VSPHERE = Translation(
    driver=_DRIVER,
    source=VsphereSource,
    inline=_inline,
    to_csi=_to_csi,
    to_in_tree=_to_in_tree,
    provisioning=_provisioning,
)
