"""Pods that share a few volumes come and go at random: whatever is left of them then is a failure, not a number."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.csi_node import CHANNEL_IDLE
from tests.bench.measures import Measure
from tests.bench.node import REMOVAL_SETTLE
from tests.bench.processes import cpu_seconds, resident_megabytes
from tests.csi.churn import Churn
from tests.csi.fault_driver.running import running_fault_process
from tests.csi.node import CsiNode, loops_below, registry
from tests.csi.objects import driver_object
from tests.eventually import eventually
from tests.kube.drivers import running_loopcsi

PODS = 100
"""That there are at most."""
_WORKERS = 4
"""Threads that stay once they were needed: so few that all have been when the first Pods have gone."""
_VOLUMES = tuple(f"disk-{number}" for number in range(20))


@dataclass(frozen=True, slots=True)
class Held:
    """What there is of a daemon and its driver."""

    threads: int
    descriptors: int
    mounts: int
    loops: int
    targets: int
    """Where the driver has volumes for staged or published."""
    files: frozenset[str]
    """All below the root directory: records, `vol_data.json`, directories."""


def churn(top: Path, seconds: float, per_second: float) -> Iterator[Measure]:
    """Let Pods come and go with each driver; raises AssertionError where they do not converge, or leave anything."""
    home = top / "loop"
    with running_loopcsi(home / "d", "loop.csi.bench", "m", registration=registry(home) / "l.sock") as loop:
        for volume in _VOLUMES:
            loop.add_volume(volume)
        yield from _Churned(home, loop.name, lambda: 0).measured("loopcsi", seconds, per_second)
    home = top / "fault"
    with running_fault_process(home / "d", name="fault.csi.bench", registration=registry(home) / "f.sock") as fault:
        for volume in _VOLUMES:
            fault.add_volume(volume, medium="memory")
        targets = lambda: sum(len(each.staged) + len(each.published) for each in fault.volumes.all())  # noqa: E731
        yield from _Churned(home, fault.name, targets).measured("fault driver", seconds / 8, per_second)


@dataclass(frozen=True, slots=True)
class _Churned:
    home: Path
    driver: str
    targets: Callable[[], int]

    def measured(self, name: str, seconds: float, per_second: float) -> Iterator[Measure]:
        """Let some come and go first, so that all is made that is made once; then compare."""
        with CsiNode(self.home, removal_settle=REMOVAL_SETTLE, workers=_WORKERS) as node:
            node.put("driver.json", driver_object(self.driver))
            node.until_registered(self.driver)
            pods = Churn(node, self.driver, _VOLUMES, PODS)
            pods.offer_volumes()
            for _ in range(PODS):
                pods.step()
            pods.until_right()
            pods.end()
            before = self._rested(node)
            memory, cpu, came = resident_megabytes(node.pid), cpu_seconds(node.pid), pods.came
            _at_pace(pods.step, seconds, per_second)
            begin = time.perf_counter()
            pods.until_right()
            took = time.perf_counter() - begin
            pods.end()
            spent = cpu_seconds(node.pid) - cpu
            self._until_as(before, node)
            grown = resident_megabytes(node.pid) - memory
        what = f"{pods.came - came} Pods of {len(_VOLUMES)} volumes in {seconds:g} s, {name}"
        yield Measure(name=f"{what}: left of them", samples=[0], unit="", limit=0, note=_words(before))
        yield Measure(name=f"{what}: until all was as wanted", samples=[took * 1000])
        yield Measure(name=f"{what}: processor time a Pod", samples=[spent / (pods.came - came) * 1000])
        yield Measure(name=f"{what}: memory that the daemon kept", samples=[grown], unit="MB")

    def _rested(self, node: CsiNode) -> Held:
        """Give what there is once the channel is closed, and threads that are too many have ended."""
        time.sleep(CHANNEL_IDLE + 1)
        return self._held(node)

    def _until_as(self, before: Held, node: CsiNode) -> None:
        """Return when no more is there than before."""
        eventually(
            lambda: not _more(before, self._held(node)),
            lambda: f"nothing is left, but {_more(before, self._held(node))}: {node.log_text()[-4000:]}",
        )

    def _held(self, node: CsiNode) -> Held:
        places = os.walk(node.root)
        return Held(
            threads=len(os.listdir(f"/proc/{node.pid}/task")),
            descriptors=len(os.listdir(f"/proc/{node.pid}/fd")),
            mounts=len(node.mounts()),
            loops=len(loops_below(self.home)),
            targets=self.targets(),
            files=frozenset(f"{place}/{name}" for place, below, files in places for name in (*below, *files)),
        )


def _at_pace(step: Callable[[], None], seconds: float, per_second: float) -> None:
    begin = time.monotonic()
    for number in range(int(seconds * per_second)):
        time.sleep(max(0.0, begin + number / per_second - time.monotonic()))
        step()


def _more(before: Held, after: Held) -> dict[str, object]:
    """Give what is there that was not there before."""
    counts = {
        "threads": after.threads - before.threads,
        "descriptors": after.descriptors - before.descriptors,
        "mounts": after.mounts - before.mounts,
        "loop devices": after.loops - before.loops,
        "targets that the driver knows": after.targets - before.targets,
    }
    found: dict[str, object] = {name: count for name, count in counts.items() if count > 0}
    files = sorted(after.files - before.files)
    return found | ({"files": files} if files else {})


def _words(held: Held) -> str:
    return (
        f"as before: {held.threads} threads, {held.descriptors} descriptors, {held.mounts} mounts,"
        f" {held.loops} loop devices, {len(held.files)} files and directories"
    )
