"""What StorageClasses say to a driver, and handles that leave something open."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.migration.volumes import BETA_ZONE, EBS, GCE, PORTWORX, ZONE
from volmgr import migration
from volmgr.errors import SpecError
from volmgr.migration import Provisioning


@pytest.mark.parametrize(
    ("provisioner", "given", "expected"),
    [
        (
            "kubernetes.io/aws-ebs",
            {"fsType": "xfs", "iopsPerGB": "10"},
            {"csi.storage.k8s.io/fstype": "xfs", "iopsPerGB": "10", "allowautoiopspergbincrease": "true"},
        ),
        (
            "kubernetes.io/gce-pd",
            {"fstype": "xfs", "type": "pd-ssd"},
            {"csi.storage.k8s.io/fstype": "xfs", "type": "pd-ssd"},
        ),
        ("kubernetes.io/cinder", {"availability": "nova"}, {"availability": "nova"}),
        ("kubernetes.io/azure-disk", {"fsType": "xfs", "kind": "managed"}, {"fsType": "xfs", "kind": "managed"}),
        ("kubernetes.io/azure-file", {"skuName": "x"}, {"skuName": "x"}),
        (
            "kubernetes.io/vsphere-volume",
            {"fstype": "xfs", "DiskFormat": "thin", "storagePolicyName": "gold", "other": "dropped"},
            {
                "csi.storage.k8s.io/fstype": "xfs",
                "diskformat-migrationparam": "thin",
                "storagepolicyname": "gold",
                "csimigration": "true",
            },
        ),
    ],
)
def test_parameters_of_a_class_are_those_that_its_driver_reads(
    provisioner: str, given: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    found = migration.provisioning(Provisioning(provisioner=provisioner, parameters=given))
    assert found == Provisioning(provisioner=provisioner, parameters=expected)


def test_a_class_of_portworx_names_its_driver_and_a_secret_for_each_call() -> None:
    given = {"openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n", "repl": "2"}
    found = migration.provisioning(Provisioning(provisioner="kubernetes.io/portworx-volume", parameters=given))
    assert found.provisioner == PORTWORX
    assert len(found.parameters) == 13
    assert found.parameters["csi.storage.k8s.io/node-expand-secret-namespace"] == "n"


def topologies(*terms: Mapping[str, list[str]]) -> tuple[Mapping[str, object], ...]:
    return tuple(
        {"matchLabelExpressions": [{"key": key, "values": values} for key, values in term.items()]} for term in terms
    )


@pytest.mark.parametrize(
    ("parameters", "allowed", "expected"),
    [
        ({"zone": "a,b"}, (), topologies({"topology.disk.csi.azure.com/zone": ["a,b"]})),
        ({"Zones": "0,b"}, (), topologies({"topology.disk.csi.azure.com/zone": ["", "b"]})),
        (
            {},
            topologies({BETA_ZONE: ["7"], "other": ["7"]}, {}),
            topologies({"topology.disk.csi.azure.com/zone": [""], "other": ["7"]}, {}),
        ),
    ],
)
def test_zones_of_a_class_are_topologies_of_its_driver(
    parameters: Mapping[str, str],
    allowed: tuple[Mapping[str, object], ...],
    expected: tuple[Mapping[str, object], ...],
) -> None:
    asked = Provisioning(provisioner="kubernetes.io/azure-disk", parameters=parameters, allowed_topologies=allowed)
    assert migration.provisioning(asked) == Provisioning(
        provisioner="kubernetes.io/azure-disk", allowed_topologies=expected
    )


def test_a_class_that_says_its_zones_twice_is_refused() -> None:
    asked = Provisioning(
        provisioner="kubernetes.io/gce-pd", parameters={"zone": "a"}, allowed_topologies=topologies({ZONE: ["a"]})
    )
    with pytest.raises(SpecError, match="allowedTopologies: stands beside the parameter zone or zones"):
        migration.provisioning(asked)


def test_a_class_of_no_in_tree_type_is_not_translated() -> None:
    with pytest.raises(SpecError, match="is no in-tree type that a csi driver took"):
        migration.provisioning(Provisioning(provisioner="kubernetes.io/nfs"))


NODE = "projects/p/zones/us-central1-a/instances/i"


@pytest.mark.parametrize(
    ("handle", "expected"),
    [
        ("projects/own/zones/z/disks/d", "projects/own/zones/z/disks/d"),
        ("projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", "projects/p/zones/us-central1-a/disks/d"),
        ("projects/UNSPECIFIED/zones/z/disks/d", "projects/p/zones/z/disks/d"),
        ("projects/UNSPECIFIED/regions/UNSPECIFIED/disks/d", "projects/p/regions/us-central1/disks/d"),
        ("projects/UNSPECIFIED/regions/r/disks/d", "projects/p/regions/r/disks/d"),
    ],
)
def test_a_handle_is_completed_for_a_node(handle: str, expected: str) -> None:
    assert migration.repaired_handle(GCE, handle, NODE) == expected
    assert migration.repaired_handle(EBS, handle, NODE) == handle


@pytest.mark.parametrize(
    ("handle", "node", "message"),
    [
        ("d", NODE, "volumeHandle: 'd' names no disk"),
        ("projects/UNSPECIFIED/zones/z/disks/d", "i-1", "node id 'i-1' is none of pd.csi.storage.gke.io"),
        ("projects/UNSPECIFIED/moons/z/disks/d", NODE, "is neither of zones nor of regions"),
        (
            "projects/UNSPECIFIED/regions/UNSPECIFIED/disks/d",
            "projects/p/zones/z/instances/i",
            "'z' is no zone of Google",
        ),
    ],
)
def test_a_handle_that_cannot_be_completed_is_refused(handle: str, node: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        migration.repaired_handle(GCE, handle, node)
    assert message in str(error.value)
