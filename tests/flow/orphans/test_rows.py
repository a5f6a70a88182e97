"""The rows on a host in memory."""

import pytest

from tests.flow.machine.sites import FakeSite
from tests.flow.orphans.rows import ROWS, Row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_in_memory(row: Row) -> None:
    row(FakeSite())
