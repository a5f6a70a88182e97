"""What a node says of a volume's growth in its claim, with a real API server; the test is the resizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.csi import objects
from tests.csi.fault_driver.profile import NODE
from tests.csi.fault_driver.rules import Rule
from tests.csi.fault_driver.running import ThreadDriver, running_fault_driver
from tests.csi.node import registry
from tests.eventually import eventually
from tests.kube.client import Document
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import NO_TOKEN
from volmgr.kube.resources import CLAIMS, CSI_DRIVERS, CSI_NODES, EVENTS, NODES, PODS, VOLUMES

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("cluster")]

MACHINE, NAMESPACE = "growing-node", "growing"
CLAIM = CLAIMS.path(NAMESPACE, "orders")
MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def namespace(cluster: Cluster) -> None:
    cluster.add_namespace(NAMESPACE)


@pytest.fixture
def driver(top: Path) -> Iterator[ThreadDriver]:
    socket = registry(top) / "fault-reg.sock"
    with running_fault_driver(top / "driver", registration=socket, node=NODE, controller=()) as driver:
        yield driver


@pytest.fixture
def node(cluster: Cluster, driver: ThreadDriver, top: Path) -> Iterator[KubeNode]:
    """A node whose Pod `shop` has a volume of 16 MiB mounted."""
    cluster.admin.create(objects.driver_object(driver.name))
    driver.add_volume("orders", size=16 * MIB)
    whose = {"namespace": NAMESPACE, "name": "orders"}
    volume = objects.persistent(driver.name, "orders", claimRef=whose)
    cluster.admin.create(volume)
    claim = objects.claim("orders", volumeName="pv-orders")
    claim["metadata"]["namespace"] = NAMESPACE
    cluster.admin.create(claim)
    cluster.admin.until(CLAIM, lambda each: each["status"]["phase"] == "Bound")
    config = top / "config.json"
    config.write_text(json.dumps({"kubernetes": {"object_lifetime": "200ms"}}))  # a grown volume is asked for
    with KubeNode(NodeIdentity.added_to(cluster, MACHINE), top, "--config", str(config)) as node:
        cluster.admin.until(CSI_NODES.path(name=MACHINE), lambda each: bool(each["spec"]["drivers"]))
        node.identity.run_pod(NAMESPACE, "shop", objects.claimed("orders"), **NO_TOKEN)
        node.wait(f"{NAMESPACE}/shop")
        yield node
        cluster.admin.delete(PODS.path(NAMESPACE, "shop"), gracePeriodSeconds=0)
        node.wait(f"{NAMESPACE}/shop", "unmounted")
    cluster.admin.delete(CLAIM)
    cluster.admin.until_gone(CLAIM)
    cluster.admin.delete(VOLUMES.path(name="pv-orders"))
    cluster.admin.delete(CSI_DRIVERS.path(name=driver.name))
    cluster.admin.delete(NODES.path(name=MACHINE))


def resize(cluster: Cluster, driver: ThreadDriver, size: str) -> None:
    """Do what external-resizer does when a driver has grown a volume: it is the node's turn."""
    driver.volumes.keep(replace(driver.volumes.get("orders"), size=int(size.removesuffix("Mi")) * MIB))
    cluster.admin.patch(VOLUMES.path(name="pv-orders"), {"spec": {"capacity": {"storage": size}}})
    status: dict[str, Any] = {
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
    }
    cluster.admin.patch(CLAIMS.path(NAMESPACE, "orders", "status"), {"status": status})


def conditions(claim: Document) -> dict[str, str]:
    return {each["type"]: each.get("message", "") for each in claim["status"].get("conditions", [])}


def stage_of(claim: Document) -> str:
    return str(claim["status"].get("allocatedResourceStatuses", {}).get("storage", ""))


def test_a_claim_has_its_new_capacity_when_the_node_has_grown_its_volume(
    cluster: Cluster, driver: ThreadDriver, node: KubeNode
) -> None:
    driver.script(
        Rule(method="NodeExpandVolume", code="INTERNAL", message="no room", gate_before="asked"),
        Rule(method="NodeExpandVolume", gate_before="again"),
    )
    resize(cluster, driver, "32Mi")
    driver.until_reached("asked")
    cluster.admin.until(CLAIM, lambda claim: stage_of(claim) == "NodeResizeInProgress")
    driver.open("asked")
    claim = cluster.admin.until(CLAIM, lambda claim: "NodeResizeError" in conditions(claim))
    assert "no room" in conditions(claim)["NodeResizeError"]
    assert stage_of(claim) == "NodeResizeInProgress"
    driver.open("again")
    claim = cluster.admin.until(CLAIM, lambda claim: claim["status"]["capacity"]["storage"] == "32Mi")
    assert stage_of(claim) == ""
    assert conditions(claim).keys().isdisjoint({"FileSystemResizePending", "NodeResizeError"})
    wanted = {("Pod", "FileSystemResizeSuccessful"), ("PersistentVolumeClaim", "FileSystemResizeSuccessful")}
    wanted |= {("Pod", "VolumeResizeFailed")}
    eventually(lambda: wanted <= events(cluster), lambda: str(events(cluster)))
    node.wait(f"{NAMESPACE}/shop")


def events(cluster: Cluster) -> set[tuple[str, str]]:
    found = cluster.admin.items(EVENTS.path(NAMESPACE))
    return {(each["involvedObject"]["kind"], each["reason"]) for each in found}


def test_a_size_that_cannot_be_is_infeasible(cluster: Cluster, driver: ThreadDriver, node: KubeNode) -> None:
    driver.script(Rule(method="NodeExpandVolume", code="OUT_OF_RANGE", message="at most 24Mi"))
    resize(cluster, driver, "32Mi")
    claim = cluster.admin.until(CLAIM, lambda claim: stage_of(claim) == "NodeResizeInfeasible")
    assert "at most 24Mi" in conditions(claim)["NodeResizeError"]
    assert claim["status"]["capacity"]["storage"] == "16Mi"
    node.wait(f"{NAMESPACE}/shop")
    assert len(driver.calls("NodeExpandVolume")) == 1
