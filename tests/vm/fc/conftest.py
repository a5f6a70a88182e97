"""One fabric for the area, whose ports come and go slowly; each test begins and ends without LUNs, disks and maps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.fc.site import PLUGIN, Site
from tests.vm.servers.fibre_channel import STORAGE, FibreChannel
from tests.vm.servers.multipathd import Multipathd
from tests.vm.servers.node import VmNode

SETTINGS = {PLUGIN: {"disk_wait": 5.0, "map_wait": 20.0}}
"""The guest is emulated, and multipathd there slow; what does not come need not be waited for as long."""


@pytest.fixture(scope="session")
def _fabric() -> Iterator[FibreChannel]:
    with FibreChannel() as fabric:
        yield fabric


@pytest.fixture
def fabric(_fabric: FibreChannel) -> Iterator[FibreChannel]:
    """The fabric, with two ports of a storage that shows no LUN yet."""
    _fabric.until_remote_ports(2)
    yield _fabric
    for card in STORAGE:  # a test that failed may have left one cut off
        _fabric.reconnect(card)
    left = _fabric.disks()
    _fabric.forget_disks()
    for lun in _fabric.luns():
        _fabric.unmap(lun)
    assert left == ()


@pytest.fixture(scope="session")
def _multipathd() -> Iterator[Multipathd]:
    multipathd = Multipathd()
    yield multipathd
    multipathd.stop()


@pytest.fixture
def site(request: pytest.FixtureRequest, fabric: FibreChannel, _multipathd: Multipathd) -> Site:
    """The fabric and multipathd, which runs for tests that want `multipath` alone."""
    if "multipath" not in request.fixturenames:
        _multipathd.stop()
    return Site(fabric, _multipathd)


@pytest.fixture
def multipath(site: Site) -> Multipathd:
    """The node's multipathd, which runs; it takes some seconds to start, and is left to the next test."""
    site.multipathd.start()
    return site.multipathd


@pytest.fixture
def node(site: Site, top: Path) -> Iterator[VmNode]:
    """A running node; nothing may be left when the test has ended, of its volumes or in the kernel."""
    node = VmNode(top, plugins=SETTINGS)
    try:
        with node:
            yield node
            for file in node.manifests.glob("*.json"):
                file.unlink()
            site.until_nothing_is_left(node)
    finally:
        node.clear()
