"""One metric as a plain value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gauge:
    """One metric: its name, what it counts, the names of its labels, and its values by labels' values."""

    name: str
    about: str
    labels: tuple[str, ...]
    values: Mapping[tuple[str, ...], float]
