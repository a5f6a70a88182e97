"""The loop-backed disk on the host in memory: the same stories as on the kernel (tests/root/core)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.core.probes import Plain, Script, claim_of, plain, storage
from volmgr import blockmap
from volmgr.errors import OperationError, UncertainError
from volmgr.host.interface import CommandResult
from volmgr.model.volume import Facets, Presence
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.loopdisk import LoopDisk
from volmgr.testing.node import TestNode, plugins_of, pod

IMAGE = Path("/srv/disk.img")
NAME = f"{LoopDisk.name}/{IMAGE}"
KIB = 1 << 10


@pytest.fixture
def host() -> FakeHost:
    """A machine with a formatted disk image."""
    host = FakeHost()
    host.put(IMAGE, bytes(64 * KIB))
    loop = host.block.attach_loop(IMAGE)
    host.machine.format(loop, "ext4")
    host.block.detach_loop(loop)
    return host


@pytest.fixture
def node(host: FakeHost) -> TestNode:
    node = TestNode(host, plugins_of(LoopDisk(), Plain(Script(facets=Facets()))))
    node.sources_ready()
    return node


def offer(node: TestNode, size: str = "64Ki", *, block: bool = False) -> None:
    """Let there be a PersistentVolume for the image, and the claim `disk`."""
    source = {"loopDisk": {"path": str(IMAGE)}}
    node.put_file("storage.yaml", *storage("disk", source=source, size=size, block=block))


def test_a_disk_is_attached_mounted_and_given_back(host: FakeHost, node: TestNode) -> None:
    offer(node)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    assert host.table == {
        host.paths.plugin(LoopDisk.name) / "mounts" / "%2Fsrv%2Fdisk.img": "ext4",
        host.paths.volume("u1", LoopDisk.name, "pv-disk"): "ext4",
    }
    node.delete("u1")
    assert host.table == {}
    assert host.block.find_loops(IMAGE) == ()
    assert host.files.names(host.paths.pods) == ()


def test_it_grows_once_with_its_persistent_volume(host: FakeHost, node: TestNode) -> None:
    grown: list[tuple[str, ...]] = []

    def resize(argv: tuple[str, ...], _stdin: bytes) -> CommandResult:
        grown.append(argv)
        return CommandResult(0, "", "")

    host.programs["resize2fs"] = resize
    offer(node)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    host.put(IMAGE, bytes(128 * KIB))
    offer(node, "128Ki")
    assert grown == [("resize2fs", "/dev/loop0")]
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert volume.size == 128 * KIB
    node.start()
    node.sources_ready()
    assert node.is_mounted("web")
    assert len(grown) == 1, "the record knows its size"


def test_a_failed_growth_is_named_tried_again_and_leaves_the_mount(host: FakeHost, node: TestNode) -> None:
    answers = [CommandResult(1, "", "resize2fs: busy"), CommandResult(0, "", "")]
    host.programs["resize2fs"] = lambda _argv, _stdin: answers.pop(0)
    offer(node)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    offer(node, "128Ki")
    assert "expand failed once" in why(node.world, "web")[0].text
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert volume.mounts["u1"].state is Presence.YES
    node.advance(0.5)
    assert answers == []


def test_a_read_only_claim_never_grows(host: FakeHost, node: TestNode) -> None:
    offer(node)
    node.apply(pod("web", claim_of("data", "disk", read_only=True), uid="u1"))
    offer(node, "128Ki")
    assert node.is_mounted("web")
    assert node.warnings() == ()
    assert host.table[host.paths.volume("u1", LoopDisk.name, "pv-disk")] == "ext4 ro"


def test_a_device_is_mapped_by_a_bind_a_link_and_a_lock(host: FakeHost, node: TestNode) -> None:
    offer(node, block=True)
    for uid in ("ua", "ub"):
        node.apply(pod(uid, claim_of("data", "disk"), uid=uid, devices=("data",)))
        assert node.is_mounted(uid), node.warnings()
    maps = host.paths.block_maps(LoopDisk.name) / "%2Fsrv%2Fdisk.img"
    link = host.paths.block_volume("ua", LoopDisk.name, "pv-disk")
    assert host.files.read_link(link) == "/dev/loop0"
    assert set(host.files.names(maps)) == {"ua", "ub"}
    assert len(host.block.find_loops(Path("/dev/loop0"))) == 1
    node.delete("ua")
    assert host.files.info(link) is None
    assert host.files.names(maps) == ("ub",)
    assert len(host.block.find_loops(Path("/dev/loop0"))) == 1, "the other Pod's lock stays"
    node.delete("ub")
    assert host.table == {}
    assert host.files.info(maps) is None
    assert host.machine.loops == {}


def test_a_device_used_as_a_directory_is_an_error_and_the_other_way_round(node: TestNode) -> None:
    offer(node, block=True)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    assert node.world.pods["u1"].errors == {
        "data": "volume data has volumeMode Block, but is specified in volumeMounts"
    }
    offer(node)
    assert node.is_mounted("web")
    node.apply(pod("other", claim_of("data", "disk"), uid="u2", devices=("data",)))
    assert node.world.pods["u2"].errors == {
        "data": "volume data has volumeMode Filesystem, but is specified in volumeDevices"
    }


def test_a_type_without_block_volumes_says_so_and_nothing_is_started(node: TestNode) -> None:
    node.put_file("storage.yaml", *storage("disk", source={"plainProbe": {"disk": "x"}}, block=True))
    node.apply(pod("web", claim_of("data", "disk"), uid="u1", devices=("data",)))
    (problem,) = node.world.pods["u1"].errors.values()
    assert problem.startswith("MapVolume.FindMapperPluginBySpec failed for volume data: example.com/plain has no block")
    assert len(node.world.actual) == 0


def test_a_missing_image_is_an_error_that_names_it_and_leaves_nothing(host: FakeHost, node: TestNode) -> None:
    offer(node)
    host.files.remove_file(IMAGE)
    node.apply(pod("web", claim_of("data", "disk"), plain("tmp"), uid="u1"))
    text = why(node.world, "web")[0].text
    assert "attach failed once" in text
    assert str(IMAGE) in text
    assert node.world.actual.get(NAME) is None
    node.delete("u1")
    assert node.is_unmounted("u1")


def test_a_mount_option_is_passed_on_sorted_and_once(host: FakeHost, node: TestNode) -> None:
    source = {"loopDisk": {"path": str(IMAGE)}}
    pv, pvc = storage("disk", source=source, size="64Ki", mountOptions=["noexec", "noatime", "noexec"])
    node.put_file("storage.yaml", pv, pvc)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    device = host.table[host.paths.plugin(LoopDisk.name) / "mounts" / "%2Fsrv%2Fdisk.img"]
    assert {"noatime", "noexec"} <= set(device.split(" ")[1].split(","))


def test_a_mount_option_where_the_type_has_none_is_an_error(node: TestNode) -> None:
    pv, pvc = storage("disk", source={"plainProbe": {"disk": "x"}}, mountOptions=["noexec"])
    node.put_file("storage.yaml", pv, pvc)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    (problem,) = node.world.pods["u1"].errors.values()
    assert problem == "PersistentVolume pv-disk: mount options are not supported for this volume type"


def test_a_disk_s_use_is_measured(host: FakeHost, node: TestNode) -> None:
    from volmgr.plugin import Measure

    offer(node)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    path = host.paths.volume("u1", LoopDisk.name, "pv-disk")
    measured = LoopDisk().measure(Measure(volume=NAME, pod_uid="u1", path=path), host)
    assert measured.capacity == 64 * KIB
    assert measured.used == measured.capacity - measured.available


def test_a_kill_while_mapped_finds_the_device_again_without_a_record(host: FakeHost, node: TestNode) -> None:
    offer(node, block=True)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1", devices=("data",)))
    host.files.remove_tree(host.paths.state / "mounts")
    host.files.remove_tree(host.paths.state / "volumes")
    node.start()
    node.settle()
    offer(node, block=True)
    node.sources_ready()
    assert node.is_mounted("web"), why(node.world, "web")
    node.delete("u1")
    assert host.table == {}
    assert host.machine.loops == {}


def test_a_device_that_has_another_name_after_a_reboot_is_mapped_again(host: FakeHost, node: TestNode) -> None:
    offer(node, block=True)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1", devices=("data",)))
    host.reboot()
    host.put("/srv/other.img", bytes(KIB))
    assert host.block.attach_loop(Path("/srv/other.img")) == Path("/dev/loop0")
    node.start()
    node.settle()
    offer(node, block=True)
    node.sources_ready()
    assert node.is_mounted("web"), node.warnings()
    assert host.files.read_link(host.paths.block_volume("u1", LoopDisk.name, "pv-disk")) == "/dev/loop1"
    node.delete("u1")
    assert set(host.machine.loops) == {Path("/dev/loop0")}


def test_a_mapped_device_whose_type_is_gone_is_left_named_and_unmapped_when_it_returns(
    host: FakeHost, node: TestNode
) -> None:
    offer(node, block=True)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1", devices=("data",)))
    before, loops = host.table, dict(host.machine.loops)
    without = TestNode(host, plugins_of())
    without.sources_ready()
    without.delete("u1")
    without.apply(pod("new", claim_of("data", "disk"), uid="u2", devices=("data",)))
    without.advance(3600)
    assert (host.table, host.machine.loops) == (before, loops)
    assert f"a package that serves {LoopDisk.name}" in why(without.world, "u1")[0].text
    again = TestNode(host, node.plugins)
    again.sources_ready()
    assert again.is_unmounted("u1")
    assert again.is_mounted("u2")
    again.delete("u2")
    assert host.machine.loops == {}


def test_a_mapped_device_that_vanished_is_unmapped_by_what_was_recorded(host: FakeHost, node: TestNode) -> None:
    offer(node, block=True)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1", devices=("data",)))
    host.files.remove_file(IMAGE)
    host.machine.loops.clear()  # pulled out
    node.delete("u1")
    assert node.is_unmounted("u1"), node.warnings()
    assert host.table == {}
    assert host.files.names(host.paths.pods) == ()


def test_a_device_of_another_name_takes_the_place_of_the_one_before(host: FakeHost) -> None:
    maps, link = host.paths.root / "maps", host.paths.root / "link"
    for name in ("a", "b"):
        host.put(f"/srv/{name}", bytes(KIB))
        host.block.attach_loop(Path(f"/srv/{name}"))
    for device in ("/dev/loop0", "/dev/loop1", "/dev/loop1"):
        assert blockmap.map_device(host, device, maps, "u1", link) == device
        bound, wanted = host.files.info(maps / "u1"), host.files.info(Path(device))
        assert bound is not None
        assert wanted is not None
        assert bound.rdev == wanted.rdev
        assert host.files.read_link(link) == device


def test_mapping_without_a_device_or_in_a_circle_of_links_is_uncertain(host: FakeHost) -> None:
    maps, link = host.paths.root / "maps", host.paths.root / "link"
    with pytest.raises(UncertainError, match="device path of the volume is empty"):
        blockmap.map_device(host, "", maps, "u1", link)
    host.link("/dev/circle", "circle")
    with pytest.raises(UncertainError, match="too many levels of symbolic links"):
        blockmap.map_device(host, "/dev/circle", maps, "u1", link)


def test_a_device_is_not_torn_down_while_it_is_mapped(host: FakeHost) -> None:
    maps, link = host.paths.root / "maps", host.paths.root / "link"
    loop = host.block.attach_loop(IMAGE)
    blockmap.map_device(host, str(loop), maps, "u1", link)
    with pytest.raises(OperationError, match=r"maps is still mapped for u1"):
        blockmap.check_unused(host, maps)
    blockmap.unmap_device(host, maps, "u1", link)
    blockmap.unmap_device(host, maps, "u1", link)
    blockmap.check_unused(host, maps)
