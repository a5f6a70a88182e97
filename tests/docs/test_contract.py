"""The page on the contract names each promise of the suite, with the bug that its test names, and no other."""

from tests.docs.pages import ROOT
from volmgr.testing.contract import test_promises

PAGE = ROOT / "docs/plugins/contract.md"


def test_each_promise_is_explained_and_no_other() -> None:
    tables = PAGE.read_text().split("| promise | the bug behind it |\n|---|---|\n")[1:]
    rows = [line.strip("| ").split(" | ") for table in tables for line in table.split("\n\n")[0].splitlines()]

    assert dict(rows) == {
        name.removeprefix("test_").replace("_", " "): " ".join(
            (function.__doc__ or "").removeprefix("Prevents: ").split()
        )
        for name, function in vars(test_promises).items()
        if name.startswith("test_")
    }
    assert len(rows) == len(dict(rows))
