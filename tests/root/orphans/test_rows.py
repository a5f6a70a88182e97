"""The rows of tests/flow/orphans on a real kernel."""

from pathlib import Path

import pytest

from tests.flow.orphans.rows import ROWS, Row
from tests.root.machine.real_site import RealSite


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_on_the_kernel(row: Row, tmp_path: Path) -> None:
    site = RealSite(tmp_path / "site")
    try:
        row(site)
    finally:
        site.close()
