"""How long a mount takes beyond the bare commands; told, and never judged: the guest is emulated."""

from __future__ import annotations

from pathlib import Path

from tests.eventually import eventually
from tests.vm.iscsi.site import Site, disks, volume
from tests.vm.servers.guest import settled, tell
from tests.vm.servers.lio import Target
from tests.vm.servers.node import VmNode
from tests.vm.timing import best, say_beyond

PORTAL = "127.0.0.1:3260"
BY_HAND = """
set -e
iscsiadm -m discovery -t sendtargets -p $portal -o nonpersistent | grep --quiet --word-regexp $iqn
iscsiadm -m node -T $iqn -p $portal,1 -o new
iscsiadm -m node -T $iqn -p $portal --login
udevadm wait --timeout=60 $link
[ "$(/lib/udev/scsi_id --whitelisted --device=$link)" = $wwid ]
fsck -a $link
mount $link $place
"""
"""What a careful admin types: record one target alone, log in, wait for the disk, see that it is the one, check."""


def test_the_time_beyond_the_bare_commands_is_told(node: VmNode, site: Site, target: Target, top: Path) -> None:
    disk = site.lio.backstore("timed")
    target.map(1, disk)
    target.unmap(0)  # by hand, the kernel looks for every LUN
    node.mounted_pod("formats", volume(target, 1))

    def gone() -> None:
        node.remove_pod("timed")
        site.until_nothing_is_left(node)
        settled()

    node.remove_pod("formats")
    site.until_nothing_is_left(node)
    place = top / "bare"
    place.mkdir()
    link = f"/dev/disk/by-path/ip-{PORTAL}-iscsi-{target.iqn}-lun-1"
    words = {"portal": PORTAL, "iqn": target.iqn, "link": link, "wwid": disk.wwid, "place": place}
    given = [f"{name}={value}" for name, value in words.items()]

    def end() -> None:
        tell("umount", place)
        tell("iscsiadm", "-m", "node", "-T", target.iqn, "--logout")
        tell("iscsiadm", "-m", "node", "-T", target.iqn, "-o", "delete")
        eventually(lambda: not disks(), "no disk")
        settled()

    bare = best(lambda: tell("env", *given, "sh", "-c", BY_HAND), end)
    ours = best(lambda: node.mounted_pod("timed", volume(target, 1)), gone)
    say_beyond("iscsi", bare, ours)
