"""What stands for `cancelled` and `progress` where nobody cancels, and nobody hears. Pure."""

from __future__ import annotations


def never() -> bool:
    """Say that nobody has cancelled."""
    return False


def silent(_text: str) -> None:
    """Hear of progress, and do nothing."""
