"""What a daemon in Kubernetes mode does while nothing happens: it hears bookmarks, and asks for what counts as old."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.kube_node import KubeNode
from tests.bench.kube_population import OURS, Size, create_all, pods
from tests.bench.kube_traffic import Connections, by_kind, words
from tests.bench.measures import Measure
from tests.bench.processes import cpu_seconds
from tests.kube.kube_node import NodeIdentity

WATCHED = 60
"""ConfigMaps and Secrets of the second node: fewer than `object_watches`, so none of them is asked for."""
_REST = 3.0


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    cpu: float
    woken: dict[int, int]
    traffic: Connections
    audit: int


def idle(node: KubeNode, top: Path, size: Size) -> Iterator[Measure]:
    """Measure a node that asks for most of its objects, and at the same time one that watches all of its own."""
    cluster = node.identity.cluster
    few = replace(size, pods=min(WATCHED, size.pods), objects=min(WATCHED, size.objects))
    identity = NodeIdentity.added_to(cluster, "n2")
    create_all(cluster.admin, pods(identity.name, few, "second"))
    second = KubeNode(top / "second", identity)
    try:
        documents = cluster.admin.items(f"/api/v1/namespaces/{OURS}/pods", fieldSelector="spec.nodeName=n2")
        second.start_over(documents)
        time.sleep(_REST)
        before = [_look(each) for each in (node, second)]
        time.sleep(size.idle)
        after = [_look(each) for each in (node, second)]
        names = (f"{size.objects} objects", f"{few.objects} objects, all of them watched")
        for which, name, start, end in zip((node, second), names, before, after, strict=True):
            yield from _measures(which, name, start, end)
        second.drain()
    finally:
        second.stop()
        cluster.admin.delete(f"/api/v1/namespaces/{OURS}/pods?fieldSelector=spec.nodeName%3Dn2", gracePeriodSeconds=0)


def _measures(node: KubeNode, name: str, start: _Look, end: _Look) -> Iterator[Measure]:
    seconds = end.at - start.at
    requests = node.identity.cluster.requests(after=start.audit, user=node.identity.user)
    woken = Counter(end.woken)
    woken.subtract(start.woken)
    main = woken.pop(node.pid)
    threads = ", ".join(str(count) for _, count in woken.most_common() if count)
    received, sent = (
        end.traffic.received - start.traffic.received,
        end.traffic.sent - start.traffic.sent,
    )
    yield Measure(
        name=f"idle for {seconds:.0f} s with {name}: wake-ups",
        samples=[main + sum(woken.values())],
        unit="",
        note=f"main thread {main}; others {threads or 'none'}; {words(by_kind(requests))};"
        f" {end.traffic.count} connections, {received / 1000:.1f} kB received, {sent / 1000:.1f} kB sent",
    )
    yield Measure(
        name=f"idle with {name}: processor time a minute",
        samples=[(end.cpu - start.cpu) * 1000 * 60 / seconds],
    )


def _look(node: KubeNode) -> _Look:
    return _Look(
        time.monotonic(),
        cpu_seconds(node.pid),
        wake_ups_by_thread(node.pid),
        Connections.of(node.pid),
        node.identity.cluster.audit.mark(),
    )


def wake_ups_by_thread(pid: int) -> dict[int, int]:
    """Give how often each thread of a process went to sleep of its own will until now."""
    found: dict[int, int] = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        for line in Path(f"/proc/{pid}/task/{thread}/status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                found[int(thread)] = int(line.split()[1])
    return found
