"""JSON is UTF-8, whatever names there are on disk."""

import json
from dataclasses import dataclass

from volmgr import plain_json


@dataclass(frozen=True)
class Report:
    path: str
    parts: tuple[str, ...] = ()


def test_a_name_that_is_no_utf_8_is_escaped_wherever_it_stands() -> None:
    found = json.loads(plain_json.encode({"a\udcff": [Report("/é/\udcff", ("\udc80", "plain"))], "number": 1}))
    assert found == {"a\\udcff": [{"path": "/é/\\udcff", "parts": ["\\udc80", "plain"]}], "number": 1}


def test_other_values_are_as_they_are() -> None:
    assert plain_json.encode(Report("/é\\udcff")) == '{"path":"/é\\\\udcff","parts":[]}'.encode()
