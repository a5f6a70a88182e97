"""Bytes to plain data: the YAML and JSON documents of one file, each on its own. Pure.

Scalars are read as Kubernetes reads them (YAML 1.1 booleans and octal numbers), but timestamps and base-60 numbers
stay text. Duplicate keys, tags and documents that expand to more nodes than they have bytes are errors.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import cast

import yaml

from volmgr.model.schema import Problem

DEEPEST = 100
"""Levels of nesting; no Kubernetes object comes near."""

FEWEST_NODES = 10_000
"""Nodes that even the shortest document may expand to; beyond, each needs a byte of the document."""

_START = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_SEPARATORS = re.compile(r"(?:[ \t\r\n]+|^---(?=[ \t\r\n]|\Z))+", re.MULTILINE)
_CONTENT = re.compile(r"^[^\S\n]*[^\s%#]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its number from 1, and either its data or what is wrong with it."""

    number: int
    data: object = None
    problem: Problem | None = None


def documents(data: bytes, *, is_json: bool = False) -> Iterator[Document]:
    """Give the documents of a file in order; empty ones are left out."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Document(1, problem=Problem("", f"byte {error.start} is not UTF-8", "save the file as UTF-8 text"))
        return
    if is_json or text.lstrip()[:1] in {"{", "["}:
        found = list(_json_documents(text))
        if is_json or not any(document.problem for document in found):
            yield from found
            return  # else it may be YAML in braces
    yield from _yaml_documents(text)


def _json_documents(text: str) -> Iterator[Document]:
    decoder = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_no_constant)
    number, position = 0, _skip_separators(text, 0)
    while position < len(text):
        number += 1
        try:
            value, position = decoder.raw_decode(text, position)
            _check_depth(value, 0)
        except json.JSONDecodeError as error:
            problem = f"line {error.lineno}, column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}"
            yield Document(number, problem=Problem("", problem, "write valid JSON"))
            return
        except RecursionError:
            yield Document(number, problem=_too_deep())
            return
        except ValueError as error:
            yield Document(number, problem=Problem("", str(error), "write valid JSON"))
            return
        yield Document(number, value)
        position = _skip_separators(text, position)


def _skip_separators(text: str, position: int) -> int:
    """Skip white space, and the lines `---` that YAML has between documents: many write them between JSON, too."""
    found = _SEPARATORS.match(text, position)
    return found.end() if found else position


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:60]!r} is there twice")
    return found


def _no_constant(text: str) -> object:
    raise ValueError(f"{text} is no JSON number")


def _check_depth(value: object, depth: int) -> None:
    if depth > DEEPEST:
        raise RecursionError
    if isinstance(value, dict):
        for entry in cast("dict[str, object]", value).values():
            _check_depth(entry, depth + 1)
    elif isinstance(value, list):
        for entry in cast("list[object]", value):
            _check_depth(entry, depth + 1)


def _too_deep() -> Problem:
    return Problem("", f"nested deeper than {DEEPEST} levels", "no Kubernetes object is; check its aliases")


def _yaml_documents(text: str) -> Iterator[Document]:
    number = 0
    starts = [match.start() for match in _START.finditer(text)]
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        chunk = text[start:end]
        if not _CONTENT.search(chunk):  # only comments and directives
            continue
        line = text.count("\n", 0, start)
        try:
            value = _load(chunk)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f"line {mark.line + 1 + line}: " if mark else ""
            problem = f"{place}{error.problem or error.context or 'not YAML'}"
            document = Document(
                number + 1, problem=Problem("", problem, "write valid YAML; check the indentation there")
            )
        except yaml.YAMLError as error:
            problem = str(error).replace("\n", " ")[:200]
            document = Document(number + 1, problem=Problem("", problem, "write valid YAML"))
        except _Unfit as error:
            problem = f"line {error.line + 1 + line}: {error.problem}"
            document = Document(number + 1, problem=Problem("", problem, error.remedy))
        except RecursionError:
            document = Document(number + 1, problem=_too_deep())
        else:
            if value is None:
                continue
            document = Document(number + 1, value)
        number += 1
        yield document


class _Unfit(Exception):
    """A node that no manifest has; never leaves this module."""

    def __init__(self, node: yaml.Node, problem: str, remedy: str) -> None:
        self.line: int = node.start_mark.line
        self.problem = problem
        self.remedy = remedy
        super().__init__(problem)


_PLAIN = "plain"
_QUOTED = "tag:yaml.org,2002:str"
_MAPPING = "tag:yaml.org,2002:map"
_SEQUENCE = "tag:yaml.org,2002:seq"


class _Composer(yaml.CSafeLoader):
    """Composes nodes and leaves their scalars alone: resolving them by first character is five times quicker."""

    def descend_resolver(self, current_node: object, current_index: object) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass

    def resolve(self, kind: type[yaml.Node], value: object, implicit: object) -> str:
        del value
        if kind is yaml.ScalarNode:
            return _PLAIN if cast("tuple[bool, bool]", implicit)[0] else _QUOTED
        return _MAPPING if kind is yaml.MappingNode else _SEQUENCE


def _load(chunk: str) -> object:
    composer = _Composer(chunk)
    try:
        node = composer.get_single_node()
    finally:
        composer.dispose()
    return _Builder(max(len(chunk), FEWEST_NODES)).value(node, 0) if node is not None else None


class _Builder:
    """Turns nodes into data, counting them: an alias counts as what it stands for."""

    def __init__(self, limit: int) -> None:
        self._left = limit

    def value(self, node: yaml.Node, depth: int) -> object:
        self._left -= 1
        if self._left < 0:
            raise _Unfit(node, "its aliases expand to far more than is written here", "write out what you need")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if depth > DEEPEST:
            raise RecursionError
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, depth)
        return self._sequence(cast("yaml.SequenceNode", node), depth)

    def _scalar(self, node: yaml.ScalarNode) -> object:
        text = cast("str", node.value)
        if node.tag == _PLAIN:
            return plain_scalar(text)
        if node.tag == _QUOTED:
            return text
        raise _tagged(node)

    def _sequence(self, node: yaml.SequenceNode, depth: int) -> list[object]:
        if node.tag != _SEQUENCE:
            raise _tagged(node)
        return [self.value(entry, depth + 1) for entry in node.value]

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, object]:
        if node.tag != _MAPPING:
            raise _tagged(node)
        found: dict[str, object] = {}
        merged: dict[str, object] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Unfit(key_node, "a key that is no plain text", "write `key: value`")
            key = cast("str", key_node.value)
            value = self.value(value_node, depth + 1)
            if key == "<<" and key_node.tag == _PLAIN:
                for source in cast("list[object]", value) if isinstance(value, list) else [value]:
                    if not isinstance(source, dict):
                        raise _Unfit(value_node, "<< merges what is no mapping", "merge an alias of a mapping")
                    merged = {**cast("dict[str, object]", source), **merged}
            elif key in found:
                raise _Unfit(key_node, f"the key {key[:60]!r} is there twice", "remove one of them")
            else:
                found[key] = value
        return {**merged, **found} if merged else found


def _tagged(node: yaml.Node) -> _Unfit:
    # Not its name: a password that begins with ! and has no quotes is read as one.
    return _Unfit(node, "a tag is not allowed", "write plain YAML; text that begins with ! needs quotes")


_WORDS: dict[Hashable, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]{0,30})", re.ASCII)
_OTHER_BASE = re.compile(r"[-+]?0(b[01_]{1,99}|o?[0-7_]{1,40}|x[0-9a-fA-F_]{1,40})", re.ASCII)
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]{0,40}(\.[0-9_]{0,40})?|\.[0-9][0-9_]{0,40})([eE][-+]?[0-9]{1,3})?", re.ASCII)


def plain_scalar(text: str) -> str | int | float | bool | None:
    """Read a scalar written without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789+-.":
        return text
    digits = text.replace("_", "")
    if _DECIMAL.fullmatch(text):
        return int(digits)
    if _OTHER_BASE.fullmatch(text) and digits[-1] not in "box":
        return int(digits, {"b": 2, "x": 16}.get(digits.lstrip("+-")[1:2], 8))
    if _FLOAT.fullmatch(text) and not math.isinf(number := float(digits)):
        return number
    return text
