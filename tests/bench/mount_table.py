"""Waiting for the mount table, by poll(2): as soon as the kernel says that it changed, and without sleeping."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable
from pathlib import Path

PATIENCE = 30.0
"""Seconds until a benchmark gives up."""


class MountTable:
    """The mount table of this process's namespace, and whether it changed."""

    def __init__(self) -> None:
        self._descriptor = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLPRI)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)

    def read(self) -> bytes:
        """Read it whole."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return b"".join(iter(lambda: os.read(self._descriptor, 1 << 20), b""))

    def changed(self) -> bool:
        """Say whether anything was mounted or unmounted since the last call."""
        return bool(self._poll.poll(0))

    def until(self, reached: Callable[[bytes], bool]) -> float:
        """Wait until the table is as wanted; gives the time (time.perf_counter) at which it was seen."""
        deadline = time.monotonic() + PATIENCE
        while not reached(self.read()):
            if time.monotonic() > deadline:
                raise TimeoutError("the mount table never became what was waited for")
            self._poll.poll((deadline - time.monotonic()) * 1000)
        return time.perf_counter()

    def until_so(self, is_so: Callable[[], bool]) -> float:
        """Wait until something is so that only a mount or unmount makes so; gives the time (time.perf_counter)."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError("the mount table never changed as was waited for")
            self._poll.poll((deadline - time.monotonic()) * 1000)
        return time.perf_counter()

    def until_mounted(self, path: Path) -> float:
        """Wait until something is mounted at a path."""
        return self.until(lambda table: _field(path) in table)

    def until_unmounted(self, path: Path) -> float:
        """Wait until nothing is mounted at a path."""
        return self.until(lambda table: _field(path) not in table)

    def count_below(self, top: Path) -> int:
        """Count the mounts below a directory."""
        return self.read().count(f" {top}/".encode())

    def ids(self, top: Path) -> dict[str, str]:
        """Give the id of each mount below a directory, by path."""
        rows: Iterable[list[str]] = (line.split(" ") for line in self.read().decode().splitlines())
        return {row[4]: row[0] for row in rows if row[4].startswith(f"{top}/")}


def _field(path: Path) -> bytes:
    return b" %b " % os.fsencode(path)
