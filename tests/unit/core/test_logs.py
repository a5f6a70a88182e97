"""What a line of the log looks like."""

from __future__ import annotations

import logging
import sys

import pytest

from volmgr.logs import TextFormatter

FORMAT = "%(levelname)s %(name)s: %(message)s"


def line(message: str, **extra: str) -> str:
    record = logging.LogRecord("volmgr.test", logging.WARNING, __file__, 1, message, (), None)
    vars(record).update(extra)
    return TextFormatter(FORMAT).format(record)


@pytest.mark.parametrize(
    ("message", "volume", "expected"),
    [
        ("mounted", "csi^disk", "WARNING volmgr.test: mounted [volume=csi^disk]"),
        ("mounted", "", "WARNING volmgr.test: mounted"),
        ("köln 日本", "", "WARNING volmgr.test: köln 日本"),
        ("clear \x1b[2J\x9b31m", "", "WARNING volmgr.test: clear \\x1b[2J\\x9b31m"),
        ("turn \u202e round \udcff", "", "WARNING volmgr.test: turn \\u202e round \\udcff"),
        ("one\nINFO two", "a\nINFO b", "WARNING volmgr.test: one\n    INFO two [volume=a\n    INFO b]"),
    ],
)
def test_a_line_is_text_alone_and_forges_no_other(message: str, volume: str, expected: str) -> None:
    assert line(message, volume=volume) == expected


def test_a_traceback_follows_the_line() -> None:
    try:
        raise ValueError("odd")
    except ValueError:
        record = logging.LogRecord("volmgr.test", logging.ERROR, __file__, 1, "a bug", (), sys.exc_info())
    first, second, *_, last = TextFormatter(FORMAT).format(record).splitlines()
    assert (first, second, last) == (
        "ERROR volmgr.test: a bug",
        "Traceback (most recent call last):",
        "ValueError: odd",
    )
