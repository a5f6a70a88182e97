"""What an API server does that was away, or has forgotten."""

from __future__ import annotations

import pytest
from urllib3.exceptions import HTTPError

from tests.kube.client import Refused
from tests.kube.cluster import Cluster
from volmgr.kube.resources import CONFIG_MAPS


@pytest.fixture
def cluster(lone_cluster: Cluster) -> Cluster:
    return lone_cluster


def config_map(namespace: str, name: str) -> dict[str, object]:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": name}}


def test_a_killed_api_server_that_is_started_again_has_the_same_objects(cluster: Cluster, namespace: str) -> None:
    path = CONFIG_MAPS.path(namespace, "kept")
    before = cluster.admin.create(config_map(namespace, "kept"))
    cluster.stop_api_server()
    with pytest.raises(HTTPError, match="refused"):
        cluster.admin.get(path)
    cluster.start_api_server()
    assert cluster.admin.get(path) == before


def test_a_watch_from_before_a_restart_is_told_that_its_version_is_gone(cluster: Cluster, namespace: str) -> None:
    path = CONFIG_MAPS.path(namespace)
    version = cluster.admin.get(path)["metadata"]["resourceVersion"]
    cluster.admin.create(config_map(namespace, "unseen"))
    cluster.compact()
    cluster.restart_api_server()
    with cluster.admin.watch(path, resourceVersion=version) as changes:
        error = next(changes)
    assert (error.kind, error.document["code"]) == ("ERROR", 410)


def test_a_list_whose_rest_was_compacted_is_gone(cluster: Cluster, namespace: str) -> None:
    for name in ("one", "two"):
        cluster.admin.create(config_map(namespace, name))
    page = cluster.admin.get(CONFIG_MAPS.path(namespace), limit=1)
    cluster.admin.create(config_map(namespace, "three"))
    cluster.compact()
    cluster.restart_api_server()  # which served the rest from memory
    with pytest.raises(Refused) as refused:
        cluster.admin.get(CONFIG_MAPS.path(namespace), limit=1, **{"continue": page["metadata"]["continue"]})
    assert (refused.value.status, refused.value.reason) == (410, "Expired")
