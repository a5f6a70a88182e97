"""Reads plain data (what YAML and JSON give) into frozen dataclasses, by schemas derived from them once. Pure.

Field names are camelCase on the wire; field metadata says more: `name` (`{"name": "targetWWNs"}`), `strict` (unknown
fields below are refused, see `Unknown.MARKED`), `read` (a function of the plain value that raises ValueError),
`elsewhere` (known here, but read by other code).
Scalars are strict: `"yes"` is no boolean, `"1"` no integer. null reads as absent.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from volmgr.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class Unknown(Enum):
    """What becomes of fields that a dataclass does not have."""

    REFUSE = "refuse"
    MARKED = "marked"
    """Refused below fields whose metadata says `strict`, let through elsewhere."""
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one field (`spec.containers[0].name`; empty: the whole), and what to write instead."""

    field: str
    problem: str
    remedy: str = ""

    def below(self, prefix: str) -> Problem:
        """Give the same problem as seen from further up."""
        return Problem(join(prefix, self.field), self.problem, self.remedy)

    def __str__(self) -> str:
        text = f"{self.field}: {self.problem}" if self.field else self.problem
        return f"{text}; {self.remedy}" if self.remedy else text


class SchemaError(SpecError):
    """Data does not fit; `problems` names every field that is wrong."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(", and ".join(map(str, self.problems)))


def load(cls: type[T], data: object, *, unknown: Unknown = Unknown.REFUSE, path: str = "") -> T:
    """Read `data` into the dataclass `cls`; raises SchemaError with every problem, their fields below `path`."""
    from volmgr.model import fields  # marshmallow costs 70 ms that `volmgr --help` need not pay

    return fields.read(cls, data, unknown, path)


def join(prefix: str, field: str) -> str:
    """Join two field paths: `a` and `b` to `a.b`, `a` and `[0]` to `a[0]`."""
    return f"{prefix}.{field}" if prefix and field and not field.startswith("[") else prefix + field


def describe(value: object) -> str:
    """Name a wrong value for its author: its type and, when short, itself."""
    match value:
        case None:
            return "nothing"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {value[:40]!r}"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


def read_base64(value: object) -> bytes:
    """Read base64 text; raises ValueError without repeating the value, which may be secret."""
    if isinstance(value, str):
        with suppress(binascii.Error, ValueError):
            return base64.b64decode("".join(value.split()), validate=True)
    raise ValueError(
        "not base64 text; encode it, or write text as it is: in a Secret below stringData, in a ConfigMap below data"
    )


def typed_source(cls: type[T], source: Mapping[str, object], *, unknown: Unknown = Unknown.REFUSE) -> T:
    """Read a volume's source into its plugin's dataclass, once per content; raises SchemaError (a SpecError)."""
    return cast("T", _typed(cast("Hashable", cls), msgspec.json.encode(source, order="sorted"), unknown))


@lru_cache(maxsize=2048)
def _typed(cls: Hashable, content: bytes, unknown: Unknown) -> object:
    return load(cast("type[object]", cls), msgspec.json.decode(content), unknown=unknown)
