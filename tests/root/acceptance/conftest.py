from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.root.acceptance.outside import Outside


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Outside]:
    with Outside(tmp_path) as node:
        yield node
