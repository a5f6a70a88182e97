"""One target server, initiator and daemon for the area, which are slow to start; each test finds them empty.

A test that leaves anything behind fails, and the next one has another daemon.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.vm.iscsi.site import IQN, Site
from tests.vm.servers.iscsid import Iscsid
from tests.vm.servers.lio import Lio, Target
from tests.vm.servers.node import VmNode

SETTINGS = {"kubernetes.io/iscsi": {"login_timeout": 6, "repair_pause": 1.0, "device_timeout": 20.0}}
"""Portals that are silent cost little time, and are soon tried again."""


@pytest.fixture(scope="session")
def _site() -> Iterator[Site]:
    with Lio() as lio, Iscsid() as initiator:
        yield Site(lio, initiator)


@pytest.fixture
def site(_site: Site) -> Iterator[Site]:
    """LIO and open-iscsi, which have nothing."""
    yield _site
    _site.clear()


@pytest.fixture
def target(site: Site) -> Target:
    """A target on two portals, with a disk as LUN 0."""
    target = site.lio.target(IQN, portals=("127.0.0.1", "127.0.0.2"))
    target.map(0, site.lio.backstore("first"))
    return target


@pytest.fixture(scope="session")
def _nodes() -> Iterator[list[VmNode]]:
    """The daemon that runs, or none."""
    nodes: list[VmNode] = []
    yield nodes
    for node in nodes:
        node.__exit__(None, None, None)


@pytest.fixture
def node(site: Site, _nodes: list[VmNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[VmNode]:
    """A running node; nothing may be left when the test has ended, of its volumes or in the kernel."""
    if not _nodes:
        started = VmNode(tmp_path_factory.mktemp("n"), plugins=SETTINGS)
        started.start()
        _nodes.append(started)
    (node,) = _nodes
    os.truncate(node.log, 0)  # what a test says of it is not of another's
    yield node
    _nodes.clear()
    try:
        for file in node.manifests.glob("*.json"):
            file.unlink()
        site.until_nothing_is_left(node)
    except BaseException:
        node.kill()
        node.clear()
        raise
    _nodes.append(node)
