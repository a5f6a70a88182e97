"""How long a mount takes beyond the bare command; told, and never judged: the guest is emulated."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.vm.nfs.node import NfsNode, nfs
from tests.vm.servers.guest import tell
from tests.vm.servers.nfs import KernelNfs

ROUNDS = 5


def test_the_time_beyond_the_bare_command_is_told(node: NfsNode, server: KernelNfs, top: Path) -> None:
    directory = server.export("timed")
    place = top / "bare"
    place.mkdir()
    bare = best(lambda: tell("mount", "-t", "nfs", f"127.0.0.1:{directory}", place), lambda: tell("umount", place))
    ours = best(lambda: node.mounted_pod("timed", nfs(directory)), lambda: node.remove_pod("timed"))
    beyond = ours - bare
    text = f"bare commands {bare:.2f} s, a pod's mount {ours:.2f} s: {beyond:+.2f} s, {100 * beyond / bare:+.0f} %"
    Path("/vm/times.txt").write_text(f"nfs: {text}\n")
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
