"""How long a mount takes beyond the bare command; told, and never judged: the guest is emulated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.vm.cephfs.node import CephNode, cephfs
from tests.vm.servers.ceph import Ceph
from tests.vm.servers.guest import tell
from tests.vm.timing import best, say_beyond

ROUNDS = 3


def kernel(place: Path) -> Callable[[], object]:
    """Give the mount by the kernel's client as people type it."""
    options = "name=admin,secretfile=/etc/ceph/admin.secret"
    return lambda: tell("mount", "-t", "ceph", f"{Ceph.monitor}:/", place, "-o", options)


def fuse(place: Path) -> Callable[[], object]:
    """Give the mount by ceph-fuse."""
    keyring = "/etc/ceph/ceph.client.admin.keyring"
    return lambda: tell("ceph-fuse", "-k", keyring, "-m", Ceph.monitor, place, "-r", "/", "--id", "admin")


@pytest.mark.parametrize("client", ["kernel", pytest.param("fuse", marks=pytest.mark.slow)])
def test_the_time_beyond_the_bare_command_is_told(node: CephNode, top: Path) -> None:
    place = top / "bare"
    place.mkdir()

    def end() -> None:
        for server in node.servers():
            node.until_settled(server)
        tell("umount", place)
        eventually(lambda: not node.servers(), "the end of ceph-fuse")

    def gone() -> None:
        node.remove_pod("timed")
        eventually(lambda: not node.servers(), "the end of ceph-fuse")

    by_hand = {"kernel": kernel, "fuse": fuse}[node.client](place)
    # In turns: what else the machine does changes from minute to minute.
    rounds = [
        (best(by_hand, end, rounds=1), best(lambda: node.mounted_pod("timed", cephfs()), gone, rounds=1))
        for _ in range(ROUNDS)
    ]
    bare, ours = (min(each) for each in zip(*rounds, strict=True))
    say_beyond(f"cephfs, {node.client}", bare, ours)
