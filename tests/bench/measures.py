"""What a benchmark gives: named samples beside a limit, a floor and kubelet's number, printed as one table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One line of the table. `limit` is the target for the median; `floor` is what the bare system calls took."""

    name: str
    samples: Sequence[float] = field(repr=False)
    unit: str = "ms"
    limit: float | None = None
    p95_limit: float | None = None
    """The target for all samples but one in twenty."""
    floor: float | None = None
    floor_limit: float | None = None
    """How many times the floor the median may be."""
    kubelet: str = ""
    note: str = ""

    @property
    def median(self) -> float:
        """The middle sample."""
        return statistics.median(self.samples)

    @property
    def p95(self) -> float:
        """The sample that one in twenty exceeds."""
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]

    @property
    def is_met(self) -> bool | None:
        """Say whether every target is met; None without one."""
        if self.limit is None and self.p95_limit is None and self.floor_limit is None:
            return None
        below = self.limit is None or self.median <= self.limit
        rare = self.p95_limit is None or self.p95 <= self.p95_limit
        near = self.floor_limit is None or self.floor is None or self.median <= self.floor_limit * self.floor
        return below and rare and near


_HEAD = ("what", "target", "median", "p95", "n", "floor", "of floor", "kubelet", "met")


def table(measures: Sequence[Measure]) -> str:
    """Give a Markdown table."""
    rows = [_HEAD, *(_row(measure) for measure in measures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    notes = [f"- {measure.name}: {measure.note}" for measure in measures if measure.note]
    return "\n".join([lines[0], rule, *lines[1:], *([""] if notes else []), *notes])


def _row(measure: Measure) -> tuple[str, ...]:
    limits: list[str] = []
    if measure.limit is not None:
        limits.append(f"≤ {_number(measure.limit)} {measure.unit}")
    if measure.p95_limit is not None:
        limits.append(f"p95 ≤ {_number(measure.p95_limit)} {measure.unit}")
    if measure.floor_limit is not None:
        limits.append(f"≤ {measure.floor_limit:g} floors")
    floor = ratio = ""
    if measure.floor is not None:
        floor = f"{_number(measure.floor)} {measure.unit}"
        ratio = f"{measure.median / measure.floor:.1f}" if measure.floor else ""
    many = len(measure.samples) > 1
    return (
        measure.name,
        ", ".join(limits),
        f"{_number(measure.median)} {measure.unit}".strip(),
        f"{_number(measure.p95)}" if many else "",
        str(len(measure.samples)),
        floor,
        ratio,
        measure.kubelet,
        {True: "yes", False: "NO", None: ""}[measure.is_met],
    )


def _number(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def repeat(count: int, once: Callable[[int], float]) -> list[float]:
    """Give the samples of `count` runs; the first tenth warms up and is left out."""
    warm = max(1, count // 10)
    return [once(number) for number in range(count + warm)][warm:]
