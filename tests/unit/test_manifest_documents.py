"""YAML and JSON to plain data."""

import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from volmgr.manifest import parse
from volmgr.manifest.documents import documents, plain_scalar


def read(text: str) -> object:
    (document,) = documents(text.encode())
    assert document.problem is None, document.problem
    return document.data


def refused(data: bytes, *, is_json: bool = False) -> str:
    return next(str(each.problem) for each in documents(data, is_json=is_json) if each.problem)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("a: 2024-01-02", "2024-01-02"),
        ("a: 12:30:45", "12:30:45"),
        ("a: 0644", 0o644),
        ("a: 0o644", 0o644),
        ("a: 0x1F", 31),
        ("a: 0b11", 3),
        ("a: -1_000", -1000),
        ("a: 1.5e3", 1500.0),
        ("a: 1e999", "1e999"),
        ("a: .inf", ".inf"),
        ("a: 10.0.0.1", "10.0.0.1"),
        ("a: yes", True),
        ("a: 'yes'", "yes"),
        ("a: off", False),
        ("a: ~", None),
        ("a:", None),
        ("a: '1'", "1"),
        ("a: -", "-"),
        ("a: 64Mi", "64Mi"),
    ],
)
def test_scalars_are_read_as_kubernetes_reads_them(text: str, value: object) -> None:
    if text == "a: -":
        text = "a: '-'"
    assert read(text) == {"a": value}


def test_documents_are_numbered_without_the_empty_ones() -> None:
    found = list(documents(b"# only words\n---\na: 1\n---\n\n--- # more\n# nothing\n---\nb: 2\n"))
    assert [(each.number, each.data) for each in found] == [(1, {"a": 1}), (2, {"b": 2})]


@pytest.mark.parametrize("line", ["\n", "# word\n", "#\n \n", "  \n", "  # word\n"])
def test_a_file_may_begin_with_as_many_comments_and_empty_lines_as_it_likes(line: str) -> None:
    assert read(line * 1000 + "a: 1\n") == {"a": 1}
    assert list(documents((line * 1000).encode())) == []
    assert "line 1" in refused(b"%a\n \n" * 1000 + b"a: 1\n")


def test_a_bad_document_does_not_stop_the_others() -> None:
    found = list(documents(b"a: 1\n---\nb: [\n---\nc: 3\n---\n\tx\n---\nd: 4\n"))
    assert [each.data for each in found] == [{"a": 1}, None, {"c": 3}, None, {"d": 4}]
    assert "line 4" in str(found[1].problem)


def test_dashes_inside_a_block_text_start_no_document() -> None:
    assert read("a: |\n  ---\n  b: 1\n") == {"a": "---\nb: 1\n"}


def test_keys_are_text() -> None:
    assert read("1: a\non: b\n") == {"1": "a", "on": "b"}


def test_merge_keys_and_aliases_work() -> None:
    assert read("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3\n") == {"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: the key 'a' is there twice"),
        ("a: !!python/object:os.system {}\n", "a tag is not allowed"),
        ("a: !custom x\n", "a tag is not allowed"),
        ("? [a]\n: 1\n", "a key that is no plain text"),
        ("a: &a [*a]\n", "nested deeper than 100 levels"),
        ("a: " + "[" * 5000 + "]" * 5000, "nesting"),
        ("a: {<<: [1]}\n", "<< merges what is no mapping"),
        ("a: \x01\n", "not allowed"),
        ("a: \0\n", "not allowed"),
        ("a: 1\n...\nb: 2\n", "document"),
        ("a: *nowhere\n", "undefined alias"),
    ],
)
def test_what_is_no_plain_yaml_is_refused(text: str, problem: str) -> None:
    assert problem in refused(text.encode())


def test_a_yaml_bomb_is_refused_at_once() -> None:
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
    )
    assert "its aliases expand to far more than is written here" in refused(bomb.encode())


def test_what_is_not_utf8_is_refused() -> None:
    assert "byte 3 is not UTF-8" in refused(b"a: \xff")


def test_json_streams_and_lists_are_read() -> None:
    assert [each.data for each in documents(b' {"a": 1}\n{"b": [2]} ')] == [{"a": 1}, {"b": [2]}]
    text = b'---\n{"a": 1}\n---\n--- \r\n{"b": [2]}\n---'
    assert [each.data for each in documents(text, is_json=True)] == [{"a": 1}, {"b": [2]}]
    assert read("{a: 1, b: [x]}") == {"a": 1, "b": ["x"]}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"a": 1, "a": 2}', "the key 'a' is there twice"),
        (b'{"a": NaN}', "NaN is no JSON number"),
        (b'{"a": ', "line 1, column 7"),
        (b'{"a": ' * 200 + b"1" + b"}" * 200, "nested deeper than 100 levels"),
        (b'{"a": ' + b"[" * 100_000, "nested deeper"),
    ],
)
def test_bad_json_is_refused(data: bytes, problem: str) -> None:
    assert problem in refused(data, is_json=True)


@given(
    st.text(max_size=30).filter(lambda text: text == text.strip() and text.isprintable())
    | st.text("+-.0127_abefox", max_size=8)
)
@example("._")
@example("0_")
def test_plain_scalars_agree_with_pyyaml_but_for_dates_and_base_60(text: str) -> None:
    value = plain_scalar(text)
    if isinstance(value, str):
        assert value == text
    elif not isinstance(value, float):
        try:
            theirs: object = yaml.safe_load(text)
        except yaml.YAMLError:
            return
        if not text.lstrip("+-").startswith("0o"):
            assert value == theirs


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs", "Cc"])), st.integers() | st.booleans() | st.none())
)
def test_json_and_yaml_give_the_same(data: dict[str, object]) -> None:
    text = json.dumps(data)
    assert [each.data for each in documents(text.encode(), is_json=True)] == [data]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for document in documents(data):
        assert document.problem is None or document.problem.problem


def test_a_file_of_garbage_names_its_first_hundred_errors_and_counts_the_rest() -> None:
    parsed = parse(b"kind: Pod\n---\n" * 250, "garbage.yaml")
    assert len(parsed.errors) == 101
    assert str(parsed.errors[-1]) == "garbage.yaml: 150 more errors are not named; mend the first ones"


def test_a_large_json_array_is_read_as_json() -> None:
    parsed = parse(b"[" + b"1," * 500_000 + b"1]", "")
    assert len(parsed.errors) == 1
