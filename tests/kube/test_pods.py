"""The Pods of one node, from a real API server to the mount table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.servers import eventually

EMPTY_DIR, CONFIG_MAP, SECRET = "kubernetes.io/empty-dir", "kubernetes.io/configmap", "kubernetes.io/secret"
NO_TOKEN = {"automountServiceAccountToken": False}
MEMORY: dict[str, Any] = {"name": "v", "emptyDir": {"medium": "Memory"}}


@pytest.fixture
def node(kube_node: NodeIdentity, tmp_path: Path) -> Iterator[KubeNode]:
    with KubeNode(kube_node, tmp_path) as node:
        yield node


def test_a_pod_is_mounted_and_taken_down_with_its_object(
    node: KubeNode, kube_node: NodeIdentity, namespace: str, cluster: Cluster
) -> None:
    made = kube_node.run_pod(namespace, "web", MEMORY, **NO_TOKEN)

    assert node.tell("wait", f"{namespace}/web") == f"{namespace}/web: mounted\n"
    volume = node.volume_of(made, EMPTY_DIR)
    assert str(volume) in node.mount_ids()

    cluster.admin.delete(f"/api/v1/namespaces/{namespace}/pods/web", gracePeriodSeconds=0)

    assert node.tell("wait", f"{namespace}/web", "--for", "unmounted") == f"{namespace}/web: unmounted\n"
    assert not volume.exists()


def test_files_follow_the_config_map(node: KubeNode, kube_node: NodeIdentity, namespace: str, cluster: Cluster) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    metadata = {"name": "settings", "namespace": namespace}
    cluster.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}})
    made = kube_node.run_pod(namespace, "web", {"name": "v", "configMap": {"name": "settings"}}, **NO_TOKEN)
    node.tell("wait", f"{namespace}/web")
    file = node.volume_of(made, CONFIG_MAP) / "a"
    assert file.read_text() == "1"

    cluster.admin.patch(path, {"data": {"a": "2"}})

    eventually("the file has changed", lambda: file.read_text() == "2")
