"""A cluster for the whole area, and a node of which each client is tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.cephfs.node import CephNode
from tests.vm.servers.ceph import Ceph
from tests.vm.servers.guest import load

LIMIT = 600
"""Seconds for a test: the first one waits for the cluster."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem != "test_contract":
            item.add_marker(pytest.mark.timeout(LIMIT), append=False)


@pytest.fixture(scope="session")
def ceph() -> Iterator[Ceph]:
    """A cluster, whose key for `admin` lies where a volume without a Secret looks for it."""
    load("fuse")
    with Ceph(users={"other": "/", "owner": "/own"}) as ceph:
        secret = Path("/etc/ceph/admin.secret")
        secret.touch(0o600)
        secret.write_text(f"{ceph.key}\n")
        yield ceph


@pytest.fixture(params=["kernel", pytest.param("fuse", marks=pytest.mark.slow)])
def client(request: pytest.FixtureRequest) -> str:
    """Who mounts. ceph-fuse takes three times as long here: what both do alike it shows with the slow tests."""
    return str(request.param)


@pytest.fixture
def node(top: Path, ceph: Ceph, client: str) -> Iterator[CephNode]:
    """A running node; nothing may be left when the test has ended."""
    node = CephNode(top, client)
    try:
        with node:
            yield node
            ceph.resume()
            for file in node.manifests.glob("*.json"):
                file.unlink()
            node.until_clean()
    finally:
        ceph.resume()
        node.clear()
