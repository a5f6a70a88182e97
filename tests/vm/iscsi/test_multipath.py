"""Two portals and one disk: a path that is lost under a writer, one that was never there, and maps that go whole."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.vm.iscsi.site import IQN, Site, claimed, disks, file_of, persistent, volume
from tests.vm.servers.lio import Target
from tests.vm.servers.multipathd import Multipathd, slaves
from tests.vm.servers.node import VmNode
from tests.vm.servers.packets import swallowed

PORTALS = ("127.0.0.1:3260", "127.0.0.2:3260")


@pytest.fixture
def multipathd(site: Site) -> Iterator[Multipathd]:
    """multipathd, which would disturb the tests of single paths."""
    with Multipathd() as daemon:
        yield daemon


@pytest.fixture
def multipath_node(multipathd: Multipathd, node: VmNode) -> VmNode:
    """A node that was started after multipathd, and has given everything back before that ends."""
    del multipathd
    return node


def test_two_portals_are_one_map_that_outlives_the_loss_of_a_path(
    multipath_node: VmNode, multipathd: Multipathd, site: Site, target: Target
) -> None:
    node = multipath_node
    node.mounted_pod("first", volume(target, 0, *PORTALS))
    (name,) = multipathd.maps()
    multipathd.until_paths(name, ["active", "active"])
    writer = subprocess.Popen(
        ["dd", "if=/dev/zero", f"of={file_of(node, 'first')}", "bs=64k", "count=400", "oflag=direct", "status=none"]
    )
    with swallowed("127.0.0.2", 3260):
        multipathd.until_paths(name, ["active", "failed"])
        assert writer.wait(120) == 0
        file_of(node, "first", "other").write_text("over one path")
    multipathd.until_paths(name, ["active", "active"])
    node.remove_pod("first")
    site.until_nothing_is_left(node)
    node.mounted_pod("second", volume(target, 0, *PORTALS))
    assert file_of(node, "second", "other").read_text() == "over one path"


@pytest.mark.slow
def test_a_portal_that_was_silent_is_told_and_its_path_comes_later(
    multipath_node: VmNode, multipathd: Multipathd, target: Target
) -> None:
    node = multipath_node
    with swallowed("127.0.0.2", 3260):
        node.mounted_pod("first", volume(target, 0, *PORTALS))
        (name,) = multipathd.maps()
        assert len(slaves(Path("/dev/mapper", name))) == 1
        eventually(lambda: "127.0.0.2:3260" in node.log_text(), node.log_text)
    eventually(lambda: len(slaves(Path("/dev/mapper", name))) == 2, node.log_text)
    multipathd.until_paths(name, ["active", "active"])
    file_of(node, "first").write_text("works")


@pytest.mark.slow
def test_a_map_and_its_file_system_grow_with_the_lun(multipath_node: VmNode, site: Site, target: Target) -> None:
    node = multipath_node
    disk = site.lio.backstore("growing", 64 << 20)
    target.map(3, disk)
    source = volume(target, 3, *PORTALS)["iscsi"]
    node.put("claim.json", *persistent("grows", source))
    node.mounted_pod("first", claimed("grows"))
    before = _size(node)
    disk.grow(128 << 20)
    node.put("claim.json", *persistent("grows", source, size="128Mi"))
    eventually(lambda: _size(node) > 1.7 * before, lambda: node.why("first") + node.log_text())


@pytest.mark.slow
def test_a_pod_that_goes_while_a_path_is_down_leaves_nothing(
    multipath_node: VmNode, multipathd: Multipathd, site: Site, target: Target
) -> None:
    node = multipath_node
    node.mounted_pod("first", volume(target, 0, *PORTALS))
    (name,) = multipathd.maps()
    with swallowed("127.0.0.2", 3260):
        multipathd.until_paths(name, ["active", "failed"])
        file_of(node, "first").write_text("over one path")
        (node.manifests / "first.json").unlink()
        site.until_nothing_is_left(node)
    assert disks() == ()


@pytest.mark.slow
def test_two_paths_without_multipathd_are_used_as_one_and_told(node: VmNode, site: Site, target: Target) -> None:
    node.mounted_pod("first", volume(target, 0, *PORTALS))
    assert len(site.initiator.sessions()) == 2
    eventually(lambda: "multipathd does not run" in node.log_text(), node.log_text)
    file_of(node, "first").write_text("works")
    assert IQN in str(site.initiator.sessions())


def _size(node: VmNode) -> int:
    place = file_of(node, "first", volume="grows").parent
    return int(subprocess.run(["stat", "-f", "-c", "%b", place], capture_output=True, check=True).stdout)
