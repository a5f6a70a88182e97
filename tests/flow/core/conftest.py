"""A node with both probing types, ready to hear of Pods."""

import pytest

from tests.flow.core.probes import DISK_FACETS, Disk, Plain, Script
from volmgr.config import Config
from volmgr.model.volume import Facets
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def plain_script() -> Script:
    return Script(facets=Facets())


@pytest.fixture
def disk_script() -> Script:
    return Script(facets=DISK_FACETS)


@pytest.fixture
def config() -> Config:
    return Config()


@pytest.fixture
def node(host: FakeHost, plain_script: Script, disk_script: Script, config: Config) -> TestNode:
    """A node whose sources were read."""
    node = TestNode(host, plugins_of(Plain(plain_script), Disk(disk_script)), config)
    node.sources_ready()
    return node
