"""Trees as deep as a container cares to make them: they cost the daemon no memory to speak of."""

import os
import tracemalloc
from pathlib import Path

import pytest

from volmgr.host.interface import Host

LEVELS = 3000
NAME = "d" * 200
LIMIT = 16 << 20
"""Bytes; the paths of all levels would be 900 MB."""


@pytest.fixture
def deep(host: Host) -> Path:
    top = host.paths.root / "volume"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(LEVELS):
        os.mkdir(NAME, dir_fd=here)
        below = os.open(NAME, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    return top


def test_a_very_deep_tree_is_given_away_and_removed_in_little_memory(host: Host, deep: Path) -> None:
    tracemalloc.start()
    try:
        host.ownership.apply(deep, 4711)
        host.files.remove_tree(deep)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not deep.exists()
    assert peak < LIMIT
