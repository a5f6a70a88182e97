"""`tests/SCENARIOS.md` names the test of each scenario and report that an issue demanded, and each of them is there."""

import ast
import re
from collections import Counter
from functools import cache

from tests.docs.pages import ROOT, links

PAGE = ROOT / "tests/SCENARIOS.md"

SCENARIOS = """
A1 A2 A4 A5 A7 A8 A9 A10 A12 A13 A15 A17 A18 A19 B21 B23 B24 B25 B27 B28 B29 B31 B32 B33 B35 B37 B38 B40 C41 C42 C43 C44
C45 C46 C48 C50 C52 C54 C55 C56 C57 C59 C61 D63 D64 D65 D66 D68 D69 D71 D72 D74 D76 D77 D78 D79 E81 E83 E84 E86 E87 E88
E89 F91 F92 F94 F96 F97 F99 F100 F101 G103 G105 G107 G108 G109 G110 G112 G114 G116 G118 G119 G120 H122 H124 H126 H127
H128 H130 H132 H134 H136 H137 I138 I140 I142 I144 I145 I146 J148 J150 J152 J154 J155 J156 J158 J160 J162 J163 J164 K166
K168 K170 L171 L173 L174 L175 L177 L179
"""
REPORTS = """
I01 I02 I04 I06 I07 I08 I09 I10 I11 I13 I15 I17 I18 I19 I21 I23 I24 I25 I27 I28 I29 I30 I31 I32 I33 I35 I37 I38 I40 I41
I42 I43 I44 I45 I46 I48 I49 I50 I52 I53 I55 I56 I57 I58 I60 I61 I63 I64 I66 I68 I69 I70 I72 I74 I75 I76 I78 I79 I80 I81
I82 I83 I84 I85 I86 I87 I88 I90 I91 I92 I93
"""
REPORTS_ON_CSI = """
I01 I09 I10 I11 I15 I19 I21 I23 I24 I25 I27 I30 I33 I40 I63 I64 I66 I76 I78 I79 I83 I84 I85 I88 I90 I91 I92
"""
"""Of these, some test has a driver of CSI."""
ALL_REPORTS = """
I01 I02 I04 I06 I07 I08 I09 I10 I11 I13 I15 I17 I18 I19 I21 I23 I24 I25 I27 I28 I29 I30 I31 I32 I33 I35 I36 I37 I38 I40
I41 I42 I43 I44 I45 I46 I48 I49 I50 I51 I52 I53 I55 I56 I57 I58 I60 I61 I63 I64 I66 I68 I69 I70 I72 I74 I75 I76 I78 I79
I80 I81 I82 I83 I84 I85 I86 I87 I88 I90 I91 I92 I93
"""


def rows(title: str) -> dict[str, list[str]]:
    """Give the cells of each row of the table below a title, by its id."""
    chapter = PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in chapter.splitlines() if line[:1] == "|"
    ]
    found = [row for row in cells if re.fullmatch(r"[A-Z]\d+", row[0])]
    doubled = [name for name, count in Counter(row[0] for row in found).items() if count > 1]
    assert doubled == []
    return {row[0]: row[1:] for row in found}


def cited_in(cell: str) -> list[tuple[str, str]]:
    """Give path and name of each test in a cell."""
    return [(path, name) for path, _, name in (text.partition("::") for text in re.findall(r"`([^`]+::\w+)`", cell))]


@cache
def names_in(path: str) -> frozenset[str]:
    """Give what pytest collects of a file; of others what stands in their table ROWS, or is measured."""
    tree = ast.parse((ROOT / path).read_text())
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    if path.startswith("tests/bench/"):
        return frozenset(functions)
    table = [node.value for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "ROWS"]
    listed = {node.id for value in table if value for node in ast.walk(value) if isinstance(node, ast.Name)}
    return frozenset(name for name in functions if name.startswith("test_") or name in listed)


def test_every_demanded_scenario_and_report_names_a_test() -> None:
    for title, demanded in (("Scenarios", SCENARIOS), ("Reports", REPORTS)):
        tested = {name for name, row in rows(title).items() if cited_in(row[1])}
        assert sorted(set(demanded.split()) - tested) == [], title


def test_every_report_on_csi_names_a_test_with_a_driver() -> None:
    reports = rows("Reports")
    tested = {name for name, row in reports.items() if any("csi/" in path for path, _ in cited_in(row[1]))}
    assert sorted(set(REPORTS_ON_CSI.split()) - tested) == []


def test_every_report_is_tested_or_left_to_an_issue() -> None:
    tested, later = rows("Reports"), rows("Reports that later issues test")
    assert sorted([*tested, *later]) == ALL_REPORTS.split()
    assert [name for name, row in later.items() if not re.match(r"9\b|none: ", row[1])] == []


def test_every_test_that_is_named_exists() -> None:
    named = cited_in(PAGE.read_text())
    assert len(named) > 100
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


def test_every_decision_that_is_named_exists() -> None:
    assert [link for link in links(PAGE) if not (PAGE.parent / link).is_file()] == []
