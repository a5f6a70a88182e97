"""The proxy before the API server is the bad network that it is asked to be."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from urllib3.exceptions import HTTPError

from tests.eventually import eventually
from tests.kube.client import Client
from tests.kube.cluster import Cluster
from tests.kube.kube_node import NodeIdentity
from tests.kube.proxy import Proxy
from volmgr.kube.resources import CONFIG_MAPS, NODES, PODS


@pytest.fixture
def far_admin(cluster: Cluster, proxy: Proxy) -> Client:
    return cluster.client(cluster.user("lane-admin", "system:masters", server=proxy.url))


@pytest.fixture
def echo() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        yield listener


def create(cluster: Cluster, namespace: str, name: str) -> str:
    metadata = {"namespace": namespace, "name": name}
    made = cluster.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    return str(made["metadata"]["resourceVersion"])


def test_a_watch_that_is_cut_misses_nothing_when_it_is_taken_up_again(
    cluster: Cluster, proxy: Proxy, far_admin: Client, namespace: str
) -> None:
    path = CONFIG_MAPS.path(namespace)
    version = far_admin.get(path)["metadata"]["resourceVersion"]
    with far_admin.watch(path, resourceVersion=version) as changes:
        seen = create(cluster, namespace, "before")
        assert next(changes).document["metadata"]["resourceVersion"] == seen
        proxy.refuse()
        proxy.cut()
        with pytest.raises(HTTPError):
            next(changes)
    create(cluster, namespace, "meanwhile")
    with pytest.raises(HTTPError, match="refused"):
        far_admin.get(path)
    proxy.resume()
    with far_admin.watch(path, resourceVersion=seen) as changes:
        assert next(changes).document["metadata"]["name"] == "meanwhile"


def test_connections_are_counted(proxy: Proxy, far_admin: Client) -> None:
    far_admin.get(NODES.path())
    far_admin.get(NODES.path())
    assert (proxy.accepted, proxy.open_connections) == (1, 1)
    proxy.cut()
    eventually(lambda: proxy.open_connections == 0, "both ends are closed")
    far_admin.get(NODES.path())
    assert (proxy.accepted, proxy.open_connections) == (2, 1)


def test_refusing_leaves_open_connections_alone(proxy: Proxy, far_admin: Client) -> None:
    far_admin.get(NODES.path())
    proxy.refuse()
    far_admin.get(NODES.path())
    assert proxy.accepted == 1


def test_a_stalled_network_swallows_what_is_sent_and_resets_those_connections_later(
    proxy: Proxy, cluster: Cluster, kube_node: NodeIdentity
) -> None:
    mark = cluster.audit.mark()
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        proxy.stall()
        client.sendall(b"lost")
        with socket.create_connection(("127.0.0.1", proxy.port)) as late:
            late.sendall(b"lost, too")
            eventually(lambda: proxy.lossy_connections == 2, "both are swallowed")
            proxy.resume()
            for end in (client, late):
                end.settimeout(60)
                with pytest.raises(ConnectionResetError):
                    end.recv(1)
    far = kube_node.behind(proxy.url)
    assert far.client.items(PODS.path(), fieldSelector=f"spec.nodeName={far.name}") == []
    assert len(cluster.requests(after=mark, user=far.user, resource="pods")) == 1


def test_delayed_bytes_come_in_order_and_not_before_those_that_were_not(echo: socket.socket) -> None:
    with Proxy(echo.getsockname()[1]) as proxy, socket.create_connection(("127.0.0.1", proxy.port)) as client:
        server, _ = echo.accept()
        with server:
            server.settimeout(60)
            proxy.delay(3600)
            client.sendall(b"never in time")
            eventually(lambda: proxy.delayed_bytes == len(b"never in time"), "it is on its way")
            proxy.delay(0)
            client.sendall(b", nor overtaken")
            eventually(lambda: proxy.delayed_bytes == len(b"never in time, nor overtaken"), "it queues")
            client.shutdown(socket.SHUT_WR)
            assert server.makefile("rb").read() == b"never in time, nor overtaken"


def test_a_little_delay_is_only_a_delay(cluster: Cluster, proxy: Proxy, far_admin: Client) -> None:
    proxy.delay(0.01)
    assert far_admin.get("/version") == cluster.admin.get("/version")
