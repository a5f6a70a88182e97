"""The page of each type with servers behind it names every field and every setting, with its default."""

from __future__ import annotations

import dataclasses
import re
from enum import Enum

import pytest
import yaml

from tests.docs.pages import ROOT, blocks, first_cells, spans, text_of
from volmgr.discovery import load

TYPES = ("nfs", "iscsi", "fc", "cephfs")


def manifest_name(field: dataclasses.Field[object]) -> str:
    return field.metadata.get("name") or re.sub(r"_(\w)", lambda found: found[1].upper(), field.name)


def rows(page: str) -> dict[str, str]:
    """Give the second cell of each row of three, by the first."""
    return {
        cells[0].strip("`"): cells[1]
        for line in page.splitlines()
        if len(cells := line.removeprefix("| ").removesuffix(" |").split(" | ")) == 3
    }


@pytest.mark.parametrize("name", TYPES)
def test_each_field_of_a_volume_is_on_the_page_of_its_type(name: str) -> None:
    (handled,) = load().types[f"kubernetes.io/{name}"].plugin.handles
    assert handled.source is not None
    named = {span for cell in first_cells(text_of(f"docs/{name}.md")) for span in spans(cell)}

    assert {manifest_name(field) for field in dataclasses.fields(handled.source)} - named == set()


@pytest.mark.parametrize("name", TYPES)
def test_each_setting_is_on_the_page_of_its_type_with_its_default(name: str) -> None:
    settings = load().types[f"kubernetes.io/{name}"].plugin.settings
    assert settings is not None
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    (shown,) = [yaml.safe_load(each.text) for each in blocks(ROOT / f"docs/{name}.md") if each.title == "config"]
    if name in {"iscsi", "fc"}:  # all of them, as they are anyway
        assert shown == {"plugins": {f"kubernetes.io/{name}": defaults}}
        return
    told = rows(text_of(f"docs/{name}.md").partition("\n## Options\n")[2].partition("\n## ")[0])
    words = {
        key: f"`{value}`" if isinstance(value, Enum) else str(value).lower().removesuffix(".0")
        for key, value in defaults.items()
    }
    assert {key: told.get(key) for key in words} == words
    assert set(shown["plugins"][f"kubernetes.io/{name}"]) <= set(defaults)
