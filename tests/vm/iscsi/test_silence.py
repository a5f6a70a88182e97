"""Portals that swallow packets or are gone: who waits, what is said, and that it ends."""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import memory
from tests.vm.iscsi.site import Site, disk_states, disks, file_of, volume
from tests.vm.servers.lio import Target
from tests.vm.servers.node import VmNode
from tests.vm.servers.packets import swallowed


@pytest.mark.slow
def test_a_portal_that_swallows_packets_is_told_and_keeps_nobody_else_waiting(
    node: VmNode, site: Site, target: Target
) -> None:
    with swallowed("127.0.0.1", 3260):
        node.put_pod("waits", volume(target))
        node.until_why("waits", "portal 127.0.0.1:3260")
        node.mounted_pod("other", memory())
        assert site.initiator.sessions() == ()
    node.wait("waits")


@pytest.mark.slow
def test_a_disk_whose_target_was_gone_for_too_long_is_given_back_when_that_returns(
    node: VmNode, site: Site, target: Target
) -> None:
    with site.initiator.configured("node.session.timeo.replacement_timeout = 5"):
        node.mounted_pod("first", volume(target))
    file_of(node, "first").write_text("lost, perhaps")
    target.disable()
    eventually(lambda: "transport-offline" in disk_states(), lambda: str(disk_states()))
    (node.manifests / "first.json").unlink()
    eventually(lambda: "it is transport-offline" in node.log_text(), node.log_text)
    node.mounted_pod("other", memory())
    assert len(disks()) == len(site.initiator.sessions()) == 1
    target.enable()
    node.wait("first", "unmounted")
    node.remove_pod("other")
    site.until_nothing_is_left(node)
