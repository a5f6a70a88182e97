"""What the package costs a daemon: memory, starts and wake-ups, without it, with it, and with drivers and volumes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.csi_node import CHANNEL_IDLE, CsiNode, installed_without
from tests.bench.measures import Measure
from tests.bench.mount_table import MountTable
from tests.bench.node import Node
from tests.bench.processes import proportional_megabytes, resident_megabytes, wake_ups
from tests.bench.workload import uid
from tests.csi.fault_driver.running import ProcessDriver, running_fault_process
from tests.csi.node import registry
from tests.csi.objects import bound, driver_object

LIMIT = 20.0
"""Megabytes that the package may add, with one driver."""
_REST = 1.0
"""Seconds after which what is due after a start, or a burst, has been done."""
_PACKAGE = "volmgr_csi"
_DRIVER = "fault.csi.bench"


def footprint(top: Path, starts: int, volumes: int, seconds: float) -> Iterator[Measure]:
    """Measure the daemon without the package, with it, with a driver that was heard of, and with its volumes."""
    top.mkdir()
    without = _Daemon(Node(top / "without", program=installed_without(top / "site-without", _PACKAGE)))
    installed = _Daemon(Node(top / "with", program=installed_without(top / "site-with")))
    for _ in range(starts + 1):  # side by side, so that others' work is in both; the first ones warm up
        for each in (without, installed):
            each.start_again()
    time.sleep(CHANNEL_IDLE)
    bare = without.size()
    yield from _starts(without, installed, bare)
    yield _woken("without the package", without.node, seconds)
    for each in (without, installed):
        each.node.stop()
    home = top / "driver"
    with running_fault_process(home / "d", name=_DRIVER, registration=registry(home) / "f.sock") as driver:
        yield from _with_driver(CsiNode(home), driver, bare, volumes, seconds)


@dataclass(slots=True)
class _Daemon:
    """One that is started again and again."""

    node: Node
    cpu: list[float] = field(default_factory=list[float])
    """Milliseconds of each start."""

    def start_again(self) -> None:
        """Start it once more."""
        self.node.stop()
        self.cpu.append(self.node.start().cpu * 1000)

    def size(self) -> _Size:
        """Give its memory."""
        return _Size.of(self.node)


@dataclass(frozen=True, slots=True)
class _Size:
    """Megabytes."""

    resident: float
    proportional: float

    @classmethod
    def of(cls, node: Node) -> _Size:
        """Look at a daemon that runs."""
        return cls(resident_megabytes(node.pid), proportional_megabytes(node.pid))

    def beyond(self, name: str, other: _Size, limit: float | None = None) -> Measure:
        """Give how much more this is than another."""
        proportional = self.proportional - other.proportional
        note = f"{self.resident:.1f} MB against {other.resident:.1f}; Pss {proportional:.1f} MB more"
        return Measure(name=name, samples=[self.resident - other.resident], unit="MB", limit=limit, note=note)


def _starts(without: _Daemon, installed: _Daemon, bare: _Size) -> Iterator[Measure]:
    ours, theirs = (statistics.median(each.cpu[1:]) for each in (installed, without))
    note = f"{ours:.0f} ms against {theirs:.0f}"
    yield Measure(name="start → ready, processor time that the package adds", samples=[ours - theirs], note=note)
    yield installed.size().beyond("memory that the package adds without a driver", bare)


def _with_driver(node: CsiNode, driver: ProcessDriver, bare: _Size, volumes: int, seconds: float) -> Iterator[Measure]:
    handles = [f"disk-{number}" for number in range(volumes)]
    for handle in handles:
        driver.add_volume(handle, medium="memory")
    node.start()
    table = MountTable()
    try:
        node.until_registered(driver.name)
        time.sleep(CHANNEL_IDLE + _REST)
        yield _Size.of(node).beyond("memory that the package adds with one driver", bare, LIMIT)
        yield _woken("with one driver", node, seconds)
        node.put(
            "disks", driver_object(driver.name), *(each for handle in handles for each in bound(driver.name, handle))
        )
        for number, handle in enumerate(handles):
            node.put_pod(number, handle)
        table.until_so(lambda: all(node.is_there(number, handle) for number, handle in enumerate(handles)))
        time.sleep(CHANNEL_IDLE + _REST)
        yield _Size.of(node).beyond(f"memory that the package, a driver and {volumes} volumes add", bare)
        yield _woken(f"with {volumes} volumes", node, seconds)
        yield from _restart(node, driver, table, volumes)
    finally:
        node.drain()
        table.close()


def _restart(node: CsiNode, driver: ProcessDriver, table: MountTable, volumes: int) -> Iterator[Measure]:
    """Start over mounted volumes; raises AssertionError where that mounts or calls anything."""
    mounts, calls = table.ids(node.root), _volume_calls(driver)
    node.stop()
    started = node.start()
    node.until_registered(driver.name)
    node.wait_for_all([uid(number) for number in range(volumes)])
    assert table.ids(node.root) == mounts, "a restart changed mounts"
    assert _volume_calls(driver) == calls, "a restart had volumes staged or published again"
    name = f"restart with {volumes} mounted CSI volumes → ready"
    yield Measure(name=name, samples=[started.wall * 1000], note=f"{started.cpu * 1000:.0f} ms of processor time")


def _volume_calls(driver: ProcessDriver) -> int:
    return sum("volumeId" in call.request for call in driver.calls())


def _woken(what: str, node: Node, seconds: float) -> Measure:
    before = wake_ups(node.pid)
    time.sleep(seconds)
    return Measure(name=f"wake-ups in {seconds:g} s idle, {what}", samples=[wake_ups(node.pid) - before], unit="")
