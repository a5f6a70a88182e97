"""A claim is bound and attached by the real controllers, and detached when its Pod is gone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.client import Document
from tests.kube.cluster import MANAGED_ATTACHMENT, Cluster
from tests.kube.drivers import LoopCsi, running_attacher, running_loopcsi
from tests.kube.kube_node import NodeIdentity
from volmgr.kube.resources import ATTACHMENTS, CLAIMS, CSI_DRIVERS, CSI_NODES, NODES, PODS, VOLUMES

DRIVER, MACHINE = "loop.csi.e2e", "machine-1"


@pytest.fixture
def driver(cluster: Cluster, kube_node: NodeIdentity, tmp_path: Path) -> Iterator[LoopCsi]:
    with running_loopcsi(tmp_path / "driver", DRIVER, MACHINE, "-attach") as driver:
        cluster.admin.create(driver.driver_object())
        cluster.admin.create(driver.node_object(kube_node.name))
        with running_attacher(cluster, driver):
            yield driver
        cluster.admin.delete(CSI_DRIVERS.path(name=DRIVER))
        cluster.admin.delete(CSI_NODES.path(name=kube_node.name))


def add_claim(cluster: Cluster, driver: LoopCsi, namespace: str, name: str) -> dict[str, Any]:
    """Let there be a claim, a volume for it, and give the Pod's volume."""
    driver.add_volume(name)
    size, modes = {"storage": "16Mi"}, ["ReadWriteOnce"]
    cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": size,
                "accessModes": modes,
                "claimRef": {"namespace": namespace, "name": name},
                "csi": {"driver": driver.name, "volumeHandle": name},
            },
        }
    )
    cluster.admin.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"accessModes": modes, "resources": {"requests": size}, "storageClassName": ""},
        }
    )
    return {"name": "v", "persistentVolumeClaim": {"claimName": name}}


def drop_claim(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.admin.delete(CLAIMS.path(namespace, name))
    cluster.admin.until_gone(CLAIMS.path(namespace, name))
    cluster.admin.delete(VOLUMES.path(name=name))


def attachments(cluster: Cluster, node: str) -> list[Document]:
    return [each for each in cluster.admin.items(ATTACHMENTS.path()) if each["spec"]["nodeName"] == node]


def attached(node: Mapping[str, Any]) -> list[str]:
    return [each["name"] for each in node["status"].get("volumesAttached", [])]


def test_a_claim_is_bound_attached_kept_while_in_use_and_detached_by_the_real_controllers(
    cluster: Cluster, kube_node: NodeIdentity, driver: LoopCsi, namespace: str
) -> None:
    node, handle = NODES.path(name=kube_node.name), f"{namespace}-disk"
    unique = f"kubernetes.io/csi/{DRIVER}^{handle}"
    kube_node.run_pod(namespace, "pod", add_claim(cluster, driver, namespace, handle))
    cluster.admin.until(CLAIMS.path(namespace, handle), lambda claim: claim["status"]["phase"] == "Bound")
    cluster.admin.until(node, lambda node: attached(node) == [unique])
    (attachment,) = attachments(cluster, kube_node.name)
    own = ATTACHMENTS.path(name=attachment["metadata"]["name"])
    assert attachment["status"]["attached"]
    assert driver.attached_to(handle) == MACHINE
    kube_node.until_graphed(own)
    assert kube_node.client.get(own)["status"] == attachment["status"]

    kube_node.client.patch(f"{node}/status", {"status": {"volumesInUse": [unique]}})
    cluster.admin.delete(PODS.path(namespace, "pod"), gracePeriodSeconds=0)
    other = f"{namespace}-other"
    kube_node.run_pod(namespace, "later", add_claim(cluster, driver, namespace, other))
    cluster.admin.until(node, lambda node: f"kubernetes.io/csi/{DRIVER}^{other}" in attached(node))
    assert cluster.admin.is_there(own)  # reported in use: it stays, though its Pod went before another one came

    kube_node.client.patch(f"{node}/status", {"status": {"volumesInUse": []}})
    cluster.admin.until_gone(own)
    assert driver.attached_to(handle) == ""
    cluster.admin.delete(PODS.path(namespace, "later"), gracePeriodSeconds=0)
    cluster.admin.until(node, lambda node: attached(node) == [])
    for name in (handle, other):
        drop_claim(cluster, namespace, name)
    publishes = [call for call in driver.calls() if call["method"].endswith("/ControllerPublishVolume")]
    assert {call["request"]["volumeId"] for call in publishes} == {handle, other}


def test_the_controllers_attach_to_a_node_only_when_it_says_that_they_shall(
    cluster: Cluster,
    make_node: Callable[..., NodeIdentity],
    kube_node: NodeIdentity,
    driver: LoopCsi,
    namespace: str,
) -> None:
    silent = make_node(managed_attachment=False)
    cluster.admin.create(driver.node_object(silent.name))
    first, second = f"{namespace}-first", f"{namespace}-second"
    silent.run_pod(namespace, "waits", add_claim(cluster, driver, namespace, first))
    kube_node.run_pod(namespace, "goes-on", add_claim(cluster, driver, namespace, second))
    cluster.admin.until(NODES.path(name=kube_node.name), lambda node: len(attached(node)) == 1)
    assert attachments(cluster, silent.name) == []  # though its Pod came first

    annotation = {"metadata": {"annotations": {MANAGED_ATTACHMENT: "true"}}}
    silent.client.patch(NODES.path(name=silent.name), annotation, "strategic")

    def is_attached_after_an_event() -> bool:
        """Change the Pod: by itself the controller looks at Pods that it passed over every 3 minutes only."""
        cluster.admin.patch(PODS.path(namespace, "waits"), {"metadata": {"labels": {"look": str(next(looks))}}})
        return len(attachments(cluster, silent.name)) == 1

    looks = itertools.count()
    eventually(is_attached_after_an_event, "the volume is attached to the other node")
    for pod in ("waits", "goes-on"):
        cluster.admin.delete(PODS.path(namespace, pod), gracePeriodSeconds=0)
    for attachment in attachments(cluster, silent.name) + attachments(cluster, kube_node.name):
        cluster.admin.until_gone(ATTACHMENTS.path(name=attachment["metadata"]["name"]))
    for name in (first, second):
        drop_claim(cluster, namespace, name)
    cluster.admin.delete(CSI_NODES.path(name=silent.name))
