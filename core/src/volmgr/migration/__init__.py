"""Volumes of types that Kubernetes had in its tree become volumes of `csi`, and are led back to what they were. Pure.

Imported only where there is such a volume. Each function raises SpecError, which names the field that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from volmgr.errors import SpecError
from volmgr.in_tree import MIGRATED
from volmgr.migration.aws_ebs import AWS_EBS
from volmgr.migration.azure_disk import AZURE_DISK
from volmgr.migration.azure_file import AZURE_FILE
from volmgr.migration.cinder import CINDER
from volmgr.migration.gce_pd import GCE_PD
from volmgr.migration.portworx import PORTWORX
from volmgr.migration.translation import PodVolumeSource, Provisioning, Translation
from volmgr.migration.vsphere import VSPHERE
from volmgr.model.names import escape, is_file_name
from volmgr.model.objects import StorageClass
from volmgr.model.volume import PersistentVolume

__all__ = [
    "PodVolumeSource",
    "Provisioning",
    "class_csi",
    "in_tree",
    "inline_csi",
    "persistent_csi",
    "provisioning",
    "repaired_handle",
    "source_of",
]

_BY_FIELD: Mapping[str, Translation] = {
    "awsElasticBlockStore": AWS_EBS,
    "azureDisk": AZURE_DISK,
    "azureFile": AZURE_FILE,
    "cinder": CINDER,
    "gcePersistentDisk": GCE_PD,
    "portworxVolume": PORTWORX,
    "vsphereVolume": VSPHERE,
}
_LONGEST = 255
"""Bytes of a file name, as Linux takes it."""


def source_of(field: str) -> type[Any]:
    """Give the dataclass that an in-tree field's value is read into."""
    return _BY_FIELD[field].source


def inline_csi(field: str, declared: PodVolumeSource) -> PersistentVolume:
    """Give the PersistentVolume that stands for a volume of a Pod; it is named after the storage."""
    pv = _BY_FIELD[field].inline(declared)
    directory = escape(pv.metadata.name)
    if not is_file_name(directory) or len(directory.encode()) > _LONGEST:
        raise SpecError(f"{field}: no directory can be named {directory!r}; correct what names the storage")
    return pv


def persistent_csi(pv: PersistentVolume) -> PersistentVolume:
    """Give a PersistentVolume of an in-tree type as one of `csi`: its labels, and all else that it says, stay."""
    return _BY_FIELD[pv.type].to_csi(pv)


def in_tree(pv: PersistentVolume) -> PersistentVolume:
    """Lead a PersistentVolume of `csi` back to the in-tree type whose driver serves it."""
    return _of_driver(str(pv.source.get("driver", ""))).to_in_tree(pv)


def provisioning(given: Provisioning) -> Provisioning:
    """Give what a StorageClass with the name of an in-tree type as its provisioner says to the driver."""
    return _of_provisioner(given.provisioner).provisioning(given)


def class_csi(storage_class: StorageClass) -> StorageClass:
    """Give a StorageClass of an in-tree type as one of its driver."""
    asked = Provisioning(
        provisioner=storage_class.provisioner,
        parameters=storage_class.parameters,
        allowed_topologies=storage_class.allowed_topologies,
    )
    told = provisioning(asked)
    return replace(
        storage_class,
        provisioner=_of_provisioner(storage_class.provisioner).driver,
        parameters=told.parameters,
        allowed_topologies=told.allowed_topologies,
    )


def repaired_handle(driver: str, handle: str, node_id: str) -> str:
    """Complete a handle for the node to which its volume is attached: what a manifest leaves open, its id says."""
    return _of_driver(driver).repaired_handle(handle, node_id)


def _of_provisioner(name: str) -> Translation:
    field = next((field for field, provisioner in MIGRATED.items() if provisioner == name), None)
    if field is None:
        raise SpecError(f"provisioner: {name!r} is no in-tree type that a csi driver took the place of")
    return _BY_FIELD[field]


def _of_driver(driver: str) -> Translation:
    found = next((each for each in _BY_FIELD.values() if each.driver == driver), None)
    if found is None:
        raise SpecError(f"driver: {driver!r} took the place of no in-tree type")
    return found
