"""Pods that come and go all the time: how long each takes, what that asks of the server, and what is left of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread

from tests.bench.kube_node import Held, KubeNode, is_there
from tests.bench.kube_population import Size, create_all, pod_of, references, sources
from tests.bench.kube_traffic import Connections, by_kind, words
from tests.bench.kube_watch import PlainWatch
from tests.bench.measures import Measure
from tests.bench.mount_table import PATIENCE, MountTable
from tests.bench.processes import cpu_seconds
from tests.kube.client import Document

_LIFE = 2.0
"""Seconds from the creation of a Pod to its deletion."""
_SECRETS = 60
"""Each is used by one Pod after the other, with a second between them at 20 a second: so each Pod asks for its own."""
_LOOK = 0.001
_REST = 3.0


@dataclass(slots=True)
class _Life:
    """A Pod, and when (time.perf_counter) it was seen to be complete, and gone."""

    uid: str
    paths: list[Path]
    deleted: bool = False
    there: float = 0.0
    gone: float = 0.0


@dataclass(slots=True)
class _Observer:
    """Looks at the volumes of Pods that come or go."""

    lives: list[_Life] = field(default_factory=list)
    _open: deque[_Life] = field(default_factory=deque)
    _lock: Lock = field(default_factory=Lock)

    def add(self, life: _Life) -> None:
        self.lives.append(life)
        with self._lock:
            self._open.append(life)

    def until_over(self, over: Event) -> None:
        """Look until no Pod is left and no more come."""
        deadline = time.monotonic() + 10 * PATIENCE
        while self._open or not over.is_set():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self._open)} Pods never came or went")
            for life in tuple(self._open):
                self._look(life)
            time.sleep(_LOOK)

    def _look(self, life: _Life) -> None:
        if not life.there and all(map(is_there, life.paths)):
            life.there = time.perf_counter()
        elif life.there and life.deleted and not life.paths[0].parent.parent.parent.exists():
            life.gone = time.perf_counter()
            with self._lock:
                self._open.remove(life)


def churn(node: KubeNode, size: Size) -> Iterator[Measure]:
    """Create and delete Pods at a constant pace."""
    identity, cluster = node.identity, node.identity.cluster
    create_all(cluster.admin, references(_SECRETS, "churn-"))
    table = MountTable()
    time.sleep(_REST)
    before, cpu, traffic, mark = node.held(table), cpu_seconds(node.pid), Connections.of(node.pid), cluster.audit.mark()
    selector = {"fieldSelector": f"spec.nodeName={identity.name}"}
    observer, over = _Observer(), Event()
    with PlainWatch(cluster.admin_kubeconfig, "/api/v1/pods", **selector) as plain:
        began = time.perf_counter()
        maker = Thread(target=_make, args=(node, size, observer, over), daemon=True)
        maker.start()
        observer.until_over(over)
        maker.join()
        seconds = time.perf_counter() - began
        came = [(each.there - plain.when("ADDED", each.uid)) * 1000 for each in observer.lives]
        went = [(each.gone - plain.when("DELETED", each.uid)) * 1000 for each in observer.lives]
    spent, end = cpu_seconds(node.pid) - cpu, Connections.of(node.pid)
    requests = by_kind(cluster.requests(after=mark, user=identity.user))
    time.sleep(_REST)
    after = node.held(table)
    table.close()
    name = f"{size.per_second:g} Pods a second for {size.churn:g} s"
    yield Measure(
        name=f"{name}: heard of by the server's own watch → 3 volumes there",
        samples=came,
        note=f"{words(requests)}; {(end.received - traffic.received) / 1000:,.0f} kB received,"
        f" {(end.sent - traffic.sent) / 1000:,.0f} kB sent",
    )
    yield Measure(name=f"{name}: deleted → gone, likewise", samples=went)
    yield Measure(name=f"{name}: requests a Pod", samples=[requests.total() / len(came)], unit="")
    yield Measure(name=f"{name}: processor time a Pod", samples=[spent / len(came) * 1000])
    yield Measure(name=f"{name}: of one processor", samples=[100 * spent / seconds], unit="%")
    yield Measure(
        name=f"{name}: left over", samples=[_leaks(before, after)], unit="", limit=0, note=_held(before, after)
    )


def _make(node: KubeNode, size: Size, observer: _Observer, over: Event) -> None:
    admin, name = node.identity.cluster.admin, node.identity.name
    alive: deque[tuple[float, _Life, Document]] = deque()
    began = time.perf_counter()

    def end_those_before(moment: float) -> None:
        while alive and alive[0][0] <= moment:
            due, life, document = alive.popleft()
            time.sleep(max(0.0, due - time.perf_counter()))
            admin.delete(admin.path(document), gracePeriodSeconds=0)
            life.deleted = True

    try:
        for number in range(int(size.churn * size.per_second)):
            due = began + number / size.per_second
            end_those_before(due)
            time.sleep(max(0.0, due - time.perf_counter()))
            document = admin.create(pod_of(name, f"churn-{number}", _sources(number, size)))
            life = _Life(document["metadata"]["uid"], node.volumes(document))
            observer.add(life)
            alive.append((due + _LIFE, life, document))
        end_those_before(float("inf"))
    finally:
        over.set()


def _sources(number: int, size: Size) -> tuple[dict[str, object], ...]:
    """Give volumes of which the ConfigMap has other users, and the Secret has none."""
    memory, settings, _ = sources(number % size.each)
    _, _, login = sources(number % _SECRETS, "churn-")
    return dict(memory), dict(settings), dict(login)


def _leaks(before: Held, after: Held) -> int:
    grown = (
        after.descriptors - before.descriptors,
        after.mounts - before.mounts,
        after.records - before.records,
        after.threads - before.threads,
    )
    return sum(max(0, each) for each in grown)


def _held(before: Held, after: Held) -> str:
    return f"before {before}, after {after}"
