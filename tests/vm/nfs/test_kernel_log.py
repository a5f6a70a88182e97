"""What the kernel says of the server of a volume that is mounted already reaches the Pod that has it."""

from __future__ import annotations

import subprocess

from tests.eventually import eventually
from tests.root.acceptance.outside import memory
from tests.vm.nfs.node import NfsNode, claimed, volume_and_claim
from tests.vm.servers.nfs import Ganesha


def test_a_pod_hears_from_the_kernel_that_the_server_of_its_volume_is_silent_and_that_it_is_back(
    node: NfsNode, ganesha: Ganesha
) -> None:
    options = ("vers=4.1", "timeo=10", "retrans=1", *ganesha.options)
    node.put("pv.json", *volume_and_claim("told", ganesha.directory("a"), *options, server=ganesha.address))
    node.mounted_pod("told", claimed("told"))
    ganesha.pause()
    with subprocess.Popen(["touch", node.place("told", "told") / "file"]) as waits:
        node.until_why("told", "mounted, server 127.0.0.2 does not answer since 20")
        node.mounted_pod("other", memory())
        ganesha.resume()
        eventually(lambda: "does not answer" not in node.why("told"), "the news that the server is back")
        assert waits.wait(60) == 0
