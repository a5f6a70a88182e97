"""In-tree volumes on a node of a real cluster: its controllers attach them as csi, because the CSINode says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.csi import objects
from tests.csi.node import CSI, loops_below, registry
from tests.eventually import eventually
from tests.kube.client import Document
from tests.kube.cluster import Cluster
from tests.kube.drivers import LoopCsi, running_attacher, running_loopcsi
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import NO_TOKEN
from volmgr.kube.csi_entries import MIGRATED
from volmgr.kube.resources import ATTACHMENTS, CSI_NODES, NODES, PODS

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("cluster")]

DRIVER, MACHINE, NODE, NAMESPACE = "ebs.csi.aws.com", "i-0123", "migrated-node", "migrated"


@pytest.fixture(scope="module", autouse=True)
def namespace(cluster: Cluster) -> None:
    cluster.add_namespace(NAMESPACE)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("m")


@pytest.fixture(scope="module")
def loopcsi(cluster: Cluster, place: Path) -> Iterator[LoopCsi]:
    socket = registry(place) / "ebs-reg.sock"
    with running_loopcsi(place / "driver", DRIVER, MACHINE, "-attach", registration=socket) as driver:
        cluster.admin.create(driver.driver_object())
        with running_attacher(cluster, driver):
            yield driver


@pytest.fixture(scope="module")
def kube_node(cluster: Cluster, loopcsi: LoopCsi, place: Path) -> Iterator[KubeNode]:
    with KubeNode(NodeIdentity.added_to(cluster, NODE), place) as node:
        cluster.admin.until(CSI_NODES.path(name=NODE), lambda each: bool(each["spec"]["drivers"]))
        yield node
    cluster.admin.delete(NODES.path(name=NODE))
    assert loops_below(loopcsi.top) == []


def attachments(cluster: Cluster) -> list[Document]:
    return [each for each in cluster.admin.items(ATTACHMENTS.path()) if each["spec"]["nodeName"] == NODE]


def in_tree(handle: str) -> Document:
    """Give the field that names an EBS volume, as clusters have written it."""
    return {"awsElasticBlockStore": {"volumeID": f"aws://us-east-1a/{handle}", "fsType": "ext4"}}


def claimed(cluster: Cluster, handle: str) -> Document:
    """Let there be a PersistentVolume and its claim, and give the volume of a Pod."""
    whose = {"namespace": NAMESPACE, "name": handle}
    volume = objects.persistent(DRIVER, handle, claimRef=whose, **in_tree(handle))
    del volume["spec"]["csi"]
    volume["metadata"]["labels"] = {"topology.kubernetes.io/zone": "us-east-1a"}
    cluster.admin.create(volume)
    claim = objects.claim(handle, volumeName=f"pv-{handle}")
    claim["metadata"]["namespace"] = NAMESPACE
    cluster.admin.create(claim)
    return objects.claimed(handle)


def test_the_csi_node_says_that_the_type_is_migrated(cluster: Cluster, kube_node: KubeNode) -> None:
    found = cluster.admin.get(CSI_NODES.path(name=kube_node.identity.name))
    assert "kubernetes.io/aws-ebs" in found["metadata"]["annotations"][MIGRATED].split(",")


@pytest.mark.parametrize(
    ("handle", "directory"), [("vol-claimed", "pv-vol-claimed"), ("vol-inline", f"{DRIVER}-vol-inline")]
)
def test_a_disk_is_attached_as_csi_mounted_kept_over_a_kill_and_detached(
    cluster: Cluster, kube_node: KubeNode, loopcsi: LoopCsi, handle: str, directory: str
) -> None:
    loopcsi.add_volume(handle)
    volume = claimed(cluster, handle) if handle == "vol-claimed" else {"name": "v", **in_tree(handle)}
    made = kube_node.identity.run_pod(NAMESPACE, handle, volume, **NO_TOKEN)
    kube_node.wait(f"{NAMESPACE}/{handle}")
    target = kube_node.root / "pods" / made["metadata"]["uid"] / "volumes" / CSI / directory / "mount"
    assert str(target) in kube_node.mount_ids()
    (attachment,) = attachments(cluster)
    assert (attachment["spec"]["attacher"], loopcsi.attached_to(handle)) == (DRIVER, MACHINE)
    unique = f"kubernetes.io/csi/{DRIVER}^{handle}"
    status = cluster.admin.until(NODES.path(name=NODE), lambda node: unique in node["status"].get("volumesInUse", ()))
    assert [each["name"] for each in status["status"]["volumesAttached"]] == [unique]
    mounted = kube_node.mount_ids()
    kube_node.kill()
    kube_node.start()
    kube_node.wait(f"{NAMESPACE}/{handle}")
    assert kube_node.mount_ids() == mounted
    cluster.admin.delete(PODS.path(NAMESPACE, handle), gracePeriodSeconds=0)
    kube_node.wait(f"{NAMESPACE}/{handle}", "unmounted")
    eventually(lambda: not attachments(cluster), lambda: f"no VolumeAttachment: {attachments(cluster)}")
    assert loopcsi.attached_to(handle) == ""
    assert kube_node.mount_ids() == {}
