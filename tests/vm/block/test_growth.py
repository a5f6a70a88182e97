"""File systems of disks grow while a Pod writes to them: ext4 too, which a container's kernel may refuse."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.objects import CLAIMED, claim, local
from tests.vm.servers.guest import load, tell
from tests.vm.servers.node import VmNode

MIB = 1 << 20
RAW = {"name": "main", "volumeDevices": [{"name": "v", "devicePath": "/dev/disk"}]}
LOCAL = "kubernetes.io~local-volume"
SMALL, LARGE = 320 * MIB, 640 * MIB  # xfs wants 300 MiB


@dataclass(frozen=True)
class Disk:
    """A loop device that can become larger, as a disk of a storage can."""

    file: Path
    device: Path

    def grow(self, size: int) -> None:
        os.truncate(self.file, size)
        tell("losetup", "--set-capacity", self.device)


@pytest.fixture
def disk() -> Iterator[Disk]:
    load("loop")
    file = Path("/srv/growing")
    with file.open("wb") as image:
        image.truncate(SMALL)
    device = Path(tell("losetup", "--find", "--show", file).strip())
    yield Disk(file, device)
    tell("losetup", "--detach", device)
    file.unlink()


def offer(node: VmNode, disk: Disk, size: int, fs_type: str = "", mode: str = "Filesystem") -> None:
    """Let there be a volume of the disk, so large, and its claim."""
    mib = f"{size // MIB}Mi"
    source = {"path": str(disk.device), "fsType": fs_type}
    volume = local("data", disk.device, mib, local=source, volumeMode=mode)
    node.put("storage.json", volume, claim(size=mib, volumeName="data", volumeMode=mode))


@pytest.mark.parametrize(
    "fs_type",
    # Where the kernel of this machine outside can, it shows the other two in tests/root.
    ["ext4", pytest.param("xfs", marks=pytest.mark.slow), pytest.param("btrfs", marks=pytest.mark.slow)],
)
def test_a_mounted_file_system_grows_with_its_disk_and_keeps_what_is_in_it(
    node: VmNode, disk: Disk, fs_type: str
) -> None:
    offer(node, disk, SMALL, fs_type)
    node.mounted_pod("web", CLAIMED)
    place = node.volume("web", "data", LOCAL)
    before = shutil.disk_usage(place).total
    (place / "kept").write_text("kept")
    with (place / "open").open("w") as file:
        disk.grow(LARGE)
        offer(node, disk, LARGE, fs_type)
        eventually(lambda: shutil.disk_usage(place).total > before * 1.8, lambda: f"growth: {node.why('web')}")
        file.write("still written")
    assert (place / "kept").read_text() == "kept"
    assert (place / "open").read_text() == "still written"
    node.remove_pod("web")


def test_a_block_volume_of_a_pod_has_the_new_size_of_its_disk(node: VmNode, disk: Disk) -> None:
    offer(node, disk, SMALL, mode="Block")
    node.mounted_pod("raw", CLAIMED, containers=[RAW])
    device = node.device("raw", LOCAL, "data")
    assert size_of(device) == SMALL
    disk.grow(LARGE)
    assert size_of(device) == LARGE
    node.remove_pod("raw")


def size_of(device: Path) -> int:
    return int(tell("blockdev", "--getsize64", device))
