"""kubelet's own volume manager, built once, and a site for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import kubelet
from tests.takeover.site import MountTable, Site


@pytest.fixture(scope="session")
def program() -> Path:
    built = kubelet.program()
    assert built is not None, "these tests need Go 1.26, which builds kubelet's volume manager: see tests/bench/kubelet"
    return built


@pytest.fixture
def site(tmp_path: Path, program: Path) -> Iterator[Site]:
    site = Site(tmp_path, program)
    try:
        yield site
    finally:
        site.close()


@pytest.fixture
def table() -> Iterator[MountTable]:
    table = MountTable()
    yield table
    table.close()
