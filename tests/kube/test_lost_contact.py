"""A daemon that loses its API server, in each way that one can be lost: nothing is unmounted, and it catches up."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.cluster import Cluster
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.objects import CONFIG_MAP, EMPTY_DIR, MEMORY, NO_TOKEN, config_map, from_config_map
from tests.kube.proxy import Proxy
from volmgr.kube.resources import CONFIG_MAPS, PODS

REQUESTS = 6
"""Connections that the daemon keeps beside its watches: `kubernetes.requests`."""


@pytest.fixture(scope="module")
def cluster(lone_cluster: Cluster) -> Cluster:
    return lone_cluster


@dataclass
class Network:
    """What lies between a daemon and its server, and how it is lost; whatever is done to the server is seen later."""

    cluster: Cluster
    proxy: Proxy

    def refuse(self) -> None:
        self.proxy.refuse()
        self.proxy.cut()

    def stall(self) -> None:
        self.proxy.stall()

    def kill_server(self) -> None:
        self.cluster.stop_api_server()
        self.refuse()
        self.cluster.start_api_server()

    def forget(self) -> None:
        """Have it forgotten what was, too: `resume` is answered with 410."""
        self.refuse()

    def resume(self, lost: str) -> None:
        if lost == "forget":
            self.cluster.compact()
            self.cluster.restart_api_server()
        self.proxy.resume()


@pytest.fixture
def network(cluster: Cluster, proxy: Proxy) -> Network:
    return Network(cluster, proxy)


@pytest.fixture
def node(network: Network, kube_node: NodeIdentity, tmp_path: Path) -> Iterator[KubeNode]:
    config = tmp_path / "config.json"
    settings = {"backoff_initial": "20ms", "backoff_max": "200ms", "page_size": 2}
    config.write_text(json.dumps({"kubernetes": settings}))
    with KubeNode(kube_node.behind(network.proxy.url), tmp_path, "--config", str(config)) as node:
        yield node
        network.proxy.resume()


def run_pod(node: KubeNode, namespace: str, name: str, volume: Any = MEMORY) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return node.identity.run_pod(namespace, name, volume, **NO_TOKEN)


def delete_pod(node: KubeNode, namespace: str, name: str) -> None:
    node.identity.cluster.admin.delete(PODS.path(namespace, name), gracePeriodSeconds=0)


def shown(node: KubeNode, namespace: str) -> set[str]:
    return {pod["name"] for pod in node.status()["pods"] if pod["namespace"] == namespace}


@pytest.mark.parametrize("lost", ["refuse", "stall", "kill_server", "forget"])
def test_nothing_is_unmounted_while_the_server_is_away_and_all_is_caught_up_with_afterwards(
    node: KubeNode, network: Network, namespace: str, lost: str
) -> None:
    admin = network.cluster.admin
    admin.create(config_map(namespace, "settings", a="1"))
    stays, goes = run_pod(node, namespace, "stays"), run_pod(node, namespace, "goes")
    follows = run_pod(node, namespace, "follows", from_config_map("settings"))
    run_pod(node, namespace, "lacks", from_config_map("none", optional=True))
    for name in ("stays", "goes", "follows", "lacks"):
        node.wait(f"{namespace}/{name}")
    kept, file = node.volume_of(stays, EMPTY_DIR), node.volume_of(follows, CONFIG_MAP) / "a"
    (kept / "marker").touch()
    before = node.mount_ids()

    getattr(network, lost)()
    if lost != "stall":  # which nobody notices at once
        node.until_why(f"{namespace}/stays", "out of contact since 20", "and what it said stands")
        assert "out of contact since 20" in node.tell("status")
    delete_pod(node, namespace, "goes")
    comes = run_pod(node, namespace, "comes")
    admin.patch(CONFIG_MAPS.path(namespace, "settings"), {"data": {"a": "2"}})
    assert node.mount_ids() == before
    assert shown(node, namespace) == {"stays", "goes", "follows", "lacks"}
    node.wait(f"{namespace}/lacks")
    assert file.read_text() == "1"

    mark = network.cluster.audit.mark()
    network.resume(lost)

    node.wait(comes["metadata"]["uid"])
    node.wait(goes["metadata"]["uid"], "unmounted")
    eventually(lambda: file.read_text() == "2", "the file has changed")
    assert shown(node, namespace) == {"stays", "comes", "follows", "lacks"}
    node.wait(f"{namespace}/lacks")
    after = node.mount_ids()
    gone, new = str(node.volume_of(goes, EMPTY_DIR)), str(node.volume_of(comes, EMPTY_DIR))
    assert {path: number for path, number in after.items() if path != new} == {
        path: number for path, number in before.items() if path != gone
    }
    assert (kept / "marker").exists()
    eventually(lambda: node.status()["contact"] == [], "it is in contact")
    asked = requests(network, node, mark)
    listed = [each.resource for each in asked if each.verb == "list" and "continue=" not in each.uri]
    if lost == "forget":
        assert listed.count("pods") == 1
    elif lost != "kill_server":  # a server that was started anew has forgotten, too
        assert listed == []


def requests(network: Network, node: KubeNode, mark: int) -> Any:  # noqa: ANN401 - of the audit log
    return network.cluster.requests(after=mark, user=node.identity.user)


def open_files(node: KubeNode) -> int:
    return len(os.listdir(f"/proc/{node.daemon.pid}/fd"))


def threads(node: KubeNode) -> int:
    return len(os.listdir(f"/proc/{node.daemon.pid}/task"))


def test_connections_that_are_cut_again_and_again_leave_nothing_behind(
    node: KubeNode, network: Network, namespace: str
) -> None:
    for name in ("a", "b", "c"):
        network.cluster.admin.create(config_map(namespace, name, a="0"))
        run_pod(node, namespace, name, from_config_map(name))
        node.wait(f"{namespace}/{name}")
    watches = 5  # of the ConfigMaps, the Pods and the Node
    eventually(lambda: network.proxy.open_connections >= watches, "all is watched")
    before, files = node.mount_ids(), open_files(node)
    for _ in range(10):
        accepted = network.proxy.accepted
        network.proxy.cut()
        eventually(lambda: network.proxy.accepted >= accepted + watches, "all is watched again")  # noqa: B023 - at once
        eventually(lambda: node.status()["contact"] == [], "it is in contact")
    assert network.proxy.open_connections <= watches + REQUESTS
    assert open_files(node) <= files + REQUESTS
    assert threads(node) <= 20
    reading = node.status()["reading"]
    assert (reading["server"], reading["watches"], reading["asked"]) == (network.proxy.url, 3, 0)
    assert node.mount_ids() == before


def test_pods_that_come_and_go_while_the_network_fails_are_in_the_end_those_of_the_server(
    node: KubeNode, network: Network, namespace: str
) -> None:
    first = [run_pod(node, namespace, f"first-{number}") for number in range(5)]
    for pod in first:
        node.wait(pod["metadata"]["uid"])
    before = node.mount_ids()
    failures: list[Callable[[], None]] = [network.proxy.cut, network.proxy.stall, network.proxy.resume, network.refuse]
    failures += [network.proxy.resume, node.kill, node.start, network.proxy.cut, network.proxy.stall]
    made: list[dict[str, Any]] = []
    for number in range(50):
        made.append(run_pod(node, namespace, f"pod-{number}"))
        if number % 2:
            delete_pod(node, namespace, f"pod-{number - 1}")
        if number % 5 == 0 and failures:
            failures.pop(0)()
    network.proxy.resume()
    for pod in made[1::2]:
        node.wait(pod["metadata"]["uid"])
    there = {f"first-{number}" for number in range(5)} | {f"pod-{number}" for number in range(1, 50, 2)}
    eventually(lambda: shown(node, namespace) == there, "it has the Pods of the server, and no others")
    after = node.mount_ids()
    wanted = [*first, *made[1::2]]
    assert set(after) == {str(node.volume_of(pod, EMPTY_DIR)) for pod in wanted}
    assert {path: after[path] for path in before} == before


def test_a_pod_that_was_deleted_while_the_daemon_was_killed_is_taken_down_and_the_others_stay(
    node: KubeNode, namespace: str
) -> None:
    stays, goes = run_pod(node, namespace, "stays"), run_pod(node, namespace, "goes")
    for pod in (stays, goes):
        node.wait(pod["metadata"]["uid"])
    before = node.mount_ids()
    node.kill()
    delete_pod(node, namespace, "goes")
    comes = run_pod(node, namespace, "goes")  # of the same name
    node.start()
    node.wait(comes["metadata"]["uid"])
    node.wait(goes["metadata"]["uid"], "unmounted")
    kept, gone = str(node.volume_of(stays, EMPTY_DIR)), str(node.volume_of(goes, EMPTY_DIR))
    assert node.mount_ids()[kept] == before[kept]
    assert gone not in node.mount_ids()
