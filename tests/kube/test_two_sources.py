"""Pods from a directory of manifests and from an API server at once: on one node, by one daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import CONFIG_MAP, EMPTY_DIR, MEMORY, NO_TOKEN, config_map, container_status, from_config_map
from volmgr.kube.resources import PODS
from volmgr.testing.node import pod


class MixedNode(KubeNode):
    """A daemon that watches a directory, too."""

    def sources(self) -> tuple[str, ...]:
        return "--manifests", str(self.manifests)

    def put_document(self, name: str, *documents: Mapping[str, Any]) -> None:
        """Let a file of the directory say this."""
        draft = self.manifests / f".{name}"
        draft.write_text("\n---\n".join(map(json.dumps, documents)))
        draft.rename(self.manifests / f"{name}.yaml")


@pytest.fixture(scope="module")
def node(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedNode]:
    identity = NodeIdentity.added_to(cluster, "node-of-two-sources")
    with MixedNode(identity, tmp_path_factory.mktemp("node")) as node:
        yield node
    cluster.admin.delete("/api/v1/nodes/node-of-two-sources")


def delete_pod(node: KubeNode, namespace: str, name: str) -> None:
    node.identity.cluster.admin.delete(PODS.path(namespace, name), gracePeriodSeconds=0)


def test_each_source_has_its_own_pods(node: MixedNode, namespace: str) -> None:
    static = pod("static", MEMORY, uid=f"{namespace}-static", metadata={"namespace": namespace})
    node.put_document("static", static)
    made = node.identity.run_pod(namespace, "web", MEMORY, **NO_TOKEN)
    node.wait(f"{namespace}/static")
    node.wait(f"{namespace}/web")
    before = node.mount_ids()

    delete_pod(node, namespace, "web")
    node.wait(f"{namespace}/web", "unmounted")

    kept, gone = str(node.volume_of(static, EMPTY_DIR)), str(node.volume_of(made, EMPTY_DIR))
    assert node.mount_ids()[kept] == before[kept]
    assert gone not in node.mount_ids()
    (node.manifests / "static.yaml").unlink()
    node.wait(f"{namespace}/static", "unmounted")


def test_a_pod_that_both_have_is_one_and_stays_until_neither_has_it(node: MixedNode, namespace: str) -> None:
    """A file keeps it when the server's object goes: whoever hands a node over may have both for a while."""
    made = node.identity.run_pod(namespace, "web", MEMORY, **NO_TOKEN)
    node.wait(f"{namespace}/web")
    volume = str(node.volume_of(made, EMPTY_DIR))
    before = node.mount_ids()[volume]
    running = {"phase": "Running", "containerStatuses": [container_status("main", "running")]}
    node.identity.cluster.admin.patch(PODS.path(namespace, "web", "status"), {"status": running})
    marker = node.volume_of(made, EMPTY_DIR) / "marker"
    marker.touch()
    node.put_document("web", node.identity.cluster.admin.get(PODS.path(namespace, "web")))
    eventually(lambda: namespace in node.tell("status").partition("refused: ")[2], "it is said that both have it")

    delete_pod(node, namespace, "web")

    eventually(lambda: "web.yaml" in origin(node, namespace), "the file has it")
    assert marker.exists()
    assert node.mount_ids()[volume] == before
    (node.manifests / "web.yaml").unlink()
    node.wait(f"{namespace}/web", "unmounted")


def origin(node: KubeNode, namespace: str) -> str:
    return " ".join(each["origin"] for each in node.status()["pods"] if each["namespace"] == namespace)


def test_a_static_pod_waits_for_what_only_pods_of_the_server_may_read(node: MixedNode, namespace: str) -> None:
    """The authorizer knows no Pod of a file: kubelet refuses such Pods, we say what is in their way."""
    node.identity.cluster.admin.create(config_map(namespace, "settings", a="1"))
    metadata = {"namespace": namespace}
    static = pod("static", from_config_map("settings"), uid=f"{namespace}-static", metadata=metadata)
    node.put_document("static", static)
    node.until_why(f"{namespace}/static", f"waits for ConfigMap {namespace}/settings", "as soon as the server has seen")

    node.put_document("static", static, config_map(namespace, "settings", a="2"))

    node.wait(f"{namespace}/static")
    assert (node.volume_of(static, CONFIG_MAP) / "a").read_text() == "2"
    (node.manifests / "static.yaml").unlink()
    node.wait(f"{namespace}/static", "unmounted")
