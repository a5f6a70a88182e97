"""CSI: what volmgr adds to what a driver does, what is left of Pods that come and go, and what the package costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.csi_churn import churn
from tests.bench.csi_footprint import footprint
from tests.bench.csi_mounts import mounts
from tests.bench.measures import Measure
from tests.csi.node import clear


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured; times are seconds."""

    rounds: int
    """Pods, one after the other, with each driver."""
    churn: float
    per_second: float
    """Pods that come or go."""
    starts: int
    volumes: int
    idle: float


QUICK = Size(rounds=2, churn=4, per_second=20, starts=1, volumes=10, idle=1)
FULL = Size(rounds=30, churn=120, per_second=20, starts=5, volumes=100, idle=10)


def csi(top: Path, size: Size) -> Iterator[Measure]:
    """Measure all of it; raises AssertionError where Pods that came and went left anything."""
    try:
        yield from mounts(top / "mounts", size.rounds)
        yield from footprint(top / "footprint", size.starts, size.volumes, size.idle)
        yield from churn(top / "churn", size.churn, size.per_second)
    finally:
        clear(top)  # loop devices outlive the mount namespace
