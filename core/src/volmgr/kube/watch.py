"""One watch: connected on a request thread, then read without blocking."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WatchTarget:
    """Where watches connect to, and with what."""

    address: str
