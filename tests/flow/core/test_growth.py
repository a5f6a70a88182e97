"""Whose turn it is to grow a volume, by its claim's status; and when the node's mount of a device may go."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.flow.core.probes import DISK_FACETS, Disk, ProbeSource, Script, claim_of, storage
from volmgr import manifest
from volmgr.config import Config
from volmgr.errors import BusyError, OperationError, SpecError, UncertainError
from volmgr.model.growth import GrowthStep
from volmgr.model.objects import PersistentVolumeClaim
from volmgr.model.quantity import Quantity
from volmgr.model.volume import Presence, VolumeSpec
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.loopdisk import LoopDisk
from volmgr.testing.node import FILES, TestNode, plugins_of, pod

IMAGE = Path("/srv/disk.img")
ANNOTATIONS = {"no_node_expansion": "volume.kubernetes.io/node-expansion-not-required"}


@pytest.fixture
def config() -> Config:
    """A node whose claims, and what their status says, are a controller's."""
    return Config(bind_claims=False)


def offer(node: TestNode, size: str, mode: str, capacity: str, status: str = "", **annotations: str) -> None:
    """Let the volume have this size, and its claim say how far it has grown, as an API server hands them over."""
    volume, bound = storage("d1", modes=(mode,), size=size)
    bound["spec"]["accessModes"] = [mode]
    bound["metadata"]["annotations"] = {ANNOTATIONS[key]: value for key, value in annotations.items()}
    parsed = manifest.parse(json.dumps(bound).encode(), "claim.json", node.plugins)
    (item,) = parsed.items
    assert isinstance(item.value, PersistentVolumeClaim)
    claim = replace(
        item.value,
        phase="Bound",
        status_capacity={"storage": Quantity.parse(capacity)},
        resize_status={"storage": status} if status else {},
    )
    told = replace(parsed, items=(replace(item, value=claim),))
    node.registry.offer(FILES, "claim.json", f"{size} {capacity} {status} {annotations}", told)
    node.settle()
    node.put_file("volume.yaml", volume)


@pytest.mark.parametrize(
    ("mode", "capacity", "status", "annotations", "calls"),
    [
        ("ReadWriteOnce", "2Gi", "", {}, 0),
        ("ReadWriteMany", "2Gi", "", {}, 1),
        ("ReadWriteMany", "2Gi", "", {"no_node_expansion": "true"}, 0),
        ("ReadWriteOnce", "1Gi", "", {}, 1),
        ("ReadWriteOnce", "1Gi", "NodeResizePending", {}, 1),
        ("ReadWriteOnce", "2Gi", "NodeResizeInProgress", {}, 1),
        ("ReadWriteOnce", "1Gi", "NodeResizeInfeasible", {}, 0),
        ("ReadWriteOnce", "1Gi", "ControllerResizeInProgress", {}, 0),
    ],
)
def test_the_claim_s_status_says_whether_the_node_has_to_grow_its_volume(
    node: TestNode,
    disk_script: Script,
    mode: str,
    capacity: str,
    status: str,
    annotations: dict[str, str],
    calls: int,
) -> None:
    offer(node, "1Gi", mode, "1Gi")
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    offer(node, "2Gi", mode, capacity, status, **annotations)
    assert node.is_mounted("web")
    assert disk_script.count("expand") == calls
    assert node.warnings() == ()


def test_a_volume_grows_as_soon_as_it_is_the_node_s_turn(node: TestNode, disk_script: Script) -> None:
    offer(node, "1Gi", "ReadWriteOnce", "1Gi")
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    for status, calls in (("ControllerResizeInProgress", 0), ("NodeResizePending", 1)):
        offer(node, "2Gi", "ReadWriteOnce", "1Gi", status)
        assert disk_script.count("expand") == calls


def told(node: TestNode) -> list[GrowthStep]:
    """Give what a cluster would be told of the growth of the claim's volume."""
    assert {(str(each.claim), each.size) for each in node.growths} == {("PersistentVolumeClaim default/d1", 2 << 30)}
    return [each.step for each in node.growths]


def grow(node: TestNode, script: Script, *errors: Exception, status: str = "NodeResizePending") -> None:
    """Let a Pod's volume be grown by a controller, and fail on the node with these errors, one after the other."""
    offer(node, "1Gi", "ReadWriteOnce", "1Gi")
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    script.fail("expand", *errors)
    offer(node, "2Gi", "ReadWriteOnce", "1Gi", status)


def test_a_claim_is_told_that_its_volume_grows_and_has_grown(node: TestNode, disk_script: Script) -> None:
    grow(node, disk_script)
    assert told(node) == [GrowthStep.BEGUN, GrowthStep.DONE]
    assert disk_script.last("expand").known_size == 1 << 30


def test_a_volume_that_cannot_grow_in_use_is_tried_again_after_its_next_mount(
    node: TestNode, disk_script: Script
) -> None:
    grow(node, disk_script, BusyError("in use"))
    node.advance(3600)
    offer(node, "2Gi", "ReadWriteOnce", "1Gi", "NodeResizeInProgress")
    assert disk_script.count("expand") == 1
    assert told(node) == [GrowthStep.BEGUN, GrowthStep.FAILED]
    assert node.growths[-1].error == "in use"
    assert node.warnings() == ("expand: in use",)
    assert node.world.events.after(0)[-1].reason == "VolumeResizeFailed"
    (report,) = why(node.world, "web")
    assert "not tried again until the next mount of example.com/disk/d1; in use" in report.text
    node.apply(pod("second", claim_of("data", "d1"), uid="u2"))
    assert disk_script.count("expand") == 2
    assert told(node)[2:] == [GrowthStep.BEGUN, GrowthStep.DONE]


class Republished(Disk):
    """A disk that is mounted again each minute."""

    def refresh_at(self, spec: VolumeSpec[ProbeSource], mounted_at: float) -> float:
        del spec
        return mounted_at + 60


def test_a_mount_that_is_only_made_again_is_no_next_one(host: FakeHost, config: Config) -> None:
    script = Script(facets=replace(DISK_FACETS, remount=True))
    node = TestNode(host, plugins_of(Republished(script)), config)
    node.sources_ready()
    grow(node, script, BusyError("in use"))
    node.advance(300)
    assert script.count("mount") > 1
    assert script.count("expand") == 1


def test_a_size_that_cannot_be_is_not_tried_again_before_it_changes(node: TestNode, disk_script: Script) -> None:
    grow(node, disk_script, SpecError("out of range"))
    node.advance(3600)
    node.apply(pod("second", claim_of("data", "d1"), uid="u2"))
    assert disk_script.count("expand") == 1
    assert told(node) == [GrowthStep.BEGUN, GrowthStep.INFEASIBLE]
    offer(node, "3Gi", "ReadWriteOnce", "1Gi", "NodeResizePending")
    assert disk_script.count("expand") == 2


def test_a_failure_is_told_and_tried_again(node: TestNode, disk_script: Script) -> None:
    grow(node, disk_script, OperationError("backend"), UncertainError("no answer"))
    node.advance(10)
    steps = told(node)
    assert [step for step in steps if step is not GrowthStep.BEGUN] == [GrowthStep.FAILED, GrowthStep.DONE]
    assert steps.count(GrowthStep.BEGUN) == 3


def test_a_claim_that_knows_already_is_told_nothing(node: TestNode, disk_script: Script) -> None:
    offer(node, "1Gi", "ReadWriteMany", "1Gi")
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    offer(node, "2Gi", "ReadWriteMany", "2Gi")
    assert disk_script.count("expand") == 1
    assert disk_script.last("expand").known_size == 2 << 30
    assert node.growths == []


def test_a_claim_is_told_after_a_crash_that_came_first(node: TestNode, disk_script: Script) -> None:
    grow(node, disk_script)
    node.start()
    node.sources_ready()
    offer(node, "2Gi", "ReadWriteOnce", "1Gi", "NodeResizeInProgress")
    assert node.is_mounted("web")
    assert set(told(node)) == {GrowthStep.DONE}
    assert disk_script.count("expand") == 1


@pytest.mark.parametrize(("capacity", "events"), [("1Gi", 1), ("2Gi", 0)])
def test_what_is_mounted_read_only_does_not_grow_which_is_said(
    node: TestNode, disk_script: Script, capacity: str, events: int
) -> None:
    offer(node, "2Gi", "ReadOnlyMany", capacity, "NodeResizePending" if events else "")
    node.apply(pod("web", claim_of("data", "d1", read_only=True), uid="u1"))
    assert node.is_mounted("web")
    assert disk_script.count("expand") == 0
    said = [event for event in node.world.events.after(0) if event.reason == "FileSystemResizeFailed"]
    assert len(said) == events
    assert node.growths == []


@pytest.fixture
def disk(host: FakeHost) -> TestNode:
    """A node with a Pod whose disk is mounted on it."""
    host.put(IMAGE, bytes(64 << 10))
    host.machine.format(host.block.attach_loop(IMAGE), "ext4")
    host.block.detach_loop(Path("/dev/loop0"))
    node = TestNode(host, plugins_of(LoopDisk()))
    node.sources_ready()
    node.put_file("storage.yaml", *storage("disk", source={"loopDisk": {"path": str(IMAGE)}}, size="64Ki"))
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    return node


def device_mount(host: FakeHost) -> Path:
    return host.paths.plugin(LoopDisk.name) / "mounts" / "%2Fsrv%2Fdisk.img"


def test_a_device_that_is_mounted_elsewhere_is_not_unmounted(host: FakeHost, disk: TestNode) -> None:
    host.mkdir("/mnt/elsewhere")
    mount = host.machine.mount("/mnt/elsewhere", "ext4", source="/dev/loop0")
    disk.delete("u1")
    target = device_mount(host)
    assert set(host.table) == {target, Path("/mnt/elsewhere")}
    assert (
        f"cannot unmount {target}: its device is still mounted by other references: /mnt/elsewhere"
        in (disk.warnings()[-1])
    )
    host.machine.unmount(mount)
    disk.advance(300)
    assert host.table == {}
    assert host.machine.loops == {}


@pytest.mark.parametrize("prefix", ["/rootfs", "/mnt/rslave/host"])
def test_copies_of_the_node_s_mounts_below_another_root_are_no_other_references(
    host: FakeHost, disk: TestNode, prefix: str
) -> None:
    target = device_mount(host)
    copy = Path(f"{prefix}/kubelet/{target.relative_to(host.paths.root)}")
    host.mkdir(copy)
    mount = host.machine.bind(target, copy)
    disk.delete("u1")
    assert set(host.table) == {copy}
    assert "is in use when it was no longer expected to be in use" in disk.warnings()[-1]
    (volume,) = disk.world.actual
    assert volume.device is Presence.UNCERTAIN
    host.machine.unmount(mount)
    disk.advance(300)
    assert len(disk.world.actual) == 0


def test_a_directory_of_the_same_device_is_no_other_reference(host: FakeHost, disk: TestNode) -> None:
    host.mkdir(device_mount(host) / "inner")
    host.mkdir("/mnt/inner")
    mount = host.machine.bind(device_mount(host) / "inner", "/mnt/inner")
    disk.delete("u1")
    assert set(host.table) == {Path("/mnt/inner")}
    host.machine.unmount(mount)
    disk.advance(300)
    assert len(disk.world.actual) == 0


def test_a_device_that_somebody_holds_open_stays_uncertain_until_he_lets_go(host: FakeHost, disk: TestNode) -> None:
    host.busy[Path("/dev/loop0")] = ("fio (12)",)
    disk.delete("u1")
    assert host.table == {}
    (volume,) = disk.world.actual
    assert volume.device is Presence.UNCERTAIN
    assert "is in use when it was no longer expected to be in use" in disk.warnings()[-1]
    host.busy.clear()
    disk.advance(300)
    assert len(disk.world.actual) == 0


def test_a_device_that_is_gone_is_no_obstacle(host: FakeHost, disk: TestNode) -> None:
    del host.machine.loops[Path("/dev/loop0")]
    host.machine.unlink("/dev/loop0")
    disk.delete("u1")
    assert len(disk.world.actual) == 0
