"""Volumes of csi are led back to the in-tree types: values that `csi-translation-lib` gives, written down."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.migration.volumes import (
    CINDER,
    DISK,
    EBS,
    FILE,
    GCE,
    PORTWORX,
    REGION,
    SECRET,
    URI,
    VSPHERE,
    ZONE,
    affinity,
    csi,
)
from volmgr import migration

BACK: list[tuple[str, str, Mapping[str, object], str, Mapping[str, object]]] = [
    (
        EBS,
        "vol-1",
        {"volumeAttributes": {"partition": "3"}},
        "awsElasticBlockStore",
        {"volumeID": "vol-1", "partition": 3},
    ),
    (EBS, "vol-1", {"readOnly": True}, "awsElasticBlockStore", {"volumeID": "vol-1", "readOnly": True}),
    (GCE, "projects/p/zones/z/disks/d", {"fsType": "xfs"}, "gcePersistentDisk", {"pdName": "d", "fsType": "xfs"}),
    (CINDER, "c1", {}, "cinder", {"volumeID": "c1"}),
    (
        DISK,
        URI,
        {"fsType": "ext4", "volumeAttributes": {"cachingMode": "None", "FSType": "xfs"}},
        "azureDisk",
        {
            "diskName": "d1",
            "diskURI": URI,
            "cachingMode": "None",
            "fsType": "xfs",
            "readOnly": False,
            "kind": "Managed",
        },
    ),
    (
        FILE,
        "rg#acme#share#d#n",
        {},
        "azureFile",
        {"secretName": SECRET, "shareName": "share", "secretNamespace": "default"},
    ),
    (
        FILE,
        "h",
        {"volumeAttributes": {"shareName": "a"}, "nodeStageSecretRef": {"name": "s", "namespace": "n"}},
        "azureFile",
        {"secretName": "s", "shareName": "a", "secretNamespace": "n"},
    ),
    (VSPHERE, "id", {"volumeAttributes": {"initialvolumefilepath": "p"}}, "vsphereVolume", {"volumePath": "p"}),
    (PORTWORX, "p1", {"readOnly": True}, "portworxVolume", {"volumeID": "p1", "readOnly": True}),
]


@pytest.mark.parametrize(("driver", "handle", "more", "field", "expected"), BACK)
def test_a_volume_of_csi_is_led_back(
    driver: str, handle: str, more: Mapping[str, object], field: str, expected: Mapping[str, object]
) -> None:
    found = migration.in_tree(csi(driver, handle, source=more))
    assert (found.type, found.source) == (field, expected)


def test_zones_are_led_back_with_their_region() -> None:
    given = csi(EBS, "vol-1", node_affinity=affinity({f"topology.{EBS}/zone": ["us-west-2a", "us-west-2-lax-1a"]}))
    found = migration.in_tree(given)
    assert found.node_affinity == affinity({ZONE: ["us-west-2a", "us-west-2-lax-1a"], REGION: ["us-west-2"]})
    assert found.metadata.labels == {ZONE: "us-west-2-lax-1a__us-west-2a", REGION: "us-west-2"}


def test_the_resource_group_of_a_handle_becomes_an_annotation() -> None:
    found = migration.in_tree(csi(FILE, "rg#acme#share"))
    assert found.metadata.annotations == {"kubernetes.io/azure-file-resource-group": "rg"}
