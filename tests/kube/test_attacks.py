"""A daemon whose API server is not the one that it was: nothing that Pods wrote is lost by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import EMPTY_DIR, NO_TOKEN

DISK: dict[str, Any] = {"name": "v", "emptyDir": {}}
SETTINGS = {"backoff_initial": "20ms", "backoff_max": "200ms"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One of its own for each test: none of them leaves it as it was."""
    with Cluster(controllers=False) as cluster:
        yield cluster


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"kubernetes": SETTINGS}))
    return path


def write_into(node: KubeNode, document: dict[str, Any]) -> Path:
    """Give what a container has written into a volume."""
    written = node.volume_of(document, EMPTY_DIR) / "written"
    written.write_text("by a container")
    return written


def test_the_pods_of_another_cluster_are_kept_until_that_is_accepted(
    cluster: Cluster, lone_cluster: Cluster, tmp_path: Path, config: Path
) -> None:
    identity = NodeIdentity.added_to(cluster, "moved")
    with KubeNode(identity, tmp_path, "--config", str(config)) as node:
        document = identity.run_pod("default", "web", DISK, **NO_TOKEN)
        node.wait("default/web")
        written = write_into(node, document)
        node.kill()
        there = NodeIdentity.added_to(lone_cluster, "moved")
        node.options = ("--kubeconfig", str(there.kubeconfig), "--node-name", "moved")
        node.start()
        node.until_why("default/web", "may not be the one that had it", "--accept-cluster")
        there.run_pod("default", "new", DISK, **NO_TOKEN)
        node.wait("default/new")
        assert written.read_text() == "by a container"

        assert "1 Pods" in node.tell("doctor", "--accept-cluster")
        eventually(lambda: not written.parent.exists(), "what the Pod wrote is gone with it")
        lone_cluster.admin.delete("/api/v1/namespaces/default/pods/new", gracePeriodSeconds=0)
        lone_cluster.admin.delete("/api/v1/nodes/moved")


def test_a_backup_that_is_restored_takes_no_pod_away_and_its_new_pods_are_served(
    cluster: Cluster, tmp_path: Path, config: Path
) -> None:
    identity = NodeIdentity.added_to(cluster, "restored")
    cluster.back_up()
    with KubeNode(identity, tmp_path, "--config", str(config)) as node:
        document = identity.run_pod("default", "web", DISK, **NO_TOKEN)
        node.wait("default/web")
        written = write_into(node, document)
        for number in range(200):
            cluster.admin.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{number}", "namespace": "default"}}
            )
        node.kill()
        node.start()  # which sees how far the server is
        node.kill()
        cluster.restore()
        node.start()
        new = identity.run_pod("default", "new", DISK, **NO_TOKEN)

        node.wait(new["metadata"]["uid"])
        node.until_why("default/web", "restored from a backup", "--accept-cluster")
        assert written.read_text() == "by a container"
