"""How long it takes until a container has what a ConfigMap, a Secret or a projected volume says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tests.bench.arrivals import Arrivals
from tests.bench.measures import Measure, repeat
from tests.bench.node import Node
from tests.bench.workload import as_yaml, pod, uid
from volmgr.cli.client import Refused

_SETTINGS: Mapping[str, object] = {"configMap": {"name": "settings"}}
_TRIPLE: tuple[Mapping[str, object], ...] = (
    _SETTINGS,
    {"secret": {"secretName": "login"}},
    {"projected": {"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "login"}}]}},
)


def payloads(top: Path, count: int, pods: int, rounds: int) -> Iterator[Measure]:
    """Measure a change, a change that many share, a Pod that comes, and an object that was missing."""
    node = Node(top / "payloads")
    node.start()
    try:
        _put(node, "settings", _config("settings", "as it was"))
        _put(node, "login", {**_object("Secret", "login"), "stringData": {"password": "as it was"}})
        yield Measure(
            name="Pod file with ConfigMap, Secret and projected → mounted", samples=_comes(node, count), limit=10
        )
        yield Measure(name="missing ConfigMap appears → mounted", samples=_appears(node, count), p95_limit=50)
        yield Measure(name="ConfigMap file replaced → container reads it", samples=_changes(node, count), p95_limit=20)
        yield Measure(
            name=f"one ConfigMap changes for {pods} Pods", samples=_shared(node, pods, rounds), unit="s", limit=0.4
        )
    finally:
        node.drain()


def _comes(node: Node, count: int) -> list[float]:
    def once(number: int) -> float:
        name = uid(number, "a")
        began = _put(node, name, pod(number, _TRIPLE, "a"))
        node.wait(name)
        took = time.perf_counter() - began
        _take_away(node, name)
        return took * 1000

    return repeat(count, once)


def _appears(node: Node, count: int) -> list[float]:
    def once(number: int) -> float:
        name, missing = uid(number, "c"), f"missing-{number}"
        _put(node, name, pod(number, ({"configMap": {"name": missing}},), "c"))
        with suppress(Refused):  # it must wait for its ConfigMap before that appears
            node.client.get(f"/v1/pods/{name}/wait?for=mounted&timeout=0.1")
        began = _put(node, missing, _config(missing, "there"))
        node.wait(name)
        took = time.perf_counter() - began
        _take_away(node, name)
        (node.manifests / f"{missing}.yaml").unlink()
        return took * 1000

    return repeat(count, once)


def _changes(node: Node, count: int) -> list[float]:
    name = uid(0, "d")
    _put(node, name, pod(0, (_SETTINGS,), "d"))
    node.wait(name)
    try:
        return repeat(count, lambda number: _change(node, [_place(node, name)], f"changed {number}") * 1000)
    finally:
        _take_away(node, name)


def _shared(node: Node, pods: int, rounds: int) -> list[float]:
    names = [uid(number, "e") for number in range(pods)]
    for number, name in enumerate(names):
        _put(node, name, pod(number, (_SETTINGS,), "e"))
    node.wait_for_all(names)
    places = [_place(node, name) for name in names]
    return [_change(node, places, f"for all {number}") for number in range(rounds)]


def _change(node: Node, places: list[Path], text: str) -> float:
    """Replace the ConfigMap, and wait until each volume has the new text; gives seconds."""
    arrivals = Arrivals(places)
    began = _put(node, "settings", _config("settings", text))
    ended = arrivals.until_all()
    arrivals.close()
    wrong = [place for place in places if (place / "key").read_text() != text]
    if wrong:
        raise RuntimeError(f"{len(wrong)} volumes were replaced by something else than {text}")
    return ended - began


def _place(node: Node, pod_uid: str) -> Path:
    return node.root / "pods" / pod_uid / "volumes" / "kubernetes.io~configmap" / "v0"


def _put(node: Node, name: str, manifest: Mapping[str, object]) -> float:
    """Rename a manifest into place; gives the time (time.perf_counter) just before."""
    staged = node.staging / f"{name}.yaml"
    staged.write_bytes(as_yaml(manifest))
    began = time.perf_counter()
    staged.rename(node.manifests / f"{name}.yaml")
    return began


def _take_away(node: Node, name: str) -> None:
    (node.manifests / f"{name}.yaml").unlink()
    node.wait(name, "unmounted")


def _object(kind: str, name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}


def _config(name: str, text: str) -> dict[str, object]:
    return {**_object("ConfigMap", name), "data": {"key": text, "other": "the same as ever"}}
