"""What becomes no volume of csi, and what is not led back: refused by the field that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.migration.volumes import DISK, EBS, FILE, GCE, URI, ZONE, affinity, csi, inline, volume
from volmgr import migration
from volmgr.errors import SpecError
from volmgr.model.volume import ClaimRef


@pytest.mark.parametrize(
    ("field", "source", "message"),
    [
        ("awsElasticBlockStore", {}, "volumeID: is missing"),
        ("awsElasticBlockStore", {"volumeID": 7}, "volumeID: the number 7 where a text is needed; put it in quotes"),
        (
            "awsElasticBlockStore",
            {"volumeID": "v", "partition": "1"},
            "partition: the text '1' where a number is needed",
        ),
        ("awsElasticBlockStore", {"volumeID": "v", "partition": True}, "partition: the boolean true where a number"),
        (
            "gcePersistentDisk",
            {"pdName": "d", "partition": 256},
            "partition: 256 is no partition; write a number from 0",
        ),
        (
            "awsElasticBlockStore",
            {"volumeID": "aws://z/disk"},
            "volumeID: 'aws://z/disk' names no EBS volume; write vol-",
        ),
        ("awsElasticBlockStore", {"volumeID": "aws:///vol-%ff"}, "volumeID: 'aws:///vol-%ff' names no EBS volume"),
        ("awsElasticBlockStore", {"volumeID": "aws://[::1]/vol-1"}, "names no EBS volume"),
        ("gcePersistentDisk", {"pdName": ""}, "pdName: is empty; name the storage"),
        ("gcePersistentDisk", {"pdName": "d", "readOnly": "yes"}, "readOnly: the text 'yes'"),
        ("azureDisk", {"diskName": "d"}, "diskURI: is missing"),
        ("azureDisk", {"diskName": "d", "diskURI": URI, "kind": "Shared"}, "kind: 'Shared' is not served by disk.csi"),
        ("azureFile", {"shareName": "s"}, "secretName: is missing"),
        ("cinder", {"volumeID": "c", "secretRef": "s"}, "secretRef: the text 's' where a mapping is needed"),
        ("vsphereVolume", {"volumePath": None}, "volumePath: is missing"),
        ("portworxVolume", {"volumeID": "p", "fsType": 4}, "fsType: the number 4"),
    ],
)
def test_a_source_that_names_no_storage_is_refused_by_its_field(
    field: str, source: Mapping[str, object], message: str
) -> None:
    with pytest.raises(SpecError) as of_a_pod:
        inline(field, source)
    with pytest.raises(SpecError) as persistent:
        migration.persistent_csi(volume(field, source))
    assert all(message in str(error.value) for error in (of_a_pod, persistent))


@pytest.mark.parametrize("uri", ["..", ".", "nul\0", "/" + "x" * 255])
def test_a_name_that_no_directory_can_have_is_refused(uri: str) -> None:
    with pytest.raises(SpecError, match="azureDisk: no directory can be named"):
        inline("azureDisk", {"diskName": "d", "diskURI": uri})


@pytest.mark.parametrize(
    ("driver", "handle", "more", "message"),
    [
        (EBS, "", {}, "volumeHandle: is missing"),
        (EBS, "v", {"volumeAttributes": {"partition": "one"}}, "volumeAttributes.partition: 'one' is no number"),
        (
            EBS,
            "v",
            {"volumeAttributes": {"partition": "4294967297"}},
            "volumeAttributes.partition: 4294967297 is too large",
        ),
        (GCE, "disk", {}, "volumeHandle: 'disk' names no disk; write projects/PROJECT/zones/UNSPECIFIED/disks/DISK"),
        (DISK, "disk", {}, "volumeHandle: 'disk' is no URI of a disk"),
        (FILE, "a#b", {}, "volumeHandle: 'a#b' names no share; write GROUP#ACCOUNT#SHARE"),
        ("other", "v", {}, "driver: 'other' took the place of no in-tree type"),
    ],
)
def test_what_cannot_be_led_back_is_refused(driver: str, handle: str, more: Mapping[str, object], message: str) -> None:
    with pytest.raises(SpecError) as error:
        migration.in_tree(csi(driver, handle, source=more))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("driver", "zones", "message"),
    [
        (EBS, ["us-east-1"], "nodeAffinity: 'us-east-1' is no zone of AWS; write one such as us-west-2a"),
        (EBS, ["us-east-1a", "us-west-2a"], "nodeAffinity: zones us-east-1a, us-west-2a are not of one region"),
        (EBS, [], "nodeAffinity: zones of none are not of one region"),
        (GCE, ["z"], "'z' is no zone of Google Cloud; write one such as us-central1-a"),
    ],
)
def test_zones_without_one_region_cannot_be_led_back(driver: str, zones: list[str], message: str) -> None:
    key = "topology.gke.io/zone" if driver == GCE else f"topology.{driver}/zone"
    with pytest.raises(SpecError) as error:
        migration.in_tree(csi(driver, "projects/p/zones/z/disks/d", node_affinity=affinity({key: zones})))
    assert message in str(error.value)


def test_zones_of_two_regions_are_no_place_for_a_google_disk() -> None:
    with pytest.raises(SpecError, match="zones a-b-c, x-y-z are not of one region"):
        migration.persistent_csi(volume("gcePersistentDisk", {"pdName": "d"}, labels={ZONE: "a-b-c__x-y-z"}))


@pytest.mark.parametrize("claim", [None, ClaimRef(name="c")])
def test_an_azure_share_whose_secret_has_no_namespace_is_refused(claim: ClaimRef | None) -> None:
    with pytest.raises(SpecError, match="secretNamespace: is missing, and no claim says it"):
        migration.persistent_csi(volume("azureFile", {"secretName": "s", "shareName": "s"}, claim_ref=claim))


def test_a_volume_of_another_type_is_not_led_back() -> None:
    with pytest.raises(SpecError, match="is of type 'nfs'; only one of csi is led back"):
        migration.in_tree(volume("nfs", {"driver": EBS}))
