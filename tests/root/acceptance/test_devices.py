"""What local volumes promise: directories and devices, what is formatted, and above all what never is."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.objects import CLAIMED, claim, local
from tests.root.acceptance.outside import Outside, pod

MIB = 1 << 20
LOCAL = "kubernetes.io~local-volume"
FIRST_LBA_OF_GPT = 512
Disk = Callable[..., Path]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Attaches files as devices: name, size, and what is written to the file before."""
    with ExitStack() as attached:

        def attach(name: str, size: int = 16 * MIB, prepare: Callable[[Path], object] = Path.exists) -> Path:
            image = tmp_path / f"{name}.img"
            with image.open("wb") as file:
                file.truncate(size)
            prepare(image)
            command = ["losetup", "--find", "--show", str(image)]
            device = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
            attached.callback(subprocess.run, ["losetup", "--detach", device], check=False)
            return Path(device)

        yield attach


def writes(text: bytes, at: int) -> Callable[[Path], None]:
    """Write something somewhere; negative places are from the end."""

    def write(image: Path) -> None:
        with image.open("r+b") as file:
            file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
            file.write(text)

    return write


def runs(*command: str, text: str = "") -> Callable[[Path], None]:
    """Run a tool on the image."""

    def run(image: Path) -> None:
        subprocess.run([*command, str(image)], check=True, input=text, text=True, capture_output=True)

    return run


def partitioned(image: Path) -> None:
    """Write an MBR with one partition of Linux."""
    entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    writes(entry, 446)(image)
    writes(b"\x55\xaa", 510)(image)


def damaged(image: Path) -> None:
    """Lose the first MiB of an ext4 of which backups are left."""
    runs("mkfs.ext4", "-q")(image)
    writes(bytes(MIB), 0)(image)
    writes(bytes(MIB), -MIB)(image)


def locked(image: Path) -> None:
    """Encrypt it."""
    fast = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "-")
    runs("cryptsetup", "luksFormat", "--batch-mode", *fast, text="passphrase")(image)


CONTENT: dict[str, tuple[int, Callable[[Path], object], str]] = {
    "table": (16 * MIB, partitioned, "a partition table of type dos"),
    "luks": (32 * MIB, locked, "a signature of crypto_LUKS"),
    "swap": (16 * MIB, runs("mkswap"), "a signature of swap"),
    "first": (16 * MIB, writes(b"x", MIB - 1), f"data in the first MiB (at byte {MIB - 1})"),
    "last": (16 * MIB, writes(b"x", -1), f"data in the last MiB (at byte {16 * MIB - 1})"),
    "damaged": (160 * MIB, damaged, "a backup superblock of ext4"),
}


def test_a_device_that_is_not_proved_empty_is_never_formatted_and_why_says_what_its_owner_can_do(
    node: Outside, disk: Disk
) -> None:
    devices = {name: disk(name, size, prepare) for name, (size, prepare, _) in CONTENT.items()}
    before = {name: device.read_bytes() for name, device in devices.items()}
    for name, device in devices.items():
        claimed = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
        node.put(
            f"{name}.json", local(f"disk-{name}", device), claim(name, volumeName=f"disk-{name}"), pod(name, claimed)
        )
    for name, (_, _, found) in CONTENT.items():
        command = f"blkdiscard --force --zeroout {devices[name]}"
        for part in (str(devices[name]), f"PersistentVolume disk-{name}", found, command):
            node.until_why(name, part)
    node.kill()
    node.start()
    for name, (_, _, found) in CONTENT.items():
        node.until_why(name, found)
    assert {name: device.read_bytes() for name, device in devices.items()} == before
    assert not node.mounts()
    (node.manifests / "first.json").unlink()
    node.wait("first", "unmounted")
    subprocess.run(["blkdiscard", "--force", "--zeroout", str(devices["first"])], check=True)
    node.put("first.json", local("disk-first", devices["first"]), claim("first"), pod("first", CLAIMED | FIRST))
    node.wait("first")
    assert " - ext4 " in node.mounts()[str(node.volume("first", "disk-first", LOCAL))]


FIRST = {"persistentVolumeClaim": {"claimName": "first"}}


def test_a_device_without_a_medium_is_said(node: Outside, disk: Disk) -> None:
    device = disk("none", 0)
    node.put("shop.json", local("disk", device), claim(), pod("shop", CLAIMED))
    node.until_why("shop", "no medium")
    assert str(device) in node.why("shop")
    assert "PersistentVolume disk" in node.why("shop")


def test_an_empty_device_is_formatted_once_kept_over_kill_shared_and_given_back(node: Outside, disk: Disk) -> None:
    device = disk("empty")
    node.put("pv.json", local("disk", device), claim())
    files = [node.put(f"{name}.json", pod(name, CLAIMED)) for name in ("a", "b")]
    for name in ("a", "b"):
        node.wait(name)
    places = [node.volume(name, "disk", LOCAL) for name in ("a", "b")]
    (places[0] / "file").write_text("kept")
    before = node.mounts()
    node.kill()
    node.start()
    node.wait("a")
    assert (places[1] / "file").read_text() == "kept"
    assert node.mounts() == before
    for file in files:
        file.unlink()
    for name in ("a", "b"):
        node.wait(name, "unmounted")
    eventually(lambda: not node.mounts())
    descriptor = os.open(device, os.O_RDONLY | os.O_EXCL)
    os.close(descriptor)
    node.put("c.json", pod("c", CLAIMED))
    node.wait("c")
    assert (node.volume("c", "disk", LOCAL) / "file").read_text() == "kept"


def test_a_file_system_that_is_there_is_mounted_as_it_is_and_a_wrong_type_is_said(node: Outside, disk: Disk) -> None:
    device = disk("xfs", 320 * MIB, runs("mkfs.xfs", "-q"))
    other = disk("ext4", 16 * MIB, runs("mkfs.ext4", "-q"))
    wrong = {"name": "v", "persistentVolumeClaim": {"claimName": "wrong"}}
    node.put("a.json", local("right", device, local={"path": str(device), "fsType": "xfs"}), claim(volumeName="right"))
    node.put("b.json", pod("shop", CLAIMED), pod("wrong", wrong))
    node.put(
        "c.json", local("other", other, local={"path": str(other), "fsType": "xfs"}), claim("wrong", volumeName="other")
    )
    node.wait("shop")
    assert " - xfs " in node.mounts()[str(node.volume("shop", "right", LOCAL))]
    node.until_why("wrong", "filesystem mismatch: it has ext4")


def test_a_block_volume_is_a_device_for_the_container_and_never_formatted(node: Outside, disk: Disk) -> None:
    device = disk("raw")
    node.put("pv.json", local("raw", device, volumeMode="Block"), claim(volumeMode="Block"))
    containers = [{"name": "main", "volumeDevices": [{"name": "v", "devicePath": "/dev/data"}]}]
    file = node.put("shop.json", pod("shop", CLAIMED, containers=containers))
    node.wait("shop")
    (told,) = json.loads(node.volmgr("mounts", "shop", "--format", "json").stdout)["containers"]
    (given,) = told["devices"]
    assert given["path"] == "/dev/data"
    assert os.makedev(given["major"], given["minor"]) == device.stat().st_rdev
    link = node.root / "pods/uid-shop/volumeDevices" / LOCAL / "raw"
    assert stat.S_ISBLK(link.stat().st_mode)
    file.unlink()
    node.wait("shop", "unmounted")
    assert not os.path.lexists(link)
    assert not any(device.read_bytes())
    descriptor = os.open(device, os.O_RDONLY | os.O_EXCL)
    os.close(descriptor)


def test_a_directory_is_bound_and_stays_and_a_file_is_refused(node: Outside, tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "file"
    data.mkdir()
    (data / "kept").write_text("x")
    file.touch()
    node.put("good.json", local("good", data), claim(volumeName="good"), pod("shop", CLAIMED))
    for name, path in (("file", file), ("gone", tmp_path / "gone"), ("dots", f"{data}/../data")):
        claimed = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
        node.put(f"{name}.json", local(name, path), claim(name, volumeName=name), pod(name, claimed))
    node.wait("shop")
    assert (node.volume("shop", "good", LOCAL) / "kept").read_text() == "x"
    for name, part in (("file", "file"), ("gone", "does not exist"), ("dots", "..")):
        node.until_why(name, part)
    (tmp_path / "gone").mkdir()
    node.wait("gone")
    node.volmgr("drain")
    assert (data / "kept").read_text() == "x"
    shutil.rmtree(data)
