"""How long a mount takes beyond the bare command; told, and never judged: the guest is emulated."""

from __future__ import annotations

from pathlib import Path

from tests.vm.nfs.node import NfsNode, nfs
from tests.vm.servers.guest import tell
from tests.vm.servers.nfs import KernelNfs
from tests.vm.timing import best, say_beyond


def test_the_time_beyond_the_bare_command_is_told(node: NfsNode, server: KernelNfs, top: Path) -> None:
    directory = server.export("timed")
    place = top / "bare"
    place.mkdir()
    bare = best(lambda: tell("mount", "-t", "nfs", f"127.0.0.1:{directory}", place), lambda: tell("umount", place))
    ours = best(lambda: node.mounted_pod("timed", nfs(directory)), lambda: node.remove_pod("timed"))
    say_beyond("nfs", bare, ours)
