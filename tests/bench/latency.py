"""How long one Pod takes to come and to go: by the API, and by a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.floor import Floor
from tests.bench.measures import Measure, repeat
from tests.bench.mount_table import MountTable
from tests.bench.node import REMOVAL_SETTLE, Node
from tests.bench.workload import MEMORY, as_json, as_yaml, pod, uid, volume_path

_SOURCES = (MEMORY,)


def latency(top: Path, count: int) -> Iterator[Measure]:
    """Measure one tmpfs emptyDir, `count` times each way."""
    floor = Floor(top / "floor")
    up, down = _floor(floor, count)
    node = Node(top / "latency")
    node.start()
    try:
        came, went = _by_api(node, count)
        seen, gone = _by_file(node, count)
    finally:
        node.drain()
    yield Measure(name="POST of a Pod → wait returns", samples=came, limit=2, floor=up)
    yield Measure(name="file renamed into place → in the mount table", samples=seen, limit=4, floor=up)
    yield Measure(name="DELETE → gone", samples=went, limit=4, floor=down)
    yield Measure(
        name="file removed → gone, less removal_settle",
        samples=gone,
        limit=4,
        floor=down,
        note=f"removal_settle is {REMOVAL_SETTLE:g} s here (1 s by default), and taken off",
    )


def _floor(floor: Floor, count: int) -> tuple[float, float]:
    """Give the medians of making and unmaking."""
    unmaking: list[float] = []

    def once(number: int) -> float:
        name = uid(number, "f")
        begin = time.perf_counter()
        floor.make(name, _SOURCES)
        made = time.perf_counter()
        floor.unmake(name, _SOURCES)
        unmaking.append((time.perf_counter() - made) * 1000)
        return (made - begin) * 1000

    made = repeat(count, once)
    return sorted(made)[len(made) // 2], sorted(unmaking)[len(unmaking) // 2]


def _by_api(node: Node, count: int) -> tuple[list[float], list[float]]:
    went: list[float] = []

    def once(number: int) -> float:
        body, name = as_json(pod(number, _SOURCES)), uid(number)
        begin = time.perf_counter()
        node.post(body)
        node.wait(name)
        came = time.perf_counter()
        node.delete(name)
        node.wait(name, "unmounted")
        went.append((time.perf_counter() - came) * 1000)
        return (came - begin) * 1000

    came = repeat(count, once)
    return came, went[-count:]


def _by_file(node: Node, count: int) -> tuple[list[float], list[float]]:
    table = MountTable()
    gone: list[float] = []

    def once(number: int) -> float:
        target = volume_path(node.root, uid(number, "d"))
        staged, placed = node.staging / f"{number}.yaml", node.manifests / f"{number}.yaml"
        staged.write_bytes(as_yaml(pod(number, _SOURCES, "d")))
        begin = time.perf_counter()
        staged.rename(placed)
        seen = table.until_mounted(target)
        node.wait(uid(number, "d"))
        if number % 4 == 0:  # each takes removal_settle
            removed = time.perf_counter()
            placed.unlink()
            gone.append((table.until_unmounted(target) - removed - REMOVAL_SETTLE) * 1000)
        return (seen - begin) * 1000

    seen = repeat(count, once)
    table.close()
    return seen, gone
