"""What the daemon costs when it does nothing: its start, its memory, its wake-ups."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.measures import Measure, repeat
from tests.bench.node import Node
from tests.bench.processes import resident_megabytes, wake_ups
from tests.bench.workload import DISK, MEMORY, as_json, host_path, pod, uid

_REST = 1.5
"""Seconds after which what is due after a burst (one look at the mount table, the objects kept) has been done."""


def start(top: Path, count: int) -> Iterator[Measure]:
    """Measure starts over an empty root, with a manifests directory and every installed type."""
    node = Node(top / "start")
    cpu: list[float] = []
    memory: list[float] = []

    def once(_number: int) -> float:
        started = node.start()
        cpu.append(started.cpu * 1000)
        time.sleep(0.3)
        memory.append(resident_megabytes(node.pid))
        node.stop()
        return started.wall * 1000

    wall = repeat(count, once)
    yield Measure(name="start → ready, processor time", samples=cpu[-count:], limit=300)
    yield Measure(name="start → ready, wall clock", samples=wall)
    yield Measure(name="memory when idle", samples=memory[-count:], unit="MB", limit=40)


def idle(top: Path, pods: int, seconds: float) -> Iterator[Measure]:
    """Measure the wake-ups of a daemon with mounted Pods and an API connection that stays open."""
    shared = top / "shared"
    shared.mkdir(exist_ok=True)
    sources = (MEMORY, DISK, host_path(shared))
    node = Node(top / "idle")
    node.start()
    try:
        for number in range(pods):
            node.post(as_json(pod(number, sources)))
        node.wait_for_all([uid(number) for number in range(pods)])
        time.sleep(_REST)
        before = wake_ups(node.pid)
        time.sleep(seconds)
        woken = wake_ups(node.pid) - before
        calls, detail = _system_calls(node.pid, seconds)
    finally:
        node.drain()
    name = f"in {seconds:g} s idle with {pods} Pods"
    yield Measure(name=f"wake-ups {name}", samples=[woken], unit="", limit=2)
    yield Measure(name=f"system calls {name}", samples=[calls], unit="", note=detail)


def _system_calls(pid: int, seconds: float) -> tuple[int, str]:
    """Let strace count; attaching interrupts each thread's call once, which is then made again."""
    if shutil.which("strace") is None:
        return 0, "strace is not installed"
    command = ["timeout", "--signal=INT", str(seconds), "strace", "-f", "-c", "-p", str(pid)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [line.split() for line in found.stderr.splitlines()]
    counted = [f"{row[-1]} {row[3]}" for row in rows if len(row) in {5, 6} and row[3].isdigit() and row[-1] != "total"]
    calls = sum(int(row.rpartition(" ")[2]) for row in counted)
    return calls, f"strace -f -c: {', '.join(counted) or 'not one call'}"
