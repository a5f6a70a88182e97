"""Times as people and programs read them: RFC 3339, UTC. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str | None:
    """Give Unix time in seconds as text, to the millisecond; None for 0 and for infinity, which are never."""
    if not seconds or seconds == float("inf"):
        return None
    return utc(seconds, "milliseconds")


def utc(seconds: float, to: str) -> str:
    """Give Unix time in seconds as text, to the `milliseconds`, or as `datetime.isoformat` has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec=to).replace("+00:00", "Z")
