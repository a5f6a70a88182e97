"""What many volumes cost: a restart over them, and one Pod more beside them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.floor import Floor
from tests.bench.measures import Measure, repeat
from tests.bench.mount_table import MountTable
from tests.bench.node import Node
from tests.bench.workload import MEMORY, as_json, pod, uid

_PER_POD = 10


Fill = Callable[[Node, int], None]


def restart(
    top: Path, volumes: int, count: int, fill: Fill | None = None, what: str = "mounted volumes"
) -> Iterator[Measure]:
    """Measure starts over a root with mounted volumes, against starts over an empty one."""
    table = MountTable()
    node = Node(top / "restart")
    empty = statistics.median(repeat(count, lambda _number: _start(node)))
    node.start()
    mounted: list[float] = []
    changes = 0
    try:
        (fill or _fill)(node, volumes)
        before = table.ids(node.root)
        for _ in range(count):
            node.stop()
            table.changed()
            mounted.append(node.start().wall)
            time.sleep(0.5)  # whatever it would mount after it is ready
            changes += table.changed()
        after = table.ids(node.root)
    finally:
        node.drain()
    table.close()
    same = before == after and len(before) == volumes
    yield Measure(
        name=f"restart with {volumes:,} {what}, beyond an empty start",
        samples=[(wall - empty) * 1000 for wall in mounted],
        limit=500,
        note=f"an empty start takes {empty * 1000:.0f} ms; mount ids {'unchanged' if same else 'CHANGED'}, "
        f"{changes} changes of the mount table",
    )
    yield Measure(name=f"{what} mounted again by a restart", samples=[changes], unit="", limit=0)


def _start(node: Node) -> float:
    wall = node.start().wall
    node.stop()
    return wall


def beside(top: Path, few: int, many: int, count: int) -> Iterator[Measure]:
    """Measure one Pod more beside few mounts and beside many, all of them volmgr's own."""
    node = Node(top / "scale")
    floor = Floor(top / "floor-scale")
    node.start()
    try:
        _fill(node, few)
        time.sleep(1)
        one = statistics.median(_more(node, count))
        bare_few = statistics.median(_bare(floor, count))
        _fill(node, many - few, "c")
        time.sleep(1)
        other = _more(node, count)
        bare_many = statistics.median(_bare(floor, count))
    finally:
        node.drain()
    yield Measure(
        name=f"one Pod more at {many:,} mounts",
        samples=other,
        limit=1.5 * one,
        floor=bare_many,
        note=f"at {few} mounts it takes {one:.2f} ms, the floor {bare_few:.2f} ms; the target is 1.5 times the former",
    )


def _fill(node: Node, volumes: int, prefix: str = "b") -> None:
    pods, rest = divmod(volumes, _PER_POD)
    sizes = [_PER_POD] * pods + ([rest] if rest else [])
    for number, size in enumerate(sizes):
        node.post(as_json(pod(number, [MEMORY] * size, prefix)))
    node.wait_for_all([uid(number, prefix) for number in range(len(sizes))])


def _more(node: Node, count: int) -> list[float]:
    def once(number: int) -> float:
        body, name = as_json(pod(number, [MEMORY], "e")), uid(number, "e")
        begin = time.perf_counter()
        node.post(body)
        node.wait(name)
        came = time.perf_counter()
        node.delete(name)
        node.wait(name, "unmounted")
        return (came - begin) * 1000

    return repeat(count, once)


def _bare(floor: Floor, count: int) -> list[float]:
    def once(number: int) -> float:
        begin = time.perf_counter()
        floor.make(uid(number, "f"), [MEMORY])
        made = time.perf_counter()
        floor.unmake(uid(number, "f"), [MEMORY])
        return (made - begin) * 1000

    return repeat(count, once)
