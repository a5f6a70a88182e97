"""Each in-tree type as csi: values that `csi-translation-lib` gives, written down (all of them: tests/csi)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.migration.volumes import (
    BETA_REGION,
    BETA_ZONE,
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
    inline,
    volume,
)
from volmgr import migration
from volmgr.model.volume import ClaimRef

INLINE = [
    (
        "awsElasticBlockStore",
        {"volumeID": "aws://us-east-1a/vol-1", "fsType": "xfs", "partition": 2, "readOnly": True},
        (f"{EBS}-vol-1", "ReadWriteOnce"),
        {
            "driver": EBS,
            "volumeHandle": "vol-1",
            "fsType": "xfs",
            "readOnly": True,
            "volumeAttributes": {"partition": "2"},
        },
    ),
    (
        "gcePersistentDisk",
        {"pdName": "d"},
        (f"{GCE}-d", "ReadWriteOnce"),
        {
            "driver": GCE,
            "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            "volumeAttributes": {"partition": ""},
        },
    ),
    (
        "gcePersistentDisk",
        {"pdName": "d", "readOnly": True, "partition": 1},
        (f"{GCE}-d", "ReadOnlyMany"),
        {
            "driver": GCE,
            "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            "readOnly": True,
            "volumeAttributes": {"partition": "1"},
        },
    ),
    (
        "cinder",
        {"volumeID": "c1", "fsType": "ext4", "secretRef": {"name": "s"}},
        (f"{CINDER}-c1", "ReadWriteOnce"),
        {"driver": CINDER, "volumeHandle": "c1", "fsType": "ext4"},
    ),
    (
        "azureDisk",
        {"diskName": "d1", "diskURI": URI, "cachingMode": "", "fsType": "ext4", "kind": "managed"},
        (URI, "ReadWriteOnce"),
        {
            "driver": DISK,
            "volumeHandle": URI,
            "fsType": "ext4",
            "volumeAttributes": {"kind": "Managed", "fstype": "ext4"},
        },
    ),
    (
        "azureFile",
        {"secretName": SECRET, "shareName": "share"},
        ("#acme#share#data#shop", "ReadWriteMany"),
        {
            "driver": FILE,
            "volumeHandle": "#acme#share#data#shop",
            "volumeAttributes": {"sharename": "share"},
            "nodeStageSecretRef": {"name": SECRET, "namespace": "shop"},
        },
    ),
    (
        "vsphereVolume",
        {"volumePath": "[ds] kubevols/v.vmdk", "storagePolicyName": "gold"},
        (f"{VSPHERE}-[ds] kubevols/v.vmdk", "ReadWriteOnce"),
        {
            "driver": VSPHERE,
            "volumeHandle": "[ds] kubevols/v.vmdk",
            "volumeAttributes": {"storagepolicyname": "gold"},
        },
    ),
    (
        "portworxVolume",
        {"volumeID": "p1", "readOnly": True},
        (f"{PORTWORX}-p1", "ReadOnlyMany"),
        {"driver": PORTWORX, "volumeHandle": "p1"},
    ),
]


@pytest.mark.parametrize(("field", "source", "named", "expected"), INLINE)
def test_a_volume_of_a_pod_is_one_of_its_driver_named_after_its_storage(
    field: str, source: Mapping[str, object], named: tuple[str, str], expected: Mapping[str, object]
) -> None:
    found = inline(field, source)
    assert (found.metadata.name, *found.access_modes) == named
    assert (found.type, found.source, found.inline) == ("csi", expected, True)


def test_an_azure_file_share_of_a_pod_without_a_namespace_has_its_secret_in_default() -> None:
    found = inline("azureFile", {"secretName": "s", "shareName": "share"}, namespace="")
    assert found.source["volumeHandle"] == "#s#share#data#default"


def test_a_persistent_volume_keeps_all_else_that_it_says() -> None:
    given = volume(
        "cinder",
        {"volumeID": "c1"},
        labels={"a": "b", ZONE: "nova"},
        access_modes=("ReadWriteMany",),
        mount_options=("noatime",),
    )
    found = migration.persistent_csi(given)
    assert (found.metadata, found.access_modes, found.mount_options) == (
        given.metadata,
        ("ReadWriteMany",),
        ("noatime",),
    )
    assert found.node_affinity == affinity({"topology.cinder.csi.openstack.org/zone": ["nova"]})
    assert not found.inline


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({ZONE: "us-central1-a"}, "zones/us-central1-a"),
        ({ZONE: "us-central1-a", BETA_ZONE: "us-central1-b"}, "zones/us-central1-b"),
        ({ZONE: "us-central1-a__us-central1-b"}, "regions/us-central1"),
    ],
)
def test_a_google_disk_is_where_its_labels_say(labels: Mapping[str, str], handle: str) -> None:
    found = migration.persistent_csi(volume("gcePersistentDisk", {"pdName": "d"}, labels=labels))
    assert found.source["volumeHandle"] == f"projects/UNSPECIFIED/{handle}/disks/d"


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ((), ()),
        (("ReadWriteMany",), ("ReadWriteOnce",)),
        (("ReadOnlyMany",), ("ReadOnlyMany",)),
        (("ReadOnlyMany", "ReadWriteOnce"), ("ReadWriteOnce",)),
        (("ReadWriteOncePod",), ("ReadWriteOnce",)),
    ],
)
def test_a_google_disk_has_the_one_mode_that_its_driver_keeps(
    modes: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    found = migration.persistent_csi(volume("gcePersistentDisk", {"pdName": "d"}, access_modes=modes))
    assert found.access_modes == expected


def test_zones_of_the_affinity_count_before_labels_and_old_labels_become_new_ones() -> None:
    given = volume(
        "awsElasticBlockStore",
        {"volumeID": "vol-1"},
        labels={BETA_ZONE: "us-east-1b"},
        node_affinity=affinity({BETA_ZONE: ["us-east-1a"], BETA_REGION: ["us-east-1"], "disk": ["ssd"]}),
    )
    found = migration.persistent_csi(given)
    assert found.node_affinity == affinity(
        {f"topology.{EBS}/zone": ["us-east-1a"], REGION: ["us-east-1"], "disk": ["ssd"]}
    )


def test_zones_of_a_label_are_demanded_of_each_term() -> None:
    given = volume(
        "awsElasticBlockStore",
        {"volumeID": "vol-1"},
        labels={ZONE: " us-east-1b __us-east-1a__"},
        node_affinity=affinity({"disk": ["ssd"]}, {"disk": ["hdd"]}),
    )
    zones = {f"topology.{EBS}/zone": ["us-east-1a", "us-east-1b"]}
    found = migration.persistent_csi(given)
    assert found.node_affinity == affinity({"disk": ["ssd"], **zones}, {"disk": ["hdd"], **zones})


def test_vsphere_has_zones_and_regions() -> None:
    labels = {ZONE: "z", REGION: "r"}
    found = migration.persistent_csi(volume("vsphereVolume", {"volumePath": "p"}, labels=labels))
    keys = affinity({"topology.csi.vmware.com/zone": ["z"], "topology.csi.vmware.com/region": ["r"]})
    assert found.node_affinity == keys
    back = migration.in_tree(csi(VSPHERE, "h", node_affinity=keys, source={"volumeAttributes": {}}))
    assert back.metadata.labels == labels
    assert back.node_affinity == affinity({ZONE: ["z"], REGION: ["r"]})


def test_portworx_takes_its_secret_from_annotations_for_every_call() -> None:
    annotations = {"openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n"}
    found = migration.persistent_csi(volume("portworxVolume", {"volumeID": "p"}, annotations=annotations))
    refs = {key: value for key, value in found.source.items() if key.endswith("SecretRef")}
    assert len(refs) == 5
    assert set(map(str, refs.values())) == {"{'name': 's', 'namespace': 'n'}"}


@pytest.mark.parametrize(
    ("source", "claim", "namespace"),
    [
        ({"secretNamespace": "own"}, ClaimRef(namespace="shop"), "own"),
        ({}, ClaimRef(namespace="shop"), "shop"),
    ],
)
def test_an_azure_share_finds_its_secret_where_it_says_or_with_its_claim(
    source: Mapping[str, object], claim: ClaimRef, namespace: str
) -> None:
    given = volume(
        "azureFile",
        {"secretName": SECRET, "shareName": "share", **source},
        claim_ref=claim,
        annotations={"kubernetes.io/azure-file-resource-group": "rg"},
    )
    found = migration.persistent_csi(given)
    assert found.source["nodeStageSecretRef"] == {"name": SECRET, "namespace": namespace}
    assert found.source["volumeHandle"] == f"rg#acme#share#pv#{namespace}"
