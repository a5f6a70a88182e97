"""Each test of iSCSI begins with an empty target and an initiator without sessions, and ends with neither."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.iscsi.site import IQN, Site
from tests.vm.servers.iscsid import Iscsid
from tests.vm.servers.lio import Lio, Target
from tests.vm.servers.node import VmNode

SETTINGS = {"kubernetes.io/iscsi": {"login_timeout": 6, "repair_pause": 1.0, "device_timeout": 20.0}}
"""Portals that are silent cost little time, and are soon tried again."""


@pytest.fixture
def site() -> Iterator[Site]:
    """LIO and open-iscsi."""
    with Lio() as lio, Iscsid() as initiator:
        yield Site(lio, initiator)


@pytest.fixture
def target(site: Site) -> Target:
    """A target on two portals, with a disk as LUN 0."""
    target = site.lio.target(IQN, portals=("127.0.0.1", "127.0.0.2"))
    target.map(0, site.lio.backstore("first"))
    return target


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
