"""How long a mount takes beyond the bare commands; told, and never judged: the guest is emulated."""

from __future__ import annotations

from pathlib import Path

from tests.vm.fc.site import Site, fc
from tests.vm.servers.fibre_channel import STORAGE, FibreChannel
from tests.vm.servers.guest import settled, tell
from tests.vm.servers.node import VmNode
from tests.vm.timing import best, say_beyond

LUN = 5

BY_HAND = """
set -e
for port in /sys/class/fc_remote_ports/rport-$host:*; do
    if [ "$(cat $port/port_name)" = 0x$wwn ]; then target=$(cat $port/scsi_target_id); fi
done
echo 0 $target $lun >/sys/class/scsi_host/host$host/scan
udevadm wait --timeout=60 $link
[ "$(/lib/udev/scsi_id --whitelisted --device=$link)" = $wwid ]
fsck -a $link
mount $link $place
"""
"""What a careful admin types: look at one port only, wait for the disk, see that it is the one, check, mount."""


def test_the_time_beyond_the_bare_commands_is_told(node: VmNode, site: Site, fabric: FibreChannel, top: Path) -> None:
    disk = fabric.backstore("timed")
    fabric.map(LUN, disk, cards=STORAGE[:1])
    volume = fc(fabric, LUN, targetWWNs=[fabric.wwns[0]])
    node.mounted_pod("formats", volume)
    (link,) = fabric.links(LUN)

    def gone() -> None:
        node.remove_pod("timed")
        site.until_nothing_is_left(node)
        settled()

    node.remove_pod("formats")
    site.until_nothing_is_left(node)
    place = top / "bare"
    place.mkdir()
    words = {"host": fabric.host(), "wwn": fabric.wwns[0], "lun": LUN, "link": link, "wwid": disk.wwid, "place": place}
    given = [f"{name}={value}" for name, value in words.items()]

    def end() -> None:
        (name,) = fabric.disks()
        tell("umount", place)
        Path(f"/sys/block/{name}/device/delete").write_text("1")
        settled()

    bare = best(lambda: tell("env", *given, "sh", "-c", BY_HAND), end)
    ours = best(lambda: node.mounted_pod("timed", volume), gone)
    say_beyond("fc", bare, ours)
