"""How long a mount takes beyond the bare command; told, and never judged: the guest is emulated."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.vm.cephfs.node import CephNode, cephfs
from tests.vm.servers.ceph import Ceph
from tests.vm.servers.guest import tell

ROUNDS = 3
SECRET = "/etc/ceph/admin.secret"


@pytest.mark.parametrize("client", ["kernel"])
def test_the_time_beyond_the_bare_command_is_told(node: CephNode, top: Path) -> None:
    place = top / "bare"
    place.mkdir()
    options = f"name=admin,secretfile={SECRET}"
    bare = best(
        lambda: tell("mount", "-t", "ceph", f"{Ceph.monitor}:/", place, "-o", options), lambda: tell("umount", place)
    )
    ours = best(lambda: node.mounted_pod("timed", cephfs()), lambda: node.remove_pod("timed"))
    beyond = ours - bare
    text = f"bare command {bare:.2f} s, a pod's mount {ours:.2f} s: {beyond:+.2f} s, {100 * beyond / bare:+.0f} %"
    Path("/vm/times.txt").write_text(f"cephfs: {text}\n")
    print(f"\n{text}")


def best(act: Callable[[], object], undo: Callable[[], object]) -> float:
    """Give the shortest of some rounds, in seconds."""
    found: list[float] = []
    for _ in range(ROUNDS):
        begun = time.monotonic()
        act()
        found.append(time.monotonic() - begun)
        undo()
    return min(found)
