"""How long a Pod's CSI volume takes beyond its driver's calls, by the driver's own log of the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.csi_node import CHANNEL_IDLE, CsiNode
from tests.bench.measures import Measure, repeat
from tests.bench.mount_table import MountTable
from tests.bench.node import REMOVAL_SETTLE
from tests.bench.workload import uid
from tests.csi.fault_driver.running import running_fault_process
from tests.csi.node import registry
from tests.csi.objects import bound, driver_object
from tests.eventually import eventually
from tests.kube.drivers import running_loopcsi

LIMIT = 8.0
"""Milliseconds that a Pod's volume may take beyond the driver's calls."""
_HANDLE = "disk"
_SHORT_IDLE = 0.05
"""Seconds after which a channel closes, where each Pod is to find it closed."""
_MAKING, _UNMAKING = ("NodeStageVolume", "NodePublishVolume"), ("NodeUnpublishVolume",)
"""The calls that a Pod waits for; that its volume is unstaged then, nobody waits for."""

Calls = Callable[[], Iterable[tuple[str, float]]]
"""Gives each call that ended until now: its method, and the seconds that it took."""


def mounts(top: Path, count: int) -> Iterator[Measure]:
    """Measure a driver in Go that mounts loop devices, and one in Python that does next to nothing."""
    for idle, words in ((CHANNEL_IDLE, ""), (_SHORT_IDLE, ", channel closed before")):
        home = top / f"loop-{idle:g}"
        with running_loopcsi(home / "d", "loop.csi.bench", "m", registration=registry(home) / "l.sock") as loop:
            loop.add_volume(_HANDLE)
            rounds = _Rounds(home, idle, loop.name, lambda: ((_last(c["method"]), c["seconds"]) for c in loop.calls()))
            yield from rounds.measured(f"loopcsi{words}", count)
        home = top / f"fault-{idle:g}"
        with running_fault_process(home / "d", name="fault.csi.bench", registration=registry(home) / "f.sock") as fault:
            fault.add_volume(_HANDLE, medium="memory")
            rounds = _Rounds(home, idle, fault.name, lambda: ((c.method, c.ended - c.started) for c in fault.calls()))
            yield from rounds.measured(f"fault driver{words}", count)


@dataclass(slots=True)
class _Rounds:
    """Pods with the same volume, one after the other; all numbers are milliseconds."""

    home: Path
    idle: float
    driver: str
    calls: Calls
    came: list[float] = field(default_factory=list[float])
    went: list[float] = field(default_factory=list[float])
    called: list[float] = field(default_factory=list[float])
    """What the driver took to stage and to publish."""
    _seen: int = 0

    def measured(self, name: str, count: int) -> Iterator[Measure]:
        """Run them all on a daemon of their own."""
        node, table = CsiNode(self.home, channel_idle=self.idle), MountTable()
        node.start()
        try:
            node.put("disk", driver_object(self.driver), *bound(self.driver, _HANDLE))
            node.until_registered(self.driver)
            repeat(count, lambda number: self._once(node, table, number))
        finally:
            node.drain()
            table.close()
        note = f"the driver's calls took {statistics.median(self.called[-count:]):.1f} ms"
        beyond = "Pod file → CSI volume mounted, beyond the driver's calls"
        yield Measure(name=f"{beyond} ({name})", samples=self.came[-count:], limit=LIMIT, note=note)
        yield Measure(name=f"file removed → gone, likewise, less removal_settle ({name})", samples=self.went[-count:])

    def _once(self, node: CsiNode, table: MountTable, number: int) -> float:
        if self.idle < CHANNEL_IDLE:
            time.sleep(2 * self.idle)
        target = node.target(uid(number), _HANDLE)
        begin = time.perf_counter()
        file = node.put_pod(number, _HANDLE)
        table.until_mounted(target)
        node.wait(uid(number))  # the driver's call, and ours, end after the mount
        took = (time.perf_counter() - begin) * 1000
        called = self._called(_MAKING)
        self.called.append(called)
        self.came.append(took - called)
        begin = time.perf_counter()
        file.unlink()
        table.until_unmounted(target)
        node.wait(uid(number), "unmounted")
        self.went.append((time.perf_counter() - begin - REMOVAL_SETTLE) * 1000 - self._called(_UNMAKING))
        eventually(lambda: not node.has_staged(), "the volume is unstaged")
        self._called(("NodeUnstageVolume",))
        return took

    def _called(self, methods: Collection[str]) -> float:
        """Give the milliseconds of the calls that ended since the last time, of these methods once each."""
        calls = list(self.calls())
        new, self._seen = calls[self._seen :], len(calls)
        took = [seconds for method, seconds in new if method in methods]
        assert len(took) == len(methods), f"{methods} where {new} was called"
        return sum(took) * 1000


def _last(method: str) -> str:
    return method.rpartition("/")[2]
