"""How long many Pods at once take, by the API and by files, and how much memory they cost."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench.floor import Floor
from tests.bench.measures import Measure
from tests.bench.node import Node
from tests.bench.processes import resident_megabytes
from tests.bench.workload import DISK, MEMORY, as_json, as_yaml, host_path, pod, uid


def burst(top: Path, pods: int, rounds: int) -> Iterator[Measure]:
    """Measure Pods with a tmpfs, a disk emptyDir and a hostPath each until all are ready."""
    shared = top / "shared"
    shared.mkdir(exist_ok=True)
    sources = (MEMORY, DISK, host_path(shared))
    bare = _floor(Floor(top / "floor"), pods, sources, rounds)
    by_post: list[float] = []
    by_file: list[float] = []
    memory: list[float] = []
    for number in range(rounds):
        node = Node(top / f"burst-{number}")
        node.start()
        try:
            by_post.append(_by_post(node, pods, sources))
            memory.append(resident_megabytes(node.pid))
        finally:
            node.drain()
        node = Node(top / f"files-{number}")
        node.start()
        try:
            by_file.append(_by_file(node, pods, sources))
        finally:
            node.drain()
    name = f"{pods} Pods of 3 volumes"
    yield Measure(name=f"{name} by POST", samples=by_post, unit="s", limit=1.0, floor=bare, floor_limit=3)
    yield Measure(name=f"{name} from YAML files", samples=by_file, unit="s", limit=1.5, floor=bare)
    yield Measure(name=f"memory with {pods} Pods", samples=memory, unit="MB", limit=55)


def _floor(floor: Floor, pods: int, sources: Sequence[Mapping[str, object]], rounds: int) -> float:
    samples: list[float] = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for number in range(pods):
            floor.make(uid(number, "f"), sources)
        samples.append(time.perf_counter() - begin)
        for number in range(pods):
            floor.unmake(uid(number, "f"), sources)
    return sorted(samples)[len(samples) // 2]


def _by_post(node: Node, pods: int, sources: Sequence[Mapping[str, object]]) -> float:
    """Send each Pod by a request of its own, all at once on one connection, and wait for all."""
    bodies = {uid(number): as_json(pod(number, sources)) for number in range(pods)}
    begin = time.perf_counter()
    node.post_all(bodies)
    return time.perf_counter() - begin


def _by_file(node: Node, pods: int, sources: Sequence[Mapping[str, object]]) -> float:
    """Rename each Pod's file into the directory, and wait for all."""
    for number in range(pods):
        (node.staging / f"{number}.yaml").write_bytes(as_yaml(pod(number, sources, "d")))
    begin = time.perf_counter()
    for number in range(pods):
        (node.staging / f"{number}.yaml").rename(node.manifests / f"{number}.yaml")
    node.wait_for_all([uid(number, "d") for number in range(pods)])
    return time.perf_counter() - begin
