"""The whole core on real devices: attached, mounted, mapped, grown, found again and detached (FakeHost: tests/flow)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.core.probes import claim_of, storage
from volmgr.host.interface import Host
from volmgr.host.local import local_host
from volmgr.model.volume import Presence
from volmgr.report.why import why
from volmgr.testing.loopdisk import LoopDisk
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr.testing.real_host import RealHosts

MIB = 1 << 20
FORMATS = {"ext4": ("mkfs.ext4", "-q", "-F", "-m0"), "xfs": ("mkfs.xfs", "-q", "-f")}


class Machine:
    """A real host, its disk images, and a node on it."""

    def __init__(self, host: Host, top: Path) -> None:
        self.host = host
        self.top = top
        self.node = TestNode(host, plugins_of(LoopDisk()))
        self.node.sources_ready()

    def image(self, name: str, size: int, fs_type: str = "") -> Path:
        """Make a disk image."""
        path = self.top / name
        with path.open("wb") as file:
            file.truncate(size)
        if fs_type:
            subprocess.run([*FORMATS[fs_type], str(path)], check=True, capture_output=True)
        return path

    def offer(self, image: Path, *, fs_type: str = "ext4", size: str = "300Mi", block: bool = False) -> None:
        """Let there be a PersistentVolume and the claim `disk` for an image."""
        source = {"loopDisk": {"path": str(image), "fsType": fs_type}}
        self.node.put_file("storage.yaml", *storage("disk", source=source, size=size, block=block))

    def restart(self) -> None:
        """Kill the daemon and start it again."""
        self.node.start()
        self.node.settle()
        self.node.sources_ready()

    def loops(self, image: Path) -> tuple[Path, ...]:
        return self.host.block.find_loops(image)

    @property
    def mounts(self) -> set[Path]:
        """What is mounted below the root, relative to it."""
        root = self.host.paths.root
        return {entry.target.relative_to(root) for entry in self.host.mounts.below(root)} - {Path()}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHosts]:
    with RealHosts(tmp_path_factory.mktemp("loop-disk")) as hosts:
        yield hosts


@pytest.fixture
def machine(hosts: RealHosts) -> Iterator[Machine]:
    host, top = hosts.fresh()
    machine = Machine(host, top)
    yield machine
    loops = [loop for image in top.iterdir() for loop in host.block.find_loops(image)]
    for lock in (lock for loop in loops for lock in host.block.find_loops(loop)):  # what a failed test left
        host.block.detach_loop(lock)
    for entry in host.mounts.below(host.paths.root):
        host.mounts.unmount(entry.target)
    for loop in loops:
        host.block.detach_loop(loop)


def test_a_disk_is_attached_mounted_and_given_back(machine: Machine) -> None:
    node, image = machine.node, machine.image("disk.img", 64 * MIB, "ext4")
    machine.offer(image, size="64Mi")
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    target = machine.host.paths.volume("u1", LoopDisk.name, "pv-disk")
    entry = machine.host.mounts.entry(target)
    assert entry is not None
    (device,) = machine.loops(image)
    assert (entry.fstype, entry.source) == ("ext4", str(device))
    node.delete("u1")
    assert machine.mounts == set()
    assert machine.loops(image) == ()
    assert len(node.world.actual) == 0
    assert not machine.host.paths.pod("u1").exists()


def test_a_mounted_file_system_grows_with_its_persistent_volume(machine: Machine) -> None:
    # xfs: resize2fs of a mounted ext4 needs CAP_SYS_RESOURCE, which a container may not have.
    fs_type = "xfs"
    node, image = machine.node, machine.image("disk.img", 320 * MIB, fs_type)
    machine.offer(image, fs_type=fs_type, size="320Mi")
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    target = machine.host.paths.volume("u1", LoopDisk.name, "pv-disk")
    (target / "file").write_text("kept", encoding="utf-8")
    before = machine.host.mounts.file_system(target).size

    os.truncate(image, 640 * MIB)
    machine.offer(image, fs_type=fs_type, size="640Mi")
    assert node.warnings() == ()
    assert machine.host.mounts.file_system(target).size > before * 1.5
    assert (target / "file").read_text(encoding="utf-8") == "kept"

    node.delete("u1")
    assert machine.loops(image) == ()


def test_a_restart_finds_a_mounted_disk_without_touching_it(machine: Machine) -> None:
    node, image = machine.node, machine.image("disk.img", 64 * MIB, "ext4")
    machine.offer(image, size="64Mi")
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    target = machine.host.paths.volume("u1", LoopDisk.name, "pv-disk")
    identity = machine.host.files.identity(target)
    machine.restart()
    assert node.is_mounted("u1")
    assert machine.host.files.identity(target) == identity
    node.delete("u1")
    assert machine.mounts == set()
    assert machine.loops(image) == ()


def test_a_disk_is_found_again_without_any_record(machine: Machine) -> None:
    node, image = machine.node, machine.image("disk.img", 64 * MIB, "ext4")
    machine.offer(image, size="64Mi")
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    for kind in ("mounts", "volumes"):
        subprocess.run(["rm", "-r", str(machine.host.paths.state / kind)], check=True)
    machine.restart()
    name = f"{LoopDisk.name}/{image}"
    volume = node.world.actual.get(name)
    assert volume is not None
    assert volume.mounts["u1"].state is Presence.YES
    node.delete("u1")
    assert machine.mounts == set()
    assert machine.loops(image) == ()


def test_a_device_is_mapped_for_two_pods_and_unmapped(machine: Machine) -> None:
    node, image = machine.node, machine.image("disk.img", 16 * MIB)
    machine.offer(image, block=True, size="16Mi")
    for name in ("a", "b"):
        node.apply(pod(name, claim_of("data", "disk"), uid=f"u{name}", devices=("data",)))
        assert node.is_mounted(name), node.warnings()
    (device,) = machine.loops(image)
    link = machine.host.paths.block_volume("ua", LoopDisk.name, "pv-disk")
    assert link.readlink() == device
    maps = next(machine.host.paths.block_maps(LoopDisk.name).iterdir())
    for uid in ("ua", "ub"):
        assert (maps / uid).is_block_device()
        assert (maps / uid).stat().st_rdev == device.stat().st_rdev
    assert machine.loops(device), "no loop device locks the mapped one"
    with link.open("r+b") as file:
        file.write(b"written through the link")
        file.flush()
        os.fsync(file)
    assert image.read_bytes().startswith(b"written through the link")

    machine.restart()
    assert node.is_mounted("a")
    node.delete("ua")
    assert not link.is_symlink()
    assert machine.mounts == {(maps / "ub").relative_to(machine.host.paths.root)}
    node.delete("ub")
    assert machine.mounts == set()
    assert not maps.exists()
    assert machine.loops(image) == ()


def test_a_mapped_device_grows(machine: Machine) -> None:
    node, image = machine.node, machine.image("disk.img", 16 * MIB)
    machine.offer(image, block=True, size="16Mi")
    node.apply(pod("web", claim_of("data", "disk"), uid="u1", devices=("data",)))
    os.truncate(image, 32 * MIB)
    machine.offer(image, block=True, size="32Mi")
    (device,) = machine.loops(image)
    assert machine.host.block.size(device) == 32 * MIB
    node.delete("u1")
    assert machine.loops(image) == ()


def test_a_read_only_claim_is_mounted_read_only(machine: Machine) -> None:
    node, image = machine.node, machine.image("disk.img", 64 * MIB, "ext4")
    machine.offer(image, size="64Mi")
    node.apply(pod("web", claim_of("data", "disk", read_only=True), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    with pytest.raises(OSError, match="Read-only file system"):
        (machine.host.paths.volume("u1", LoopDisk.name, "pv-disk") / "file").touch()
    node.delete("u1")
    assert machine.mounts == set()


def test_a_vanished_device_mount_is_made_again(machine: Machine) -> None:
    node, image = machine.node, machine.image("disk.img", 64 * MIB, "ext4")
    machine.offer(image, size="64Mi")
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    before = machine.mounts
    target = machine.host.paths.volume("u1", LoopDisk.name, "pv-disk")
    subprocess.run(["umount", str(target)], check=True)
    (device_mount,) = machine.mounts
    subprocess.run(["umount", str(machine.host.paths.root / device_mount)], check=True)
    node.mounts_changed()
    assert machine.mounts == before
    assert node.is_mounted("web")
    node.delete("u1")
    assert machine.loops(image) == ()


@pytest.mark.parametrize("block", [False, True], ids=["mounted", "mapped"])
def test_a_disk_below_linked_directories_is_given_back(hosts: RealHosts, block: bool) -> None:
    host, top = hosts.fresh()
    link = top.parent / "linked"
    link.symlink_to(host.paths.root)
    (top.parent / "images").symlink_to(top)
    machine = Machine(local_host(link), top.parent / "images")
    node, image = machine.node, machine.image("disk.img", 16 * MIB, "ext4")
    machine.offer(image, size="16Mi", block=block)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1", devices=("data",) if block else ()))
    assert node.is_mounted("web"), node.warnings()
    assert len(machine.loops(top / "disk.img")) == 1
    machine.restart()
    node.delete("u1")
    assert node.is_unmounted("u1"), node.warnings()
    assert machine.mounts == set()
    assert machine.loops(image) == ()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("block", [False, True], ids=["mounted", "mapped"])
def test_a_disk_whose_image_was_deleted_is_given_back(machine: Machine, block: bool, restarted: bool) -> None:
    node, image = machine.node, machine.image("disk.img", 16 * MIB, "ext4")
    machine.offer(image, size="16Mi", block=block)
    node.apply(pod("web", claim_of("data", "disk"), uid="u1", devices=("data",) if block else ()))
    (device,) = machine.loops(image)
    image.unlink()
    if restarted:
        machine.restart()
    node.delete("u1")
    assert node.is_unmounted("u1"), node.warnings()
    assert machine.mounts == set()
    assert machine.loops(image) == ()
    assert not Path(f"/sys/block/{device.name}/loop").exists()


def test_a_pod_reads_and_writes_on_while_another_of_its_volume_comes_and_goes(machine: Machine) -> None:
    node, image = machine.node, machine.image("disk.img", 64 * MIB, "ext4")
    machine.offer(image, size="64Mi")
    node.apply(*(pod(name, claim_of("data", "disk"), uid=f"u{name}") for name in "ab"))
    first, second = (machine.host.paths.volume(uid, LoopDisk.name, "pv-disk") for uid in ("ua", "ub"))
    with (second / "file").open("w+b", buffering=0) as file:
        for number in range(10):
            node.delete("ua")
            file.write(b"x")
            assert not first.exists()
            assert (second / "file").stat().st_size == 2 * number + 1
            node.apply(pod("a", claim_of("data", "disk"), uid="ua"))
            file.write(b"x")
            assert (first / "file").read_bytes() == b"x" * (2 * number + 2)
    node.delete("ua")
    assert len(machine.loops(image)) == 1
    node.delete("ub")
    assert machine.mounts == set()
    assert machine.loops(image) == ()


def turn_read_only(machine: Machine) -> tuple[Path, Path]:
    """Let there be a Pod whose file system turns read-only; gives its mount on the node and that of the Pod."""
    node, image = machine.node, machine.image("disk.img", 64 * MIB, "ext4")
    machine.offer(image, size="64Mi")
    node.apply(pod("web", claim_of("data", "disk"), uid="u1"))
    mounted = machine.host.paths.volume("u1", LoopDisk.name, "pv-disk")
    (on_node,) = {machine.host.paths.root / path for path in machine.mounts} - {mounted}
    subprocess.run(["mount", "-o", "remount,ro", str(on_node)], check=True)
    return on_node, mounted


def test_a_file_system_that_turned_read_only_is_noticed_within_ten_seconds_and_made_writable(machine: Machine) -> None:
    on_node, mounted = turn_read_only(machine)
    machine.node.advance(10)
    assert machine.node.warnings() == ("its mount has turned read-only",) * 2, "on the node, and for the Pod"
    for number, path in enumerate((on_node, mounted)):
        (path / f"file-{number}").touch()
    assert machine.node.is_mounted("web")
    machine.node.advance(3600)
    assert len(machine.node.warnings()) == 2, "once is enough"
    machine.node.delete("u1")
    assert machine.mounts == set()


def test_a_file_system_that_stays_read_only_is_named_until_it_is_not(machine: Machine) -> None:
    on_node, mounted = turn_read_only(machine)
    (device,) = machine.loops(machine.top / "disk.img")
    subprocess.run(["blockdev", "--setro", str(device)], check=True)
    machine.node.advance(60)
    assert not machine.node.is_mounted("web")
    assert f"remount {on_node} with rw" in why(machine.node.world, "web")[0].text
    subprocess.run(["blockdev", "--setrw", str(device)], check=True)
    machine.node.advance(122)
    assert machine.node.is_mounted("web")
    (mounted / "file").touch()
    machine.node.delete("u1")
    assert machine.mounts == set()
