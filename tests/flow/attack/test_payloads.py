"""A container that may write into its ConfigMap on disk: it keeps its own files, and updates go on where they can."""

from __future__ import annotations

from pathlib import Path

import pytest

from volmgr.testing import FakeHost
from volmgr.testing.node import FILES, TestNode, plugins_of, pod
from volmgr_configmap.plugin import ConfigMapVolume

CALM = 125.0
METADATA = {"metadata": {"name": "settings"}}


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@pytest.fixture
def node(host: FakeHost) -> TestNode:
    """A node with a running Pod, whose container has put a file of its own into its ConfigMap."""
    node = TestNode(host, plugins_of(ConfigMapVolume()), sources=("api", FILES))
    node.sources_ready()
    change(node, "old")
    node.apply(pod("web", {"name": "c", "configMap": {"name": "settings"}}, uid="u1"))
    host.put(top(host) / "mine", b"the container's")
    return node


def change(node: TestNode, level: str) -> None:
    node.put_file("settings.yaml", {"apiVersion": "v1", "kind": "ConfigMap", **METADATA, "data": {"level": level}})


def top(host: FakeHost) -> Path:
    return host.paths.volume("u1", ConfigMapVolume.name, "c")


@pytest.mark.parametrize("thing", ["file", "directory"])
def test_what_took_the_place_of_the_link_keeps_the_change_waiting_and_nothing_is_taken_away(
    node: TestNode, host: FakeHost, thing: str
) -> None:
    data, directory = top(host) / "..data", host.files.identity(top(host))
    host.machine.unlink(data)
    if thing == "file":
        host.put(data, b"the container's")
    else:
        host.mkdir(data)
    change(node, "new")
    assert any("is no link is there; move it away" in text for text in node.warnings())
    node.start()
    node.sources_ready()
    change(node, "newer")
    node.advance(CALM)
    assert host.content(top(host) / "mine") == b"the container's"
    assert host.files.identity(top(host)) == directory, "what a container has mounted would be cut off"
    host.machine.rename(data, top(host) / "moved")
    node.advance(CALM)
    assert host.content(top(host) / "level") == b"newer"


def test_a_link_that_is_named_like_a_directory_of_ours_is_neither_followed_nor_kept(
    node: TestNode, host: FakeHost
) -> None:
    host.put(Path("/etc/level"), b"the node's")
    stamp = "..2026_01_02_03_04_05.6"
    host.machine.unlink(top(host) / "..data")
    host.link(top(host) / stamp, "/etc")
    host.link(top(host) / "..data", stamp)
    change(node, "new")
    assert host.content(top(host) / "level") == b"new"
    assert host.files.info(top(host) / stamp) is None
    assert host.content(Path("/etc/level")) == b"the node's"
