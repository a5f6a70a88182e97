"""Volume types that Kubernetes had within itself once and that no package of ours serves: what to use instead. Pure.

Source: the CSI migration table of kubernetes 1.37 (`csi-translation-lib`), and the changelogs that removed the others.
"""

from __future__ import annotations

from collections.abc import Mapping

DRIVERS: Mapping[str, str] = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "azureDisk": "disk.csi.azure.com",
    "azureFile": "file.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "glusterfs": "org.gluster.glusterfs",
    "portworxVolume": "pxd.portworx.com",
    "quobyte": "csi.quobyte.com",
    "rbd": "rbd.csi.ceph.com",
    "scaleIO": "csi-vxflexos.dellemc.com",
    "storageos": "csi.storageos.com",
    "vsphereVolume": "csi.vsphere.vmware.com",
}
"""By field of the manifest: the CSI driver that took its place."""

MIGRATED: Mapping[str, str] = {
    "awsElasticBlockStore": "kubernetes.io/aws-ebs",
    "azureDisk": "kubernetes.io/azure-disk",
    "azureFile": "kubernetes.io/azure-file",
    "cinder": "kubernetes.io/cinder",
    "gcePersistentDisk": "kubernetes.io/gce-pd",
    "portworxVolume": "kubernetes.io/portworx-volume",
    "vsphereVolume": "kubernetes.io/vsphere-volume",
}
"""By field: what the type was called, of those whose volumes become volumes of csi."""

ENDED: Mapping[str, str] = {
    "flocker": "its project has ended; move the data to another volume, such as local, nfs or csi",
    "photonPersistentDisk": "its platform has ended; move the data to another volume, such as local, nfs or csi",
}
"""By field: types that nothing took the place of."""


def instead(field: str) -> str:
    """Say what to use instead of a type that was in Kubernetes' tree; empty for any other."""
    if field in MIGRATED:
        remedy = "install that driver and volmgr-csi, then run volmgr plugins reload"
        return f"its volumes become volumes of csi, of driver {DRIVERS[field]}; {remedy}"
    if field in DRIVERS:
        return f"write a csi volume with driver {DRIVERS[field]} instead, and install that driver and volmgr-csi"
    return ENDED.get(field, "")
