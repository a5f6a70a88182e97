"""Values to JSON that is always UTF-8, for people and programs. Pure."""

from __future__ import annotations

from typing import cast

import msgspec


def encode(value: object) -> bytes:
    r"""Give a value as JSON; what of a file's name on disk is no UTF-8 is written as an escape such as `\udcff`."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escaped(msgspec.to_builtins(value)))


def text(value: str) -> str:
    """Give text as UTF-8 can say it."""
    return value.encode(errors="backslashreplace").decode()


def _escaped(value: object) -> object:
    match value:
        case str():
            return text(value)
        case dict():
            return {_escaped(key): _escaped(each) for key, each in cast("dict[object, object]", value).items()}
        case list() | tuple():
            return [_escaped(each) for each in cast("list[object]", value)]
        case _:
            return value
