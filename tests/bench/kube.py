"""One node of a large cluster: a real API server, and on it the node's Pods beside thousands of others' objects."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.bench.arrivals import Arrivals
from tests.bench.kube_churn import churn
from tests.bench.kube_idle import idle
from tests.bench.kube_node import Held, KubeNode, is_mounted
from tests.bench.kube_population import OURS, Size, pod_of, populate
from tests.bench.kube_traffic import Connections, by_kind, words
from tests.bench.kube_watch import PlainWatch
from tests.bench.measures import Measure, repeat
from tests.bench.mount_table import MountTable
from tests.bench.processes import cpu_seconds, resident_megabytes
from tests.bench.workload import MEMORY
from tests.kube.client import Document
from tests.kube.cluster import Cluster
from tests.kube.kube_node import NodeIdentity

QUICK = Size(others=40, other_nodes=10, pods=6, objects=6, starts=1, rounds=3, idle=1, churn=1, per_second=5)
FULL = Size(
    others=10_000, other_nodes=5000, pods=500, objects=300, starts=3, rounds=100, idle=60, churn=60, per_second=20
)
_REST = 3.0
"""Seconds after which what is due after a burst (one look at the mount table, the objects kept) has been done."""


def kube(top: Path, size: Size) -> Iterator[Measure]:
    """Measure cold starts, one Pod that comes, one ConfigMap that changes, idleness, and churn."""
    with Cluster() as cluster:
        identity = NodeIdentity.added_to(cluster, "n1")
        populate(cluster, identity.name, size)
        yield _empty_start(KubeNode(top / "empty", NodeIdentity.added_to(cluster, "n0")), size)
        nodes = [KubeNode(top / f"start-{number}", identity) for number in range(size.starts)]
        try:
            yield from _cold_starts(nodes, size)
            node = nodes[-1]
            time.sleep(_REST)
            yield _comes(node, size)
            yield _changes(node, size)
            yield from idle(node, top, size)
            yield from churn(node, size)
            node.drain()
        finally:
            for each in nodes:
                each.stop()


def _empty_start(node: KubeNode, size: Size) -> Measure:
    """Measure what every start takes: one on a node without Pods."""
    cpu: list[float] = []

    def once(_number: int) -> float:
        started = node.start()
        node.stop()
        cpu.append(started.cpu)
        return started.wall

    try:
        samples = repeat(size.starts, once)
    finally:
        node.stop()
    return Measure(
        name="start of a node without Pods → READY=1",
        samples=samples,
        unit="s",
        note=f"{statistics.median(cpu):.2f} s of processor time",
    )


def _cold_starts(nodes: Sequence[KubeNode], size: Size) -> Iterator[Measure]:
    """Measure starts over empty roots; all but the last node are taken down again."""
    measured: list[_Start] = []
    for node in nodes:
        measured.append(_cold_start(node))
        if node is not nodes[-1]:
            node.drain()
    name = f"{size.pods} Pods of 3 volumes, {size.objects} objects"
    first = measured[-1]
    yield Measure(
        name=f"cold start → {name} mounted",
        samples=[each.wall for each in measured],
        unit="s",
        limit=2.5,
        note=f"{first.requests}; {first.traffic.count} connections, {first.traffic.received / 1e6:.2f} MB received,"
        f" {first.traffic.sent / 1e6:.2f} MB sent",
    )
    yield Measure(name="the same, until READY=1", samples=[each.ready for each in measured], unit="s")
    yield Measure(name="the same, processor time", samples=[each.cpu for each in measured], unit="s")
    yield Measure(name=f"memory with {name}", samples=[each.memory for each in measured], unit="MB", limit=110)
    yield Measure(name=f"threads with {name}", samples=[each.held.threads for each in measured], unit="", limit=20)
    yield Measure(name=f"descriptors with {name}", samples=[each.held.descriptors for each in measured], unit="")


@dataclass(frozen=True, slots=True)
class _Start:
    wall: float
    ready: float
    cpu: float
    memory: float
    held: Held
    traffic: Connections
    requests: str


def _cold_start(node: KubeNode) -> _Start:
    cluster, identity = node.identity.cluster, node.identity
    documents = cluster.admin.items(f"/api/v1/namespaces/{OURS}/pods", fieldSelector=f"spec.nodeName={identity.name}")
    mark = cluster.audit.mark()
    started, wall = node.start_over(documents)
    cpu = cpu_seconds(node.pid)
    time.sleep(_REST)
    table = MountTable()
    asked = words(by_kind(cluster.requests(after=mark, user=identity.user)))
    try:
        return _Start(
            wall, started.wall, cpu, resident_megabytes(node.pid), node.held(table), Connections.of(node.pid), asked
        )
    finally:
        table.close()


def _comes(node: KubeNode, size: Size) -> Measure:
    """Bind Pods, one after the other: how much later is the tmpfs there than a plain client hears of the Pod?"""
    admin, name = node.identity.cluster.admin, node.identity.name
    table, took = MountTable(), list[float]()

    def once(number: int) -> float:
        document = admin.create(pod_of("", f"comes-{number}", (MEMORY,)))
        path = admin.path(document)
        target = node.volumes(document)[0]
        bound = binder.submit(admin.post, f"{path}/binding", _binding(document, name))
        began = time.perf_counter()
        mounted = table.until_so(lambda: is_mounted(target))
        bound.result()
        heard = plain.when("ADDED", document["metadata"]["uid"])
        admin.delete(path, gracePeriodSeconds=0)
        table.until_so(lambda: not is_mounted(target))
        took.append((heard - began) * 1000)
        return (mounted - heard) * 1000

    selector = {"fieldSelector": f"spec.nodeName={name}"}
    kubeconfig = node.identity.cluster.admin_kubeconfig
    with ThreadPoolExecutor(1) as binder, PlainWatch(kubeconfig, "/api/v1/pods", **selector) as plain:
        samples = repeat(size.rounds, once)
    table.close()
    return Measure(
        name="Pod bound → tmpfs mounted, beyond the server's own watch",
        samples=samples,
        limit=5,
        note=f"a plain client heard of it after {statistics.median(took):.2f} ms",
    )


def _changes(node: KubeNode, size: Size) -> Measure:
    """Change a ConfigMap that is watched: how much later is the file replaced than a plain client hears of it?"""
    cluster = node.identity.cluster
    watched = {each.name for each in cluster.requests(user=node.identity.user, verb="watch", resource="configmaps")}
    name = min(watched)
    path = f"/api/v1/namespaces/{OURS}/configmaps/{name}"
    places = list(_users(node, name))
    took: list[float] = []

    def once(number: int) -> float:
        arrivals = Arrivals(places)
        changed = sender.submit(cluster.admin.patch, path, {"data": {"changed": f"{number} times"}})
        began = time.perf_counter()
        ended = arrivals.until_all()
        arrivals.close()
        heard = plain.when("MODIFIED", changed.result()["metadata"]["resourceVersion"])
        took.append((heard - began) * 1000)
        return (ended - heard) * 1000

    selector = {"fieldSelector": f"metadata.name={name}"}
    of = f"/api/v1/namespaces/{OURS}/configmaps"
    with ThreadPoolExecutor(1) as sender, PlainWatch(cluster.admin_kubeconfig, of, **selector) as plain:
        samples = repeat(size.rounds, once)
    return Measure(
        name=f"ConfigMap changed → files of {len(places)} Pods replaced, beyond the server's own watch",
        samples=samples,
        p95_limit=50,
        note=f"a plain client heard of it after {statistics.median(took):.2f} ms",
    )


def _users(node: KubeNode, name: str) -> Iterator[Path]:
    """Give the volumes of a ConfigMap."""
    selector = f"spec.nodeName={node.identity.name}"
    for document in node.identity.cluster.admin.items(f"/api/v1/namespaces/{OURS}/pods", fieldSelector=selector):
        for volume, path in zip(document["spec"]["volumes"], node.volumes(document), strict=True):
            if volume.get("configMap", {}).get("name") == name:
                yield path


def _binding(document: Document, node: str) -> Document:
    metadata = {"name": document["metadata"]["name"], "namespace": document["metadata"]["namespace"]}
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
