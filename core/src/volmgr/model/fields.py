"""Derives a marshmallow schema from a dataclass: one marshmallow field per dataclass field. Pure.

Imported by `schema` when first used. Schemas are not nested in marshmallow's sense: each field descends by itself,
and only where the data has something.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from functools import cache, lru_cache
from typing import Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from marshmallow import EXCLUDE, Schema, ValidationError
from marshmallow.fields import Field

from volmgr.errors import SpecError
from volmgr.model.quantity import Quantity
from volmgr.model.schema import Problem, SchemaError, Unknown, describe, join, read_base64

T = TypeVar("T")
Read = Callable[[object], object]


def read(cls: type[T], data: object, unknown: Unknown, path: str) -> T:
    """Read `data` into `cls`."""
    try:
        return cast("T", _reader(cast("Hashable", cls), unknown)(data))
    except ValidationError as error:
        raise SchemaError([found.below(path) for found in _flatten(_messages(error))]) from None


def _messages(error: ValidationError) -> object:
    return cast("object", error.messages)  # marshmallow says: a list or a mapping, of anything


class _Text(str):
    """A message of ours: problem and remedy, which marshmallow carries as one string."""

    __slots__ = ("remedy",)
    remedy: str

    @classmethod
    def of(cls, problem: str, remedy: str) -> _Text:
        text = cls(problem)
        text.remedy = remedy
        return text


def _wrong(problem: str, remedy: str = "") -> ValidationError:
    return ValidationError(_Text.of(problem, remedy))


def _flatten(messages: object, path: str = "") -> list[Problem]:
    if isinstance(messages, dict):
        found: list[Problem] = []
        for key, below in cast("dict[object, object]", messages).items():
            step = f"[{key}]" if isinstance(key, int) else "" if key == "_schema" else str(key)
            found += _flatten(below, join(path, step))
        return found
    if isinstance(messages, list):
        return [entry for message in cast("list[object]", messages) for entry in _flatten(message, path)]
    return [Problem(path, str(messages), messages.remedy if isinstance(messages, _Text) else "")]


class _Field(Field[object]):
    """A field that is read by a function."""

    def __init__(self, function: Read, wire_name: str, *, required: bool) -> None:
        super().__init__(data_key=wire_name, required=required, error_messages={"required": "is missing"})  # pyright: ignore[reportUnknownMemberType] - marshmallow annotates it partly
        self.function = function

    def _deserialize(self, value: object, attr: str | None, data: object, **kwargs: object) -> object:
        """Take what `_read_directly` has found: read again, a mistake below many levels would be read 2^n times."""
        del attr, data, kwargs
        if isinstance(value, ValidationError):
            raise value
        return value


def wire_name(field: dataclasses.Field[object]) -> str:
    """Give a dataclass field's name in YAML and JSON."""
    name = field.metadata.get("name")
    if isinstance(name, str):
        return name
    first, *rest = field.name.split("_")
    return first + "".join(map(str.capitalize, rest))


@cache
def _reader(hashable: Hashable, unknown: Unknown) -> Read:
    """Derive the function that reads a mapping into a dataclass."""
    cls = cast("type[object]", hashable)
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"{cls!r} is no dataclass, so no schema can be derived from it")
    hints = get_type_hints(cls)
    members: dict[str, _Field] = {}
    elsewhere: set[str] = set()
    for field in dataclasses.fields(cls):
        if field.metadata.get("elsewhere"):
            elsewhere.add(wire_name(field))
            continue
        below = Unknown.REFUSE if unknown is Unknown.MARKED and field.metadata.get("strict") else unknown
        given = cast("Read | None", field.metadata.get("read"))
        function = _guarded(given) if given else _function(hints[field.name], below)
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        members[field.name] = _Field(function, wire_name(field), required=required)
    known = frozenset(str(member.data_key) for member in members.values()) | elsewhere
    steps = {str(member.data_key): (name, member.function) for name, member in members.items()}
    names = {name: key for key, (name, _) in steps.items()}
    needed = frozenset(name for name, member in members.items() if member.required)
    derive = cast("Callable[..., type[Schema]]", Schema.from_dict)  # pyright: ignore[reportUnknownMemberType] - as above
    schema = derive(members, name=cls.__name__)(unknown=EXCLUDE)

    def load(value: object) -> object:
        if not isinstance(value, Mapping):
            raise _wrong(f"{describe(value)} where a mapping is needed", "write `field: value` lines below it")
        data = {str(k): v for k, v in cast("Mapping[object, object]", value).items() if v is not None}
        surprises = data.keys() - known if unknown is Unknown.REFUSE else set[str]()
        arguments, mistakes = _read_directly(data, steps)
        if mistakes or not needed <= arguments.keys():
            try:
                schema.load({names[name]: found for name, found in arguments.items()} | mistakes)
            except ValidationError as error:
                if not surprises:
                    raise
                raise ValidationError({**_by_field(error), **_surprised(surprises, known)}) from None
        if surprises:
            raise ValidationError(_surprised(surprises, known))
        try:
            return cls(**arguments)
        except (SpecError, ValueError) as error:  # of its __post_init__
            raise _wrong(*str(error).split("; ", 1)) from None

    return load


def _read_directly(
    data: Mapping[str, object], steps: Mapping[str, tuple[str, Read]]
) -> tuple[dict[str, object], dict[str, object]]:
    """Read each field that is there: marshmallow would take four times as long to call the same functions.

    It is left to say all that is wrong or missing, and where.
    """
    arguments: dict[str, object] = {}
    mistakes: dict[str, object] = {}
    for key, value in data.items():
        if key in steps:
            name, function = steps[key]
            try:
                arguments[name] = function(value)
            except ValidationError as error:
                mistakes[key] = error
    return arguments, mistakes


def _by_field(error: ValidationError) -> dict[str, object]:
    return cast("dict[str, object]", _messages(error))


def _surprised(surprises: set[str], known: frozenset[str]) -> dict[str, list[str]]:
    messages: dict[str, list[str]] = {}
    for name in sorted(surprises):
        near = difflib.get_close_matches(name, known, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known)) or 'no field at all'}"
        messages[name] = [_Text.of("unknown field", remedy)]
    return messages


def _function(hint: object, unknown: Unknown) -> Read:
    """Give the function that reads a value of a type hint."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        (only,) = [argument for argument in arguments if argument is not types.NoneType]
        return _function(only, unknown)
    if origin is tuple:
        return _sequence(_function(arguments[0], unknown))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_function(arguments[1], unknown))
    if origin is Literal:
        return _choice({str(argument): argument for argument in arguments})
    if hint in _SCALARS:
        return _SCALARS[cast("type[object]", hint)]
    if isinstance(hint, type):
        if issubclass(hint, Enum):
            return _choice({str(member.value): member for member in hint})
        return _later(cast("Hashable", hint), unknown)
    raise TypeError(f"no schema can be derived for {hint!r}")


def _later(cls: Hashable, unknown: Unknown) -> Read:
    reader: list[Read] = []

    def load(value: object) -> object:
        if not reader:
            reader.append(_reader(cls, unknown))
        return reader[0](value)

    return load


def _guarded(function: Read) -> Read:
    def load(value: object) -> object:
        try:
            return function(value)
        except ValueError as error:
            raise _wrong(*str(error).split("; ", 1)) from None

    return load


def _sequence(item: Read) -> Read:
    def load(value: object) -> object:
        if not isinstance(value, (list, tuple)):
            raise _wrong(f"{describe(value)} where a list is needed", "write `- item` lines below it")
        found: list[object] = []
        errors: dict[int, object] = {}
        for index, entry in enumerate(cast("list[object]", value)):
            try:
                found.append(item(entry))
            except ValidationError as error:
                errors[index] = _messages(error)
        if errors:
            raise ValidationError(cast("dict[str, object]", errors))
        return tuple(found)

    return load


def _mapping(item: Read) -> Read:
    def load(value: object) -> object:
        if not isinstance(value, Mapping):
            raise _wrong(f"{describe(value)} where a mapping is needed", "write `key: value` lines below it")
        found: dict[str, object] = {}
        errors: dict[str, object] = {}
        for key, entry in cast("Mapping[object, object]", value).items():
            try:
                if entry is not None:
                    found[_text(key)] = item(entry)
            except ValidationError as error:
                errors[str(key)] = _messages(error)
        if errors:
            raise ValidationError(errors)
        return types.MappingProxyType(found)

    return load


def _choice(members: Mapping[str, object]) -> Read:
    def load(value: object) -> object:
        if not isinstance(value, str) or value not in members:
            raise _wrong(f"{describe(value)} is no choice here", f"write one of {', '.join(members)}")
        return members[value]

    return load


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(f"{describe(value)} where text is needed", "put it in quotes")
    return value


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(f"{describe(value)} where a whole number is needed", "write digits without quotes")
    return value


def _number(value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise _wrong(f"{describe(value)} where a number is needed", "write digits without quotes")
    return float(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(f"{describe(value)} where a boolean is needed", "write true or false, without quotes")
    return value


@lru_cache(maxsize=512)
def _parsed_quantity(text: str) -> Quantity:
    return Quantity.parse(text)


def _quantity(value: object) -> Quantity:
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise _wrong(f"{describe(value)} where a quantity is needed", "write an amount such as 64Mi or 500m")
    try:
        return _parsed_quantity(str(value))
    except ValueError as error:
        raise _wrong(*str(error).split("; ", 1)) from None


def _anything(value: object) -> object:
    return value


_SCALARS: Mapping[object, Read] = {
    str: _text,
    int: _integer,
    float: _number,
    bool: _boolean,
    bytes: _guarded(read_base64),
    Quantity: _quantity,
    object: _anything,
}
