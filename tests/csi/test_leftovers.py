"""What crashes, reboots and others leave of a driver's volumes: taken down by the driver, or kept and named."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.csi import objects
from tests.csi.fault_driver.kernel import is_mounted, unmount
from tests.csi.fault_driver.running import ThreadDriver, running_fault_process
from tests.csi.node import QUICK, CsiNode, registry
from tests.eventually import eventually
from tests.root.acceptance.outside import pod

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def orphan(node: CsiNode, driver: str) -> Path:
    """Let there be the directory of a volume of a Pod that nobody knows, while the daemon is down; give its mount/."""
    target = node.root / "pods/uid-lost/volumes/kubernetes.io~csi/pv-disk/mount"
    target.mkdir(parents=True)
    record = {
        "attachmentID": "csi-none",
        "driverName": driver,
        "nodeName": "",
        "specVolID": "pv-disk",
        "volumeHandle": "disk",
        "volumeLifecycleMode": "Persistent",
    }
    (target.parent / "vol_data.json").write_text(f"{json.dumps(record)}\n")
    return target


def test_an_empty_directory_of_a_lost_pod_goes_i01(node: CsiNode, driver: ThreadDriver) -> None:
    node.stop()
    orphan(node, driver.name)
    node.start()
    node.until_clean()


def test_a_mount_of_a_lost_pod_is_unpublished_by_its_driver_i01(node: CsiNode, driver: ThreadDriver) -> None:
    node.stop()
    target = orphan(node, driver.name)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", target], check=True)
    node.start()
    node.until_clean()
    (call,) = driver.calls("NodeUnpublishVolume")
    assert (call.request["volumeId"], call.request["targetPath"]) == ("disk", str(target))


def test_a_file_where_nothing_is_mounted_is_kept_and_said_once_i01(node: CsiNode, driver: ThreadDriver) -> None:
    node.stop()
    target = orphan(node, driver.name)
    (target / "orders").write_text("precious")
    node.start()
    eventually(lambda: node.json("orphans")["orphans"], lambda: f"an orphan: {node.log_text()}")
    (kept,) = node.json("orphans")["orphans"]
    assert kept["path"] == str(target.parent)
    node.settle()
    assert (target / "orders").read_text() == "precious"
    said = [line for line in node.log_text().splitlines() if str(target) in line]
    assert len(said) <= 1, said
    shutil.rmtree(node.root / "pods/uid-lost")


def test_what_was_written_below_a_mount_that_was_lost_is_kept_and_the_pod_goes_i09(
    node: CsiNode, driver: ThreadDriver
) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    shop = node.put("shop.json", pod("shop", objects.claimed("disk")))
    node.wait("shop")
    target = node.target("shop", "pv-disk")
    node.kill()
    subprocess.run(["umount", target], check=True)
    (target / "orders").write_text("precious")
    shop.unlink()
    node.start()
    eventually(lambda: node.json("orphans")["orphans"], lambda: f"an orphan: {node.log_text()}")
    node.wait("shop", "unmounted")
    (kept,) = node.json("orphans")["orphans"]
    assert kept["path"] == str(target.parent)
    assert "data" in kept["reason"]
    driver.until_called("NodeUnstageVolume", code="OK")  # after the Pod's part
    assert driver.volumes.get("disk").staged == []
    assert (target / "orders").read_text() == "precious"
    calls = len(driver.calls())
    node.settle()
    assert len(driver.calls()) == calls
    shutil.rmtree(node.root / "pods/uid-shop")


def emptied(file: Path) -> None:
    file.write_text("")


def cut(file: Path) -> None:
    file.write_text(file.read_text()[:20])


@pytest.mark.parametrize("damage", [emptied, cut, Path.unlink])
@pytest.mark.parametrize("stays", [True, False], ids=["restart", "deleted"])
def test_a_damaged_vol_data_json_stops_nothing_i10(
    node: CsiNode, driver: ThreadDriver, damage: Callable[[Path], None], stays: bool
) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    shop = node.put("shop.json", pod("shop", objects.claimed("disk")))
    node.wait("shop")
    node.kill()
    files = list(node.vol_data())
    assert len(files) == 2
    for file in files:
        damage(node.root / file)
    if not stays:
        shop.unlink()
    node.start()
    if stays:
        node.wait("shop")
        assert is_mounted(str(node.target("shop", "pv-disk")))
        shop.unlink()
    node.until_clean()
    calls = [call.method for call in driver.calls("NodeUnpublishVolume", "NodeUnstageVolume")]
    assert calls == ["NodeUnpublishVolume", "NodeUnstageVolume"]


def test_after_a_reboot_volumes_are_staged_and_published_before_they_count_as_mounted_i11(top: Path) -> None:
    with running_fault_process(top / "driver", registration=registry(top) / "fault-reg.sock") as driver:
        for name in ("disk", "raw"):
            driver.add_volume(name, block=name == "raw")
        with CsiNode(top, **QUICK) as node:
            node.put("driver.json", objects.driver_object(driver.name))
            node.until_registered(driver.name)
            node.put(
                "disk.json", *objects.bound(driver.name, "disk"), *objects.bound(driver.name, "raw", volumeMode="Block")
            )
            node.put("shop.json", pod("shop", objects.claimed("disk")))
            node.put("db.json", objects.device_pod("db", objects.claimed("raw")))
            for name in ("shop", "db"):
                node.wait(name)
            (node.target("shop", "pv-disk") / "file").write_text("kept")
            node.kill()
            driver.kill()
            with rebooted(node, driver.top):
                node.start()
            driver.start()
            for name in ("shop", "db"):
                node.wait(name)
            assert (node.target("shop", "pv-disk") / "file").read_text() == "kept"
            assert node.device("db", "pv-raw").is_block_device()
            for method in ("NodeStageVolume", "NodePublishVolume"):
                assert len(driver.calls(method)) == 4
            for name in ("shop", "db"):
                (node.manifests / f"{name}.json").unlink()
            node.until_clean()


@contextmanager
def rebooted(node: CsiNode, state: Path) -> Generator[None]:
    """Let nothing be mounted, attached to a loop device, nor known of that to the driver, as after a reboot."""
    for loop in Path("/sys/block").glob("loop*/loop/backing_file"):
        if loop.read_text().startswith((f"{node.root}/", f"{state}/")):
            subprocess.run(["losetup", "--detach", f"/dev/{loop.parts[3]}"], check=True)
    for path in sorted(node.mounts(), reverse=True):
        subprocess.run(["umount", path], check=True)
    for record in (state / "volumes").glob("*.json"):
        known = json.loads(record.read_text())
        record.write_text(json.dumps({**known, "staged": [], "published": {}}))
    boot = node.top / "boot_id"
    boot.write_text(f"{uuid4()}\n")
    subprocess.run(["mount", "--bind", boot, BOOT_ID], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", BOOT_ID], check=True)


@pytest.mark.parametrize("wanted", [False, True])
def test_a_volume_that_a_kubelet_left_staged_for_no_pod_is_unstaged_unless_one_wants_it(
    node: CsiNode, driver: ThreadDriver, wanted: bool
) -> None:
    volume = driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    shop = node.put("shop.json", pod("shop", objects.claimed("disk")))
    node.wait("shop")
    node.stop()
    shop.unlink()
    unmount(str(node.target("shop", "pv-disk")))
    for ours in ("pods", "volmgr"):
        shutil.rmtree(node.root / ours)
    (staging,) = node.global_mounts()
    driver.volumes.keep(replace(volume, staged=[str(staging)]))
    if wanted:
        node.put("cafe.json", pod("cafe", objects.claimed("disk")))
    node.start()
    if wanted:
        node.wait("cafe")
        assert driver.calls("NodeUnstageVolume") == []
        (node.manifests / "cafe.json").unlink()
    node.until_clean()
    assert [call.code for call in driver.calls("NodeUnstageVolume")] == ["OK"]


def lose(node: CsiNode, driver: ThreadDriver, handle: str) -> None:
    """Kill a daemon, and lose its records and its Pods' directories; the driver has the volume staged alone."""
    node.kill()
    for path in sorted(node.mounts(), reverse=True):
        if "/pods/" in path:
            subprocess.run(["umount", path], check=True)
    for ours in ("pods", "volmgr"):
        shutil.rmtree(node.root / ours)
    driver.volumes.keep(replace(driver.volumes.get(handle), published={}))


def test_a_volume_that_was_staged_for_no_pod_is_kept_and_named_while_its_file_is_damaged(
    node: CsiNode, driver: ThreadDriver
) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    shop = node.put("shop.json", pod("shop", objects.claimed("disk")))
    node.wait("shop")
    lose(node, driver, "disk")
    shop.unlink()
    (staging,) = node.global_mounts()
    file = staging.parent / "vol_data.json"
    said = file.read_text()
    cut(file)
    node.start()
    eventually(lambda: node.json("orphans")["orphans"], lambda: f"an orphan: {node.log_text()}")
    (kept,) = node.json("orphans")["orphans"]
    assert kept["path"] == str(staging)
    assert str(file) in kept["reason"]
    node.settle()
    assert driver.calls("NodeUnstageVolume") == []
    assert is_mounted(str(staging))
    node.stop()
    file.write_text(said)
    node.start()
    node.until_clean()
    assert [call.code for call in driver.calls("NodeUnstageVolume")] == ["OK"]


def test_a_block_volume_that_is_given_to_a_pod_without_a_directory_is_taken_from_it_and_unstaged(
    node: CsiNode, driver: ThreadDriver
) -> None:
    driver.add_volume("raw", block=True)
    node.put("raw.json", *objects.bound(driver.name, "raw", volumeMode="Block"))
    shop = node.put("shop.json", objects.device_pod("shop", objects.claimed("raw")))
    node.wait("shop")
    node.kill()
    shop.unlink()
    for ours in ("pods", "volmgr"):
        shutil.rmtree(node.root / ours)
    node.start()
    node.until_clean()
    assert [call.code for call in driver.calls("NodeUnpublishVolume", "NodeUnstageVolume")] == ["OK", "OK"]
