"""What is on the API server: the Pods of one node, what they refer to, and thousands of objects that are others'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.bench.workload import MEMORY
from tests.kube.client import Client, Document
from tests.kube.cluster import Cluster
from tests.kube.objects import NO_TOKEN, config_map, secret
from volmgr.testing.node import pod

OURS, OTHERS = "ours", "others"
"""Namespaces."""
_AT_ONCE = 8
"""Requests: as many connections as the client keeps."""
_SETTING = "a setting that is forty characters long."


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is, and for how long it is looked at (seconds)."""

    others: int
    """Objects that have nothing to do with the node: half of them Pods, the rest ConfigMaps and Secrets."""
    other_nodes: int
    pods: int
    objects: int
    """ConfigMaps and Secrets that the node's Pods refer to, half of each."""
    starts: int
    rounds: int
    """Of one Pod that comes, and of one ConfigMap that changes."""
    idle: float
    churn: float
    per_second: float

    @property
    def each(self) -> int:
        """How many ConfigMaps there are, and Secrets."""
        return self.objects // 2


def populate(cluster: Cluster, node: str, size: Size) -> None:
    """Create everything but Nodes."""
    for namespace in (OURS, OTHERS):
        cluster.add_namespace(namespace)
    create_all(cluster.admin, [*_others(size), *references(size.each), *pods(node, size)])


def create_all(client: Client, documents: Iterable[Document]) -> None:
    """Create many objects, several at once."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        for _ in threads.map(client.create, documents):
            pass


def references(each: int, prefix: str = "") -> Iterator[Document]:
    """Give ConfigMaps and Secrets, so many of each."""
    for number in range(each):
        yield config_map(OURS, f"{prefix}settings-{number}", **{f"key-{key}": _SETTING for key in range(5)})
        yield secret(OURS, f"{prefix}login-{number}", user=f"user-{number}", password="not that secret")


def pods(node: str, size: Size, prefix: str = "pod") -> Iterator[Document]:
    """Give the node's Pods: three volumes each, over which all references are spread."""
    return (pod_of(node, f"{prefix}-{number}", sources(number % size.each)) for number in range(size.pods))


def sources(reference: int, prefix: str = "") -> tuple[Mapping[str, Any], ...]:
    """Give the sources of three volumes: tmpfs, a ConfigMap, and a Secret, each other one by way of projected."""
    login = f"{prefix}login-{reference}"
    by_itself: Mapping[str, Any] = {"secret": {"secretName": login}}
    projected: Mapping[str, Any] = {"projected": {"sources": [{"secret": {"name": login}}]}}
    return MEMORY, {"configMap": {"name": f"settings-{reference}"}}, projected if reference % 2 else by_itself


def pod_of(node: str, name: str, of: Iterable[Mapping[str, Any]], namespace: str = OURS) -> Document:
    """Give a Pod; on no node when the name of that is empty."""
    volumes = [{"name": f"v{index}", **source} for index, source in enumerate(of)]
    bound: dict[str, Any] = {"nodeName": node} if node else {}
    document = pod(name, *volumes, metadata={"namespace": namespace}, **bound, **NO_TOKEN)
    document["metadata"].pop("uid", None)
    for container in document["spec"]["containers"]:
        container["image"] = "registry.example/main:1"
        container["resources"] = {"requests": {"cpu": "10m", "memory": "16Mi"}}
        container["env"] = [{"name": f"VARIABLE_{number}", "value": _SETTING} for number in range(5)]
    return document


def _others(size: Size) -> Iterator[Document]:
    for number in range(size.others // 4):
        yield config_map(OTHERS, f"settings-{number}", key=_SETTING)
        yield secret(OTHERS, f"login-{number}", key=_SETTING)
    for number in range(size.others // 2):
        yield pod_of(f"other-{number % size.other_nodes}", f"pod-{number}", sources(number), OTHERS)
