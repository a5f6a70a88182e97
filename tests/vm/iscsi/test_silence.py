"""Portals that swallow packets or are gone: who waits, what is said, and that it ends."""

from __future__ import annotations

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import memory
from tests.vm.iscsi.site import Site, file_of, volume
from tests.vm.servers.lio import Target
from tests.vm.servers.node import VmNode
from tests.vm.servers.packets import swallowed


def test_a_portal_that_swallows_packets_is_told_and_keeps_nobody_else_waiting(
    node: VmNode, site: Site, target: Target
) -> None:
    with swallowed("127.0.0.1", 3260):
        node.put_pod("waits", volume(target))
        node.until_why("waits", "portal 127.0.0.1:3260")
        node.mounted_pod("other", memory())
        assert site.initiator.sessions() == ()
    node.wait("waits")


def test_a_target_that_is_away_for_a_while_goes_on_when_it_returns(node: VmNode, target: Target) -> None:
    node.mounted_pod("first", volume(target))
    with swallowed("127.0.0.1", 3260):
        node.mounted_pod("other", memory())
    file_of(node, "first").write_text("works")


@pytest.mark.slow
def test_a_target_that_is_gone_for_good_is_given_back_when_its_pod_goes(
    node: VmNode, site: Site, target: Target
) -> None:
    node.mounted_pod("first", volume(target))
    target.disable()
    (node.manifests / "first.json").unlink()
    node.mounted_pod("other", memory())
    target.enable()
    eventually(lambda: not site.initiator.sessions(), node.log_text)
