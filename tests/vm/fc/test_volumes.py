"""LUNs of a living storage: mounted, shared, handed over as devices, grown, and given back without a trace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import memory
from tests.vm.fc.site import (
    MIB,
    TYPE,
    Site,
    Writer,
    assert_sound,
    block_pod,
    device_of,
    fc,
    global_mount,
    numbers,
    persistent,
)
from tests.vm.servers.fibre_channel import STORAGE, FibreChannel
from tests.vm.servers.multipathd import Multipathd
from tests.vm.servers.node import VmNode

ONE = STORAGE[:1]
"""The card of the storage's first port."""


def test_a_lun_is_mounted_written_and_shared_over_kills_and_nothing_is_left(
    node: VmNode, site: Site, fabric: FibreChannel
) -> None:
    disk = fabric.backstore("data")
    fabric.map(5, disk, cards=ONE)
    node.mounted_pod("one", fc(fabric, 5))
    place = node.volume("one", "v", TYPE)
    (place / "file").write_text("of one")
    assert device_of(global_mount(node, fabric, 5)) == f"/dev/{fabric.disks()[0]}"
    before = node.mounts()
    node.restart()
    node.mounted_pod("two", fc(fabric, 5))
    second = node.volume("two", "v", TYPE)
    assert (second / "file").read_text() == "of one"
    assert before.items() <= node.mounts().items()
    node.kill()
    (node.manifests / "one.json").unlink()
    node.start()
    node.wait("one", "unmounted")
    assert (second / "file").read_text() == "of one"
    node.remove_pod("two")
    site.until_nothing_is_left(node)
    assert_sound(disk)
    node.mounted_pod("three", fc(fabric, 5))
    assert (node.volume("three", "v", TYPE) / "file").read_text() == "of one"


def test_a_storage_that_is_lost_keeps_its_own_pods_waiting_and_returns(
    node: VmNode, site: Site, fabric: FibreChannel
) -> None:
    disk = fabric.backstore("lost")
    disk.format()
    fabric.map(11, disk, cards=ONE)
    fabric.map(13, fabric.backstore("later"), cards=ONE)
    fabric.let_ports_be_away(600)
    node.mounted_pod("writes", fc(fabric, 11))
    place = node.volume("writes", "v", TYPE)
    with Writer(place) as writer:
        with writer.pause:
            fabric.cut_off(*ONE)
        fabric.until_remote_ports(1)
        node.put_pod("waits", fc(fabric, 13, targetWWNs=[fabric.wwns[0]]))
        node.until_why("waits", f"port {fabric.wwns[0]} is blocked")
        node.mounted_pod("other", memory())
        node.remove_pod("other")
        fabric.reconnect(*ONE)
        fabric.until_remote_ports(2)
        writer.until_more()
        node.wait("waits")
    assert numbers(place) == writer.count
    node.remove_pod("waits")
    node.remove_pod("writes")
    site.until_nothing_is_left(node)
    assert_sound(disk)


@pytest.mark.slow
def test_a_pod_that_goes_while_its_storage_is_away_is_given_back_whole_when_that_returns(
    node: VmNode, site: Site, fabric: FibreChannel
) -> None:
    disk = fabric.backstore("away")
    disk.format()
    fabric.map(12, disk, cards=ONE)
    fabric.let_ports_be_away(600)
    node.mounted_pod("writes", fc(fabric, 12))
    (node.volume("writes", "v", TYPE) / "file").write_bytes(b"dirty" * MIB)
    fabric.cut_off(*ONE)
    fabric.until_remote_ports(1)
    (node.manifests / "writes.json").unlink()
    node.mounted_pod("other", memory())
    node.remove_pod("other")
    assert fabric.disks() != ()
    fabric.reconnect(*ONE)
    fabric.until_remote_ports(2)
    node.wait("writes", "unmounted")
    site.until_nothing_is_left(node)
    assert_sound(disk)
    node.mounted_pod("reads", fc(fabric, 12))
    assert (node.volume("reads", "v", TYPE) / "file").read_bytes() == b"dirty" * MIB


def test_a_map_of_two_paths_is_a_device_over_a_kill_and_grows_and_goes(
    node: VmNode, site: Site, fabric: FibreChannel, multipath: Multipathd
) -> None:
    disk = fabric.backstore("raw")
    fabric.map(6, disk)
    source = fc(fabric, 6)["fc"]
    node.put("claim.json", *persistent("raw", source, mode="Block"))
    node.put("database.json", block_pod("database", "raw"))
    node.wait("database")
    ((name, wwid),) = multipath.maps().items()
    assert (wwid, len(fabric.disks())) == (disk.wwid, 2)
    device = node.device("database", TYPE, "raw")
    assert device.resolve() == Path("/dev/mapper", name).resolve()
    with device.open("r+b", buffering=0) as raw:
        raw.write(b"raw".ljust(4096, b"."))
        os.fsync(raw.fileno())
    assert disk.file.read_bytes()[:3] == b"raw"
    node.restart()
    node.wait("database")
    disk.grow(128 * MIB)
    node.put("claim.json", *persistent("raw", source, mode="Block", size="128Mi"))
    size = Path("/sys/block", device.resolve().name, "size")
    eventually(lambda: int(size.read_text()) == 128 * MIB // 512, lambda: node.why("database") + node.log_text())
    with device.open("rb", buffering=0) as raw:
        assert raw.read(3) == b"raw"
    (node.manifests / "database.json").unlink()
    node.wait("database", "unmounted")
    site.until_nothing_is_left(node)
