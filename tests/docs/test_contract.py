"""The page on the contract names each promise of the suite, with the bug that its test names, and no other."""

import re
from pathlib import Path

import volmgr.testing
from tests.docs.pages import ROOT, first_cells
from volmgr.testing.contract.promises import promises

PAGE = ROOT / "docs/plugins/contract.md"


def test_each_promise_is_explained_and_no_other() -> None:
    tables = PAGE.read_text().split("| promise | the bug behind it |\n|---|---|\n")[1:]
    rows = [line.strip("| ").split(" | ") for table in tables for line in table.split("\n\n")[0].splitlines()]

    assert dict(rows) == {
        name.replace("_", " "): " ".join((function.__doc__ or "").removeprefix("Prevents: ").split())
        for name, function in promises().items()
    }
    assert len(rows) == len(dict(rows))


def test_each_option_is_explained_and_no_other() -> None:
    source = (Path(volmgr.testing.__file__).parent / "pytest_options.py").read_text()
    listed = {option for cell in first_cells(PAGE.read_text()) for option in re.findall(r"--volmgr-\w+", cell)}

    assert listed == set(re.findall(r'addoption\("(--volmgr-\w+)"', source))
