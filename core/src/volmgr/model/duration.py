"""Durations as people write them: `30`, `30s`, `2m`, `1h30m`. Pure."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_FORM = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_PLAIN = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)


def parse_duration(text: str) -> float:
    """Give a duration in seconds; raises ValueError when it is none."""
    if _PLAIN.fullmatch(text):
        return float(text)
    if _FORM.fullmatch(text):
        return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    raise ValueError(f"{text[:40]!r} is no duration; write seconds such as 30 or 30s, or 2m")


def read_duration(value: object) -> float:
    """Read a duration of a configuration file: a number of seconds, or text; raises ValueError."""
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        return parse_duration(str(value))
    raise ValueError("not a duration; write seconds such as 30 or 30s, or 2m")
