"""How long a mount takes beyond the bare command; told, and never judged: the guest is emulated."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.cephfs.node import CephNode, cephfs
from tests.vm.servers.ceph import Ceph
from tests.vm.servers.guest import tell
from tests.vm.timing import best, say_beyond

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
    say_beyond("cephfs", bare, ours)
