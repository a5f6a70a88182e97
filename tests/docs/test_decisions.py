"""Each decision has a number, a context, a decision and a consequence."""

import re

from tests.docs.pages import ROOT

PAGES = sorted((ROOT / "docs/decisions").glob("*.md"))


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(page.name[:4]) for page in PAGES] == list(range(1, len(PAGES) + 1))


def test_each_decision_says_its_context_and_its_consequence() -> None:
    for page in PAGES:
        text = page.read_text()
        assert text.startswith(f"# {int(page.name[:4])}. ")
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequence"], page.name


def test_what_a_decision_points_at_in_the_code_is_there() -> None:
    pointed = [
        (name, file)
        for page in PAGES
        for names, file in re.findall(r"((?:`[\w.]+` (?:and )?)+)in\s`(core/[\w/.]+)`", page.read_text())
        for name in re.findall(r"[\w.]+(?=`)", names)
    ]
    assert len(pointed) > 5
    for name, file in pointed:
        assert name.rpartition(".")[2] in (ROOT / file).read_text(), f"{name} in {file}"
