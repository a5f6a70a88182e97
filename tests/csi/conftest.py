"""The lane: drivers that mount, on a real daemon. Each test has drivers and a node of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIMIT = 180
"""Seconds that a test of the lane may take."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("root")
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose name is short: the names of sockets below it may have 107 bytes."""
    return tmp_path_factory.mktemp("n")
