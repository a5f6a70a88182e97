"""The lane: drivers that mount, on a real daemon. Each test has drivers and a node of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.csi.fault_driver.running import ThreadDriver, running_fault_driver
from tests.csi.node import QUICK, CsiNode, clear, loops_below, registry
from tests.csi.objects import driver_object
from tests.kube.cluster import Cluster

HERE = Path(__file__).parent
LIMIT = 180
"""Seconds that a test of the lane may take."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker("root")
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One control plane; each module that uses it has a namespace and a node of its own, and is of its xdist group."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def top(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory whose name is short: the names of sockets below it may have 107 bytes."""
    top = tmp_path_factory.mktemp("n")
    yield top
    clear(top)


@pytest.fixture
def driver(top: Path) -> Iterator[ThreadDriver]:
    """The fault driver, in a thread of the test: it outlives daemons that are killed."""
    with running_fault_driver(top / "driver", registration=registry(top) / "fault-reg.sock") as driver:
        yield driver


@pytest.fixture
def node(top: Path, driver: ThreadDriver) -> Iterator[CsiNode]:
    """A node with the fault driver; nothing may be left when the test has ended."""
    with CsiNode(top, **QUICK) as node:
        node.put("driver.json", driver_object(driver.name))
        node.until_registered(driver.name)
        yield node
        for file in node.manifests.glob("*.json"):
            file.unlink()
        node.until_clean()
    kept = [volume.id for volume in driver.volumes.all() if volume.staged or volume.published]
    assert (kept, loops_below(top)) == ([], [])
