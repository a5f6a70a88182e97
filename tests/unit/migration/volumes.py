"""Volumes of in-tree types by hand, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from volmgr import migration
from volmgr.model.meta import ObjectMeta
from volmgr.model.volume import PersistentVolume

EBS, GCE, CINDER = "ebs.csi.aws.com", "pd.csi.storage.gke.io", "cinder.csi.openstack.org"
DISK, FILE = "disk.csi.azure.com", "file.csi.azure.com"
VSPHERE, PORTWORX = "csi.vsphere.vmware.com", "pxd.portworx.com"
URI = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d1"
SECRET = "azure-storage-account-acme-secret"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def volume(
    field: str,
    source: Mapping[str, object],
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **more: Any,  # noqa: ANN401 - further fields of the dataclass
) -> PersistentVolume:
    """Give the PersistentVolume `pv`."""
    metadata = ObjectMeta(name="pv", namespace="", labels=labels or {}, annotations=annotations or {})
    return PersistentVolume(metadata=metadata, type=field, source=source, **more)


def csi(driver: str, handle: str, **more: Any) -> PersistentVolume:  # noqa: ANN401 - as above
    """Give the PersistentVolume `pv` of a driver; `source` are further fields of its source."""
    source = {"driver": driver, "volumeHandle": handle, **more.pop("source", {})}
    return volume("csi", source, **more)


def inline(field: str, source: Mapping[str, object], namespace: str = "shop") -> PersistentVolume:
    """Give what stands for the volume `data` of a Pod."""
    return migration.inline_csi(field, migration.PodVolumeSource(source=source, volume="data", namespace=namespace))


def affinity(*terms: Mapping[str, list[str]]) -> dict[str, object]:
    """Give an affinity whose terms demand one of some values of each key."""
    selectors = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": values} for key, values in term.items()]}
        for term in terms
    ]
    return {"required": {"nodeSelectorTerms": selectors}}
