"""How long a mount takes beyond the bare commands; told, and never judged: the guest is emulated."""

from __future__ import annotations

from pathlib import Path

from tests.eventually import eventually
from tests.vm.iscsi.site import Site, disks, volume
from tests.vm.servers.guest import tell
from tests.vm.servers.lio import Target
from tests.vm.servers.node import VmNode
from tests.vm.timing import best, say_beyond


def test_the_time_beyond_the_bare_commands_is_told(node: VmNode, site: Site, target: Target, top: Path) -> None:
    node.mounted_pod("formats", volume(target))
    node.remove_pod("formats")
    site.until_nothing_is_left(node)
    bare = best(lambda: bare_commands(target, top / "bare"), lambda: bare_end(target, top / "bare"))

    def gone() -> None:
        node.remove_pod("timed")
        site.until_nothing_is_left(node)

    ours = best(lambda: node.mounted_pod("timed", volume(target)), gone)
    say_beyond("iscsi", bare, ours)


def bare_commands(target: Target, place: Path) -> None:
    """Do by hand what a mount needs: no more than a person would type."""
    address = "127.0.0.1:3260"
    tell("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", address)
    tell("iscsiadm", "-m", "node", "-T", target.iqn, "-p", address, "--login")
    eventually(disks, "the disk")
    device = Path("/dev", disks()[0])
    eventually(device.exists, "its device")
    tell("fsck", "-a", device)
    place.mkdir(exist_ok=True)
    tell("mount", device, place)


def bare_end(target: Target, place: Path) -> None:
    """Undo that."""
    tell("umount", place)
    tell("iscsiadm", "-m", "node", "-T", target.iqn, "--logout")
    tell("iscsiadm", "-m", "node", "-o", "delete")
    tell("iscsiadm", "-m", "discoverydb", "-t", "sendtargets", "-p", "127.0.0.1:3260", "-o", "delete")
    eventually(lambda: not disks(), "no disk")
