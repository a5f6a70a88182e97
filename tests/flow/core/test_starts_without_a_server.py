"""A start while the API server does not answer: what is on record stands, until it is known that nobody uses it."""

from __future__ import annotations

import pytest

from tests.flow.core.probes import Plain, Script, config_map, needs, plain
from volmgr.config import Config
from volmgr.host.paths import Paths
from volmgr.messages import DriverAppeared
from volmgr.model.meta import ObjectRef
from volmgr.report.pods import status
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr.volume_type import Origin
from volmgr_configmap.plugin import ConfigMapVolume

KUBERNETES = "kubernetes"
SETTINGS = ObjectRef("ConfigMap", "default", "settings")
WEB = pod("web", plain("data"), uid="u1")


@pytest.fixture
def config() -> Config:
    return Config(bind_claims=False)


@pytest.fixture
def node(host: FakeHost, plain_script: Script, config: Config) -> TestNode:
    """A node that has mounted a volume with a ConfigMap, and that has now started without a server."""
    plain_script.references = needs("settings")
    node = TestNode(host, plugins_of(Plain(plain_script)), config, sources=(KUBERNETES,), fetched_kinds=("ConfigMap",))
    node.sources_ready()
    node.serve(config_map("settings", a="1"), WEB)
    node.advance(1)
    assert node.is_mounted("web")
    node.start()
    node.settle()
    return node


def recorded(paths: Paths, host: FakeHost) -> list[str]:
    return [name for name in host.files.names(paths.state / "objects") if "settings" in name]


def test_an_object_that_only_a_type_knows_to_be_needed_waits_for_that_type(
    host: FakeHost, plain_script: Script, config: Config
) -> None:
    plain_script.references = needs("settings")
    types = plugins_of(Plain(plain_script), ConfigMapVolume())
    node = TestNode(host, types, config, sources=(KUBERNETES,), fetched_kinds=("ConfigMap",))
    node.sources_ready()
    other = pod("other", {"name": "v", "configMap": {"name": "other"}}, uid="u2")
    node.serve(config_map("settings", a="1"), config_map("other", a="1"), WEB, other)
    node.plugins = plugins_of(ConfigMapVolume())
    host.reboot()
    node.start()
    node.settle()
    node.advance(60)
    assert node.is_mounted("other")
    assert not node.is_mounted("web")
    node.reconciler.post(DriverAppeared(Plain(plain_script), Origin("test", "0", "test")))
    node.settle()
    node.advance(60)
    assert node.is_mounted("web")
    assert recorded(host.paths, host)


def test_it_is_said_when_the_server_was_last_heard_of(node: TestNode) -> None:
    node.source_lost(KUBERNETES, "connection refused")
    (line,) = status(node.world).contact
    assert line == f"source {KUBERNETES} was last heard of at 1970-01-12T13:46:40.000Z, and what it said then stands"
    text = why(node.world, "web")[0].text
    assert line in text
    assert f"{SETTINGS} is as of 1970-01-12T13:46:40.000Z" in text
    node.sources_ready()
    assert status(node.world).contact == ()
    assert "as of" not in why(node.world, "web")[0].text


def test_what_nobody_uses_when_all_was_read_stands_no_longer(node: TestNode, host: FakeHost) -> None:
    node.advance(60)
    assert recorded(host.paths, host)
    node.serve_no_more(WEB)
    node.sources_ready()
    node.advance(60)
    assert recorded(host.paths, host) == []
    node.serve(pod("later", plain("data"), uid="u2"))
    node.advance(60)
    assert not node.is_mounted("later")  # what the record said may be wrong by now
    assert SETTINGS in node.world.awaited_objects
