"""CSI: what volmgr adds to what a driver does, what is left of Pods that come and go, and what the package costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.csi_mounts import mounts
from tests.bench.measures import Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    rounds: int
    """Pods, one after the other, with each driver."""


QUICK = Size(rounds=3)
FULL = Size(rounds=30)


def csi(top: Path, size: Size) -> Iterator[Measure]:
    """Measure all of it."""
    yield from mounts(top / "mounts", size.rounds)
