"""What /proc says of a process and its children: processor time, memory, wake-ups."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

_CPUCLOCK_SCHED = 2


def cpu_seconds(pid: int) -> float:
    """Give the processor time of a process and its ended threads, to the nanosecond (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)


def with_children(pid: int) -> list[int]:
    """Give a process and everything that descends from it."""
    found = [pid]
    for process in found:
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(FileNotFoundError):  # a thread that has just ended
                found.extend(int(child) for child in (task / "children").read_text().split())
    return found


def resident_megabytes(pid: int) -> float:
    """Give VmRSS of a process and its children."""
    return sum(_status(Path(f"/proc/{process}/status"), "VmRSS") for process in with_children(pid)) / 1024


def proportional_megabytes(pid: int) -> float:
    """Give Pss of a process and its children: pages that others have, too, count in part."""
    return sum(_status(Path(f"/proc/{process}/smaps_rollup"), "Pss") for process in with_children(pid)) / 1024


def wake_ups(pid: int) -> int:
    """Count how often any thread of a process, or of its children, went to sleep of its own will until now."""
    tasks = [task for process in with_children(pid) for task in Path(f"/proc/{process}/task").iterdir()]
    return sum(_status(task / "status", "voluntary_ctxt_switches") for task in tasks)


def _status(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise KeyError(name)
