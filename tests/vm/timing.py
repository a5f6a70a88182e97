"""How long a mount takes beyond the bare commands: told when the run ends, never judged, since guests are emulated."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

RESULTS = Path("/vm/times.txt")
"""What `tests.vm` reads when the guest has gone."""


def best(act: Callable[[], object], undo: Callable[[], object], rounds: int = 3) -> float:
    """Give the shortest of some rounds, in seconds."""
    found: list[float] = []
    for _ in range(rounds):
        begun = time.monotonic()
        act()
        found.append(time.monotonic() - begun)
        undo()
    return min(found)


def say_beyond(what: str, bare: float, ours: float) -> None:
    """Tell how much longer ours took; `what` begins the line."""
    beyond = ours - bare
    told = f"bare commands {bare:.2f} s, a Pod's mount {ours:.2f} s: {beyond:+.2f} s, {100 * beyond / bare:+.0f} %"
    with RESULTS.open("a") as results:
        results.write(f"{what}: {told}\n")
