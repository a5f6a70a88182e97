"""Documents of which nothing is sure: what is no mapping or list where one should be counts as an empty one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast


def mapping(value: object) -> Mapping[str, object]:
    """Give a value that is a mapping."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def items(value: object) -> Sequence[Mapping[str, object]]:
    """Give the items of a value that is a list of mappings."""
    return [mapping(item) for item in cast("Sequence[object]", value)] if isinstance(value, list) else []
