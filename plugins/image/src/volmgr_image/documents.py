"""Reads JSON of images and of credentials: nothing in it is trusted, and errors never repeat it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import cast

from volmgr.plugin import OperationError

Fields = Mapping[str, object]

_LISTED, _SHOWN = 20, 200  # texts, and characters of each


def read_object(data: bytes, what: str) -> Fields:
    """Read a JSON object; raises OperationError that names `what`."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise OperationError(f"{what} is no JSON object")
    return cast("Fields", value)


def text(fields: Fields, name: str) -> str:
    """Give a text, empty when it is missing or none."""
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def number(fields: Fields, name: str) -> int:
    """Give a whole number, -1 when it is missing or none."""
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def child(fields: Fields, name: str) -> Fields:
    """Give an object in an object, empty when it is missing or none."""
    value = fields.get(name)
    return cast("Fields", value) if isinstance(value, dict) else {}


def children(fields: Fields, name: str) -> tuple[Fields, ...]:
    """Give the objects of a list, none when it is missing."""
    value = fields.get(name)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(cast("Fields", item) for item in items if isinstance(item, dict))


def listed(names: Iterable[str]) -> str:
    """Give texts from an image for a message: not too many, and without what a terminal would obey."""
    found = list(names)
    more = f", and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return (", ".join(repr(name[:_SHOWN])[1:-1] for name in found[:_LISTED]) or "none") + more


def texts(fields: Fields, name: str) -> tuple[str, ...]:
    """Give the texts of a list, none when it is missing."""
    value = fields.get(name)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(item for item in items if isinstance(item, str))
