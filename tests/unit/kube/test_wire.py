"""Pages, events and refusals, read from bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kube.scripted_server import bookmark, event_line, list_of, pod, status_of
from volmgr.kube.resources import PODS
from volmgr.kube.wire import EventKind, Lines, read_event, read_page, read_refusal

LINES = st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line), max_size=8)


@given(LINES, st.data())
def test_lines_are_the_same_however_the_stream_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    parts = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    reader = Lines(limit=20)

    assert [line for part in parts for line in reader.feed(part)] == lines


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_that_is_too_long_is_refused_before_all_of_it_is_kept(size: int) -> None:
    reader = Lines(limit=10)
    stream = b"0123456789\n0123456789a"
    parts = [stream[begin : begin + size] for begin in range(0, len(stream), size)]

    with pytest.raises(ValueError, match="more than 10 bytes"):
        [line for part in parts for line in reader.feed(part)]


def test_a_page_gives_who_its_objects_are_and_their_json() -> None:
    body = list_of(pod("a", 3, spec={"x": 1}), pod("b", 4), version=9, further="more")
    page = read_page(json.dumps(body).encode(), PODS)

    assert (page.version, page.further) == ("9", "more")
    assert [(each.namespace, each.name, each.uid, each.version) for each in page.seen] == [
        ("default", "a", "uid-a", "3"),
        ("default", "b", "uid-b", "4"),
    ]
    assert json.loads(page.seen[0].raw)["spec"] == {"x": 1}


def test_a_list_of_nothing_is_empty() -> None:
    body = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":null}'
    assert read_page(body, PODS).seen == ()


def test_what_an_object_holds_is_not_shown_where_it_is_printed() -> None:
    seen = read_event(event_line("ADDED", pod("a", 3, data={"password": "aHVzaA=="}))).seen

    assert "aHVzaA" not in repr(seen)


def test_a_bookmark_has_nothing_but_a_version() -> None:
    event = read_event(event_line("BOOKMARK", bookmark(12)))

    assert (event.kind, event.seen.version, event.seen.name) == (EventKind.BOOKMARK, "12", "")


def test_an_error_event_is_a_refusal() -> None:
    event = read_event(event_line("ERROR", status_of(410, "Expired", "too old resource version: 1 (9)")))

    assert event.refusal is not None
    assert (event.refusal.code, event.refusal.reason) == (410, "Expired")


@pytest.mark.parametrize(
    "line",
    [b"garbage", b"{}", b'{"type":"ADDED"}', b'{"type":"NEW","object":{}}', b"[]", b'{"type":"ADDED","object":3}'],
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_event(line)


def test_a_refusal_that_is_no_status_is_quoted_and_cut() -> None:
    refusal = read_refusal(502, {"retry-after": "7"}, b"<html>\n  Bad   Gateway</html>" + b"x" * 1000)

    assert refusal.message.startswith("<html> Bad Gateway</html>xxx")
    assert len(refusal.message) == 200
    assert refusal.retry_after == 7


def test_the_status_may_say_how_long_to_wait_too() -> None:
    body = {**status_of(429, "TooManyRequests", "slow down"), "details": {"retryAfterSeconds": 3}}

    assert read_refusal(429, {}, json.dumps(body).encode()).retry_after == 3
