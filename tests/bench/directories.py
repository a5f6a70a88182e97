"""A restart over many local volumes: directories of the node that claims are bound to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench import scale
from tests.bench.measures import Measure
from tests.bench.node import Node
from tests.bench.workload import as_yaml, claimed, local_volume, pod, uid

_PER_POD = 10


def restart(top: Path, volumes: int, count: int) -> Iterator[Measure]:
    """Measure starts over mounted local volumes, against starts over an empty root."""
    return scale.restart(top, volumes, count, _fill, "local volumes")


def _fill(node: Node, volumes: int) -> None:
    """Write one file for each Pod, with its volumes and claims, and wait for all."""
    pods = volumes // _PER_POD
    for number in range(pods):
        names = [f"local-{number}-{index}" for index in range(_PER_POD)]
        paths = [node.top / "data" / name for name in names]
        for path in paths:
            path.mkdir(parents=True)
        objects = [item for name, path in zip(names, paths, strict=True) for item in local_volume(name, path)]
        staged = node.staging / f"{number}.yaml"
        staged.write_bytes(as_yaml(*objects, pod(number, [claimed(name) for name in names])))
        staged.rename(node.manifests / f"{number}.yaml")
    node.wait_for_all([uid(number) for number in range(pods)])
