"""Which PersistentVolumes are one to what stores them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from volmgr.model.meta import ObjectMeta
from volmgr.model.volume import PersistentVolume
from volmgr.same_storage import is_same_storage

EBS = "ebs.csi.aws.com"


def volume(name: str, field: str, **source: object) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name=name, namespace=""), type=field, source=source)


def csi(handle: str, driver: str = EBS, **more: object) -> PersistentVolume:
    return volume("made", "csi", driver=driver, volumeHandle=handle, **more)


@pytest.mark.parametrize(
    ("field", "source"),
    [
        ("csi", {"driver": EBS, "volumeHandle": "vol-1", "readOnly": True}),
        ("awsElasticBlockStore", {"volumeID": "vol-1"}),
        ("awsElasticBlockStore", {"volumeID": "aws://us-east-1a/vol-1", "partition": 1}),
    ],
)
def test_a_volume_is_the_same_however_it_is_written(field: str, source: Mapping[str, object]) -> None:
    other = volume("other", field, **source)
    assert is_same_storage(csi("vol-1", fsType="ext4"), other)
    assert is_same_storage(other, csi("vol-1"))
    assert not is_same_storage(csi("vol-2"), other)
    assert not is_same_storage(csi("vol-1", "other.example.com"), other)


def test_shares_of_one_secret_are_the_same_although_each_has_a_handle_of_its_own() -> None:
    share = {"secretName": "key", "secretNamespace": "default", "shareName": "s"}
    assert is_same_storage(volume("a", "azureFile", **share), volume("b", "azureFile", **share))


def test_a_volume_that_cannot_be_read_is_the_same_as_none_of_a_driver() -> None:
    assert not is_same_storage(csi("vol-1"), volume("wrong", "awsElasticBlockStore", volumeID=""))


def test_volumes_of_other_types_are_the_same_by_all_that_they_say() -> None:
    assert is_same_storage(volume("a", "nfs", server="s", path="/a"), volume("b", "nfs", server="s", path="/a"))
    assert not is_same_storage(volume("a", "nfs", server="s", path="/a"), volume("b", "nfs", server="s", path="/b"))
