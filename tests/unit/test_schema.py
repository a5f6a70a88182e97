"""Schemas derived from dataclasses."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volmgr.errors import SpecError
from volmgr.model.quantity import Quantity
from volmgr.model.schema import Problem, SchemaError, Unknown, load, typed_source


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    some_name: str
    read_only: bool = False
    at: int | None = None


def even(value: object) -> int:
    if not isinstance(value, int) or value % 2:
        raise ValueError("not even; write 2")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    leaves: tuple[Leaf, ...] = ()
    strict_leaf: Leaf | None = field(default=None, metadata={"strict": True})
    target_wwns: tuple[str, ...] = field(default=(), metadata={"name": "targetWWNs"})
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    sizes: Mapping[str, Quantity] = field(default_factory=dict[str, Quantity])
    data: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    color: Color = Color.RED
    policy: Literal["Always", "Never"] = "Always"
    ratio: float = 1.0
    anything: Mapping[str, object] = field(default_factory=dict[str, object])
    even: int = field(default=0, metadata={"read": even})
    other: str = field(default="", metadata={"elsewhere": True})


@dataclass(frozen=True, slots=True)
class Range:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high; swap them")


def problems(data: object, unknown: Unknown = Unknown.REFUSE) -> list[str]:
    with pytest.raises(SchemaError) as caught:
        load(Tree, data, unknown=unknown)
    return [str(problem) for problem in caught.value.problems]


def test_every_kind_of_field_is_read() -> None:
    tree = load(
        Tree,
        {
            "leaves": [{"someName": "a", "readOnly": True, "at": 3}],
            "targetWWNs": ["1", "2"],
            "labels": {"a": "b"},
            "sizes": {"storage": "1Gi", "count": 3},
            "data": {"key": base64.b64encode(b"\0\1").decode()},
            "color": "blue",
            "policy": "Never",
            "ratio": 2,
            "anything": {"a": [1, {"b": None}]},
            "even": 4,
            "other": {"read": "by other code"},
        },
    )
    assert tree == Tree(
        leaves=(Leaf(some_name="a", read_only=True, at=3),),
        target_wwns=("1", "2"),
        labels={"a": "b"},
        sizes={"storage": Quantity.parse("1Gi"), "count": Quantity.of(3)},
        data={"key": b"\0\1"},
        color=Color.BLUE,
        policy="Never",
        ratio=2.0,
        anything={"a": [1, {"b": None}]},
        even=4,
    )


WRONG: list[tuple[object, str]] = [
    (
        {"leaves": [{"someName": "a", "readOnly": "yes"}]},
        "leaves[0].readOnly: the text 'yes' where a boolean is needed",
    ),
    ({"leaves": [{"someName": "a", "at": "1"}]}, "leaves[0].at: the text '1' where a whole number is needed"),
    ({"leaves": [{"someName": "a", "at": True}]}, "leaves[0].at: the boolean true where a whole number is needed"),
    ({"leaves": [{"someName": True}]}, "leaves[0].someName: the boolean true where text is needed"),
    ({"leaves": [{"someName": 5}]}, "leaves[0].someName: the number 5 where text is needed"),
    ({"leaves": [{}]}, "leaves[0].someName: is missing"),
    ({"leaves": {}}, "leaves: a mapping where a list is needed"),
    ({"leaves": [[]]}, "leaves[0]: a list where a mapping is needed"),
    ({"labels": {"a": 1}}, "labels.a: the number 1 where text is needed"),
    ({"sizes": {"a": "1Q"}}, "sizes.a: '1Q' is not a quantity"),
    ({"sizes": {"a": True}}, "sizes.a: the boolean true where a quantity is needed"),
    ({"data": {"a": "?"}}, "data.a: not base64 text"),
    ({"color": "green"}, "color: the text 'green' is no choice here; write one of red, blue"),
    ({"policy": "Sometimes"}, "policy: the text 'Sometimes' is no choice here; write one of Always, Never"),
    ({"ratio": "1"}, "ratio: the text '1' where a number is needed"),
    ({"even": 3}, "even: not even; write 2"),
    ({"colour": "red"}, "colour: unknown field; did you mean color?"),
    ([], "a list where a mapping is needed"),
    ("text", "the text 'text' where a mapping is needed"),
]


@pytest.mark.parametrize(("data", "problem"), WRONG)
def test_what_does_not_fit_is_named_with_its_path(data: object, problem: str) -> None:
    (found,) = problems(data)
    assert found.startswith(problem)


def test_every_problem_is_told_at_once() -> None:
    found = problems({"leaves": [{"someName": 1}, {"someName": "b", "at": "x"}], "colour": 1, "ratio": "x"})
    assert [problem.split(":")[0] for problem in found] == ["leaves[0].someName", "leaves[1].at", "ratio", "colour"]


def test_null_is_absent() -> None:
    assert load(Tree, {"leaves": None, "color": None, "labels": {"a": None}, "nonsense": None}) == Tree()


def test_unknown_fields_are_let_through_or_refused_per_position() -> None:
    data = {"colour": 1, "leaves": [{"someName": "a", "x": 1}], "strictLeaf": {"someName": "a", "readonly": True}}
    assert load(Tree, data, unknown=Unknown.ALLOW).leaves == (Leaf(some_name="a"),)
    assert problems(data, Unknown.MARKED) == ["strictLeaf.readonly: unknown field; did you mean readOnly?"]
    assert len(problems(data, Unknown.REFUSE)) == 3


def test_what_a_dataclass_refuses_itself_is_a_problem_too() -> None:
    with pytest.raises(SchemaError, match=r"^at: low is above high; swap them$"):
        load(Range, {"low": 2, "high": 1}, path="at")


def test_only_dataclasses_have_schemas() -> None:
    @dataclass(frozen=True)
    class Odd:
        value: complex

    with pytest.raises(TypeError, match="no dataclass"):
        load(Odd, {"value": {}})


def test_typed_sources_are_built_once_per_content() -> None:
    first = typed_source(Leaf, {"someName": "a", "at": 1})
    assert typed_source(Leaf, {"at": 1, "someName": "a"}) is first
    assert typed_source(Leaf, {"someName": "a", "at": 1, "new": 2}, unknown=Unknown.ALLOW) == first
    with pytest.raises(SpecError, match="someNam: unknown field"):
        typed_source(Leaf, {"someNam": "a"})


def test_secret_bytes_are_never_repeated() -> None:
    (found,) = problems({"data": {"key": "hunter2!"}})
    assert "hunter2" not in found
    (found,) = problems({"data": {"key": 12345}})
    assert "12345" not in found


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["leaves", "strictLeaf", "targetWWNs", "labels", "sizes", "data", "color", "policy", "ratio", "anything", "even"]
)


@given(st.dictionaries(FIELDS, PLAIN), st.sampled_from(Unknown))
def test_any_data_is_read_or_refused_with_paths(data: Mapping[str, object], unknown: Unknown) -> None:
    found: tuple[Problem, ...] = ()
    try:
        load(Tree, data, unknown=unknown)
    except SchemaError as error:
        found = error.problems or (Problem("", ""),)
    assert all(problem.problem for problem in found)


@given(st.text(), st.booleans(), st.none() | st.integers())
def test_what_was_written_is_read_back(name: str, read_only: bool, at: int | None) -> None:
    leaf = load(Leaf, {"someName": name, "readOnly": read_only, "at": at})
    assert leaf == Leaf(some_name=name, read_only=read_only, at=at)


def test_problems_join_their_paths() -> None:
    assert Problem("[0].x", "p").below("a.b").field == "a.b[0].x"
    assert Problem("", "p", "r").below("a").field == "a"
    assert str(Problem("a", "p", "r")) == "a: p; r"


READ: list[object] = []


def noted(value: object) -> int:
    READ.append(value)
    return even(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    below: "Chain | None" = None
    link: int = field(default=0, metadata={"read": noted})


def test_a_mistake_below_many_levels_is_read_once() -> None:
    document: dict[str, object] = {"link": 1}
    for _ in range(20):
        document = {"below": document, "link": 2}
    READ.clear()
    with pytest.raises(SchemaError) as caught:
        load(Chain, document)
    assert [problem.field for problem in caught.value.problems] == ["below." * 20 + "link"]
    assert READ.count(1) == 1


def test_every_mistake_of_a_mapping_is_named_beside_what_is_missing_and_unknown() -> None:
    with pytest.raises(SchemaError) as caught:
        load(Leaf, {"readOnly": "yes", "at": "1", "sumeName": "x"})
    assert {problem.field for problem in caught.value.problems} == {"readOnly", "at", "someName", "sumeName"}
