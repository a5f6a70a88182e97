"""One control plane for all tests of the lane; every test has a namespace and nodes of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests.kube.cluster import Cluster
from tests.kube.kube_node import NodeIdentity
from tests.kube.proxy import Proxy

HERE = Path(__file__).parent
LIMIT = 300
"""Seconds that a test of the lane may take, its share of starting the servers included."""
_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("root")
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def lone_cluster() -> Iterator[Cluster]:
    """One for tests that stop the API server: controllers would be away for up to a minute afterwards.

    Such a module has a fixture `cluster` of its own that gives this one.
    """
    with Cluster(controllers=False) as cluster:
        yield cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace with its service account; its Pods, which no kubelet ends, go with the test."""
    name = f"test-{next(_numbers)}"
    cluster.add_namespace(name)
    yield name
    cluster.admin.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds=0)
    cluster.admin.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def make_node(cluster: Cluster) -> Iterator[Callable[..., NodeIdentity]]:
    """Nodes for one test: `make_node(managed_attachment=False)`."""
    made: list[NodeIdentity] = []

    def make(*, managed_attachment: bool = True) -> NodeIdentity:
        made.append(NodeIdentity.added_to(cluster, f"n{next(_numbers)}", managed_attachment=managed_attachment))
        return made[-1]

    yield make
    for node in made:
        cluster.admin.delete(f"/api/v1/nodes/{node.name}")


@pytest.fixture
def kube_node(make_node: Callable[..., NodeIdentity]) -> NodeIdentity:
    """A node of the cluster, and what its identity may do."""
    return make_node()


@pytest.fixture
def proxy(cluster: Cluster) -> Generator[Proxy]:
    with Proxy(cluster.port) as proxy:
        yield proxy
