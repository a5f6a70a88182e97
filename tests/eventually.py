"""Waiting for what nobody announces."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 90.0
"""Seconds after which what is waited for counts as failed."""
PAUSE = 0.01
"""Seconds between two looks."""


def eventually(holds: Callable[[], object], what: str | Callable[[], str] = "what is waited for") -> None:
    """Return when something holds; only for what cannot be watched. `what` is what should come, in words."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"never came: {what if isinstance(what, str) else what()}"
        time.sleep(PAUSE)
