"""What a node is given by the server and tells it, through the daemon: tokens, events, conditions, the CSINode."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity

PROJECTED = "kubernetes.io/projected"
MEMORY: dict[str, Any] = {"name": "v", "emptyDir": {"medium": "Memory"}}
NO_TOKEN = {"automountServiceAccountToken": False}


@pytest.fixture
def node(kube_node: NodeIdentity, tmp_path: Path) -> Iterator[KubeNode]:
    config = tmp_path / "config.yaml"
    config.write_text("kubernetes: {pod_condition: true}\n")
    with KubeNode(kube_node, tmp_path, "--config", str(config)) as node:
        yield node


def test_the_token_that_the_server_adds_to_every_pod_is_the_pods_own(
    node: KubeNode, kube_node: NodeIdentity, namespace: str, cluster: Cluster
) -> None:
    made = kube_node.run_pod(namespace, "web", MEMORY)

    node.tell("wait", f"{namespace}/web")

    name = next(each["name"] for each in made["spec"]["volumes"] if "projected" in each)
    volume = node.volume_of(made, PROJECTED, name)
    review = cluster.admin.post(
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": (volume / "token").read_text()},
        },
    )
    user = review["status"]["user"]
    assert user["username"] == f"system:serviceaccount:{namespace}:default"
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [made["metadata"]["uid"]]
    assert (volume / "ca.crt").read_text().startswith("-----BEGIN CERTIFICATE-----")
    assert (volume / "namespace").read_text() == namespace


def test_a_pod_says_why_its_volumes_are_not_there_and_that_they_are(
    node: KubeNode, kube_node: NodeIdentity, namespace: str, cluster: Cluster
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods/web"
    missing = {"name": "v", "hostPath": {"path": "/no-such", "type": "Directory"}}
    kube_node.run_pod(namespace, "web", missing, **NO_TOKEN)

    def condition() -> dict[str, Any]:
        conditions = cluster.admin.get(path).get("status", {}).get("conditions", [])
        nothing: dict[str, Any] = {}
        found: dict[str, Any] = next(
            (each for each in conditions if each["type"] == "volumes.volmgr.io/Mounted"), nothing
        )
        return found

    eventually(lambda: "/no-such" in condition().get("message", ""), "the condition says why")
    assert condition()["status"] == "False"
    events = cluster.admin.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    found = [each for each in events if each["reason"] == "FailedMount" and each["regarding"]["name"] == "web"]
    assert found, events
    assert "hostPath type check failed: /no-such is not a directory" in found[0]["note"]
    cluster.admin.delete(path, gracePeriodSeconds=0)

    kube_node.run_pod(namespace, "well", MEMORY, **NO_TOKEN)
    path = f"/api/v1/namespaces/{namespace}/pods/well"
    eventually(lambda: condition().get("status") == "True", "the condition says that they are there")


def test_a_pod_says_once_which_secret_there_is_not_and_in_time_that_its_volumes_are_not_there(
    kube_node: NodeIdentity, namespace: str, cluster: Cluster, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("wait_event_after: 1s\n")
    secret = {"name": "v", "secret": {"secretName": "login"}}

    def notes() -> dict[str, int]:
        found = cluster.admin.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        failures = [each for each in found if each["reason"] == "FailedMount" and each["regarding"]["name"] == "web"]
        return {each["note"]: each.get("series", {}).get("count", 1) for each in failures}

    with KubeNode(kube_node, tmp_path, "--config", str(config)) as node:
        kube_node.run_pod(namespace, "web", secret, **NO_TOKEN)
        eventually(lambda: len(notes()) == 2, "the Pod says that it takes too long")
        absent = f"Secret {namespace}/login: the API server has none"
        assert notes()[f'MountVolume.SetUp failed for volume "v" : waits for {absent}'] == 1
        (late,) = [note for note in notes() if note.startswith("Unable to attach or mount volumes: ")]
        lists = "unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]"
        assert late.startswith(f"Unable to attach or mount volumes: {lists}: timed out waiting for the condition; ")
        assert f"waits for {absent}" in late
        assert "ok    API server: https://" in node.run("doctor").stdout
        data = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"user": "u"}}
        cluster.admin.post(f"/api/v1/namespaces/{namespace}/secrets", data)
        node.tell("wait", f"{namespace}/web")


def test_a_node_is_ready_for_volumes_when_its_csi_node_is_there(
    node: KubeNode, kube_node: NodeIdentity, cluster: Cluster
) -> None:
    def unregistered() -> object:
        return json.loads(node.tell("status", "-o", "json"))["reading"]["unregistered"]

    eventually(lambda: not unregistered(), "the node is registered")

    entry = cluster.admin.get(f"/apis/storage.k8s.io/v1/csinodes/{kube_node.name}")
    assert entry["metadata"]["ownerReferences"][0]["name"] == kube_node.name
    assert json.loads(node.tell("status", "-o", "json"))["ready"] is True
