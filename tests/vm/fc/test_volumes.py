"""LUNs of a living storage: mounted, shared, handed over as devices, grown, and given back without a trace."""

from __future__ import annotations

from pathlib import Path

from tests.vm.fc.site import TYPE, Site, device_of, fc, global_mount
from tests.vm.servers.fibre_channel import FibreChannel
from tests.vm.servers.node import VmNode


def test_a_lun_is_mounted_written_and_shared_over_kills_and_nothing_is_left(
    node: VmNode, site: Site, fabric: FibreChannel
) -> None:
    fabric.map(5, fabric.backstore("data"), cards=("eth1",))
    node.mounted_pod("one", fc(fabric, 5))
    place = node.volume("one", "v", TYPE)
    (place / "file").write_text("of one")
    assert device_of(global_mount(node, fabric, 5)) == f"/dev/{fabric.disks()[0]}"
    node.restart()
    node.mounted_pod("two", fc(fabric, 5))
    second = node.volume("two", "v", TYPE)
    assert (second / "file").read_text() == "of one"
    node.kill()
    (node.manifests / "one.json").unlink()
    node.start()
    node.wait("one", "unmounted")
    assert (second / "file").read_text() == "of one"
    node.remove_pod("two")
    site.until_nothing_is_left(node)
    node.mounted_pod("three", fc(fabric, 5))
    assert (node.volume("three", "v", TYPE) / "file").read_text() == "of one"


def test_multipathd_s_map_is_what_is_mounted(node: VmNode, site: Site, fabric: FibreChannel, multipath: object) -> None:
    disk = fabric.backstore("paths")
    fabric.map(6, disk)
    node.mounted_pod("one", fc(fabric, 6))
    assert list(site.multipathd.maps().values()) == [disk.wwid]
    device = device_of(global_mount(node, fabric, 6))
    assert Path(device).name.startswith("dm-")
    assert len(fabric.disks()) == 2
    (node.volume("one", "v", TYPE) / "file").write_text("by two paths")
    node.remove_pod("one")
    site.until_nothing_is_left(node)
