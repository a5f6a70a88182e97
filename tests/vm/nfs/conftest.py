"""Two servers for the whole area: the kernel's, which lives, and ganesha, which can be paused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.nfs.node import NfsNode
from tests.vm.servers.nfs import Ganesha, KernelNfs


@pytest.fixture(scope="session")
def server() -> Iterator[KernelNfs]:
    """The kernel's server."""
    with KernelNfs() as server:
        yield server


@pytest.fixture(scope="session")
def _ganesha() -> Iterator[Ganesha]:
    with Ganesha(Path("/srv/ganesha"), "a", "b") as ganesha:
        yield ganesha


@pytest.fixture
def ganesha(_ganesha: Ganesha) -> Iterator[Ganesha]:
    """A server of its own, that answers again when the test has ended."""
    _ganesha.start()
    try:
        yield _ganesha
    finally:
        _ganesha.resume()


@pytest.fixture
def node(top: Path) -> Iterator[NfsNode]:
    """A running node that waits for dead servers for a short time; nothing may be left when the test has ended."""
    node = NfsNode(top)
    try:
        with node:
            yield node
            for file in node.manifests.glob("*.json"):
                file.unlink()
            node.until_clean()
    finally:
        node.clear()
