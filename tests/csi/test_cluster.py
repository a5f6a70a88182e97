"""loopcsi on a node of a real cluster: CSINode, attached by the real controllers, mounted, taken down, detached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.csi import objects
from tests.csi.fault_driver.rules import FOREVER, Rule
from tests.csi.fault_driver.running import running_fault_driver
from tests.csi.node import CSI, loops_below, registry
from tests.eventually import eventually
from tests.kube.client import Document
from tests.kube.cluster import Cluster
from tests.kube.drivers import LoopCsi, running_attacher, running_loopcsi
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import NO_TOKEN, container_status
from volmgr.kube.resources import ATTACHMENTS, CLAIMS, CSI_DRIVERS, CSI_NODES, NODES, PODS, VOLUMES

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("cluster")]

DRIVER, MACHINE, NODE, NAMESPACE = "loop.csi.e2e", "machine-1", "csi-node", "csi"


@pytest.fixture(scope="module", autouse=True)
def namespace(cluster: Cluster) -> None:
    cluster.add_namespace(NAMESPACE)


@pytest.fixture
def loopcsi(cluster: Cluster, top: Path) -> Iterator[LoopCsi]:
    socket = registry(top) / "loop-reg.sock"
    with running_loopcsi(
        top / "driver", DRIVER, MACHINE, "-attach", "-attach-limit", "9", registration=socket
    ) as driver:
        cluster.admin.create(driver.driver_object())
        with running_attacher(cluster, driver):
            yield driver
        cluster.admin.delete(CSI_DRIVERS.path(name=DRIVER))


@pytest.fixture
def kube_node(cluster: Cluster, loopcsi: LoopCsi, top: Path) -> Iterator[KubeNode]:
    with KubeNode(NodeIdentity.added_to(cluster, NODE), top) as node:
        yield node
    cluster.admin.delete(NODES.path(name=NODE))
    assert loops_below(top) == []


def add_disk(cluster: Cluster, driver: LoopCsi, name: str, mode: str) -> Document:
    """Let there be a volume and a claim for it, and give the Pod's volume."""
    driver.add_volume(name)
    whose = {"namespace": NAMESPACE, "name": name}
    cluster.admin.create(objects.persistent(DRIVER, name, volumeMode=mode, claimRef=whose))
    claim = objects.claim(name, volumeMode=mode, volumeName=f"pv-{name}")
    claim["metadata"]["namespace"] = NAMESPACE
    cluster.admin.create(claim)
    return objects.claimed(name)


def attachments(cluster: Cluster) -> list[Document]:
    return [each for each in cluster.admin.items(ATTACHMENTS.path()) if each["spec"]["nodeName"] == NODE]


def registered(cluster: Cluster) -> Document:
    """Give the driver's entry of the CSINode, once it is there."""
    found = cluster.admin.until(CSI_NODES.path(name=NODE), lambda each: bool(each["spec"]["drivers"]))
    (driver,) = found["spec"]["drivers"]
    return dict(driver)


def until_detached(cluster: Cluster, driver: LoopCsi, name: str) -> None:
    eventually(lambda: not attachments(cluster), lambda: f"no VolumeAttachment: {attachments(cluster)}")
    assert driver.attached_to(name) == ""
    cluster.admin.until(NODES.path(name=NODE), lambda node: not node["status"].get("volumesInUse"))
    cluster.admin.delete(CLAIMS.path(NAMESPACE, name))
    cluster.admin.until_gone(CLAIMS.path(NAMESPACE, name))
    cluster.admin.delete(VOLUMES.path(name=f"pv-{name}"))


def test_a_driver_that_registers_is_in_the_csi_node(cluster: Cluster, kube_node: KubeNode) -> None:
    assert registered(cluster) == {
        "name": DRIVER, "nodeID": MACHINE, "topologyKeys": None, "allocatable": {"count": 9}
    }  # fmt: skip
    kube_node.kill()
    kube_node.start()
    assert registered(cluster)["nodeID"] == MACHINE


def test_a_driver_says_anew_how_many_volumes_the_node_takes_when_a_controller_finds_no_room(
    cluster: Cluster, top: Path
) -> None:
    """The test is the attacher: nobody attaches the driver's volumes, and it says why (`attachError.errorCode`)."""
    socket = registry(top) / "fault-reg.sock"
    with (
        running_fault_driver(top / "driver", registration=socket, max_volumes=9) as driver,
        KubeNode(NodeIdentity.added_to(cluster, NODE), top) as node,
    ):
        cluster.admin.create(objects.driver_object(driver.name, attachRequired=True))
        assert registered(cluster)["allocatable"] == {"count": 9}
        whose = {"namespace": NAMESPACE, "name": "full"}
        cluster.admin.create(objects.persistent(driver.name, "full", claimRef=whose))
        claim = objects.claim("full", volumeName="pv-full")
        claim["metadata"]["namespace"] = NAMESPACE
        cluster.admin.create(claim)
        node.identity.run_pod(NAMESPACE, "shop", objects.claimed("full"), **NO_TOKEN)
        eventually(lambda: bool(attachments(cluster)), "the controller asks for an attachment")
        (attachment,) = attachments(cluster)
        driver.script(Rule(method="NodeGetInfo", answer={"maxVolumesPerNode": "3"}, times=FOREVER))
        error = {"attachError": {"message": "3 of 3", "errorCode": 8, "time": "2026-01-01T00:00:00Z"}}
        status = ATTACHMENTS.path(name=attachment["metadata"]["name"], subresource="status")
        cluster.admin.patch(status, {"status": {"attached": False, **error}})
        node.until_why(f"{NAMESPACE}/shop", "VolumeAttachLimitExceeded")
        cluster.admin.until(CSI_NODES.path(name=NODE), lambda each: limits(each) == [3])
        cluster.admin.delete(PODS.path(NAMESPACE, "shop"), gracePeriodSeconds=0)
        node.wait(f"{NAMESPACE}/shop", "unmounted")
        cluster.admin.delete(ATTACHMENTS.path(name=attachment["metadata"]["name"]))
    for path in (CLAIMS.path(NAMESPACE, "full"), VOLUMES.path(name="pv-full"), CSI_DRIVERS.path(name=driver.name)):
        cluster.admin.delete(path)
    cluster.admin.delete(NODES.path(name=NODE))


def limits(csi_node: Document) -> list[int]:
    return [each["allocatable"]["count"] for each in csi_node["spec"]["drivers"]]


def test_a_pod_s_disk_is_attached_mounted_taken_down_and_detached(
    cluster: Cluster, kube_node: KubeNode, loopcsi: LoopCsi
) -> None:
    registered(cluster)
    volume = add_disk(cluster, loopcsi, "disk", "Filesystem")
    made = kube_node.identity.run_pod(NAMESPACE, "shop", volume, **NO_TOKEN)
    kube_node.wait(f"{NAMESPACE}/shop")
    target = kube_node.root / "pods" / made["metadata"]["uid"] / "volumes" / CSI / "pv-disk" / "mount"
    assert str(target) in kube_node.mount_ids()
    (target / "file").write_text("here")
    (attachment,) = attachments(cluster)
    assert attachment["status"]["attached"]
    (staged,) = [call["request"] for call in loopcsi.calls() if call["method"].endswith("/NodeStageVolume")]
    assert staged["publishContext"] == attachment["status"]["attachmentMetadata"]
    mounted = kube_node.mount_ids()
    kube_node.kill()
    kube_node.start()
    kube_node.wait(f"{NAMESPACE}/shop")
    assert kube_node.mount_ids() == mounted
    assert (target / "file").read_text() == "here"
    cluster.admin.delete(PODS.path(NAMESPACE, "shop"), gracePeriodSeconds=0)
    kube_node.wait(f"{NAMESPACE}/shop", "unmounted")
    until_detached(cluster, loopcsi, "disk")
    assert kube_node.mount_ids() == {}


def test_a_pod_s_device_is_attached_mapped_taken_down_and_detached(
    cluster: Cluster, kube_node: KubeNode, loopcsi: LoopCsi
) -> None:
    registered(cluster)
    volume = add_disk(cluster, loopcsi, "raw", "Block")
    made = kube_node.identity.run_pod(NAMESPACE, "shop", volume, devices=("v",), **NO_TOKEN)
    kube_node.wait(f"{NAMESPACE}/shop")
    device = kube_node.root / "pods" / made["metadata"]["uid"] / "volumeDevices" / CSI / "pv-raw"
    assert device.is_block_device()
    device.write_bytes(b"written")
    kube_node.kill()
    cluster.admin.delete(PODS.path(NAMESPACE, "shop"), gracePeriodSeconds=0)
    kube_node.start()
    until_detached(cluster, loopcsi, "raw")
    assert kube_node.mount_ids() == {}
    assert (loopcsi.volumes / "raw.img").read_bytes().startswith(b"written")


def test_a_finished_pod_s_disk_is_given_back_for_the_next_pod_i91(
    cluster: Cluster, kube_node: KubeNode, loopcsi: LoopCsi
) -> None:
    registered(cluster)
    volume = add_disk(cluster, loopcsi, "once", "Filesystem")
    made = kube_node.identity.run_pod(NAMESPACE, "job", volume, **NO_TOKEN)
    kube_node.wait(f"{NAMESPACE}/job")
    job = PODS.path(NAMESPACE, "job")
    status = {"phase": "Succeeded", "containerStatuses": [container_status("main", "terminated")]}
    cluster.admin.patch(f"{job}/status", {"status": status})
    kube_node.wait(made["metadata"]["uid"], "unmounted")
    eventually(lambda: loopcsi.attached_to("once") == "", "it is detached")
    assert [call["method"].rpartition("/")[2] for call in loopcsi.calls()].count("NodeUnstageVolume") == 1
    assert cluster.admin.is_there(job)
    kube_node.identity.run_pod(NAMESPACE, "next", volume, **NO_TOKEN)
    kube_node.wait(f"{NAMESPACE}/next")
    for name in ("job", "next"):
        cluster.admin.delete(PODS.path(NAMESPACE, name), gracePeriodSeconds=0)
    kube_node.wait(f"{NAMESPACE}/next", "unmounted")
    until_detached(cluster, loopcsi, "once")
    assert kube_node.mount_ids() == {}
