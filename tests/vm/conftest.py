"""The lane: pytest runs in a guest that tests.vm boots, with servers of its own. Each test has a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.servers.node import VmNode

HERE = Path(__file__).parent
GUEST = Path("/vm/clone")
"""Only a guest of this lane has it."""
LIMIT = 300
"""Seconds that a test of the lane may take."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    own = [item for item in items if item.path.is_relative_to(HERE)]
    if own and not GUEST.exists():
        raise pytest.UsageError(
            "the tests of tests/vm mount, log in and load modules: they run in a guest; `make e2e-vm` runs all of them,"
            " `.venv/bin/python -m tests.vm tests/vm/AREA/test_FILE.py::TEST` one"
        )
    for item in own:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose name is short: the names of sockets below it may have 107 bytes."""
    return tmp_path_factory.mktemp("n")


@pytest.fixture
def node(top: Path) -> Iterator[VmNode]:
    """A running node; nothing may be left when the test has ended."""
    node = VmNode(top)
    try:
        with node:
            yield node
            for file in node.manifests.glob("*.json"):
                file.unlink()
            node.until_clean()
    finally:
        node.clear()
