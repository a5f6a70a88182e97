"""What holds for all volumes holds for those of drivers: claims under two names, groups, flips, one message, links."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.csi import objects
from tests.csi.fault_driver import kernel
from tests.csi.fault_driver.rules import Rule
from tests.csi.fault_driver.running import ThreadDriver, running_fault_driver
from tests.csi.node import QUICK, CsiNode, loops_below, registry
from tests.eventually import eventually
from tests.kube.drivers import running_loopcsi
from tests.root.acceptance.outside import memory, pod

GROUP = 3000


def test_a_claim_under_two_names_is_one_volume_that_is_published_once_i25(node: CsiNode, driver: ThreadDriver) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    node.put("shop.json", pod("shop", objects.claimed("disk", "a"), objects.claimed("disk", "b")))
    node.wait("shop")
    (container,) = node.json("mounts", "shop")["containers"]
    assert {each["source"] for each in container["mounts"]} == {str(node.target("shop", "pv-disk"))}
    assert len(driver.calls("NodeStageVolume")) == len(driver.calls("NodePublishVolume")) == 1


def test_a_file_that_cannot_be_given_to_the_group_is_named_with_the_policy_that_would_not_i40(top: Path) -> None:
    name = "loop.csi.e2e"
    with (
        running_loopcsi(top / "driver", name, "machine-1", registration=registry(top) / "loop-reg.sock") as driver,
        CsiNode(top, **QUICK) as node,
    ):
        driver.add_volume("disk")
        node.put("driver.json", objects.driver_object(name, fsGroupPolicy="File"))
        node.put("disk.json", *objects.bound(name, "disk", csi={"fsType": "ext4"}))
        first = node.put("first.json", pod("first", objects.claimed("disk")))
        node.wait("first")
        file = node.target("first", "pv-disk") / "stubborn"
        file.touch()
        subprocess.run(["chattr", "+i", file], check=True)
        first.unlink()
        node.wait("first", "unmounted")
        second = node.put("second.json", pod("second", objects.claimed("disk"), securityContext={"fsGroup": GROUP}))
        target = node.target("second", "pv-disk")
        node.until_why("second", f"cannot give {target / 'stubborn'} to group {GROUP}")
        assert "fsGroupPolicy: None" in node.why("second")
        node.put("driver.json", objects.driver_object(name, fsGroupPolicy="None"))
        node.wait("second")
        assert (target.stat().st_gid, (target / "stubborn").stat().st_gid) == (0, 0)
        subprocess.run(["chattr", "-i", target / "stubborn"], check=True)
        second.unlink()
        node.until_clean()
        assert loops_below(top) == []


def test_a_volume_that_turned_read_only_is_named_and_writable_again_i88(node: CsiNode, driver: ThreadDriver) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    node.put("shop.json", pod("shop", objects.claimed("disk")))
    node.wait("shop")
    target = node.target("shop", "pv-disk")
    subprocess.run(["mount", "-o", "remount,bind,ro", target], check=True)
    eventually(lambda: "its mount has turned read-only" in node.volmgr("events").stdout, node.log_text)
    node.wait("shop")
    (target / "file").write_text("written")


def test_one_message_says_what_is_wrong_with_which_volume_and_names_no_good_one_i92(
    node: CsiNode, driver: ThreadDriver
) -> None:
    secret = {"nodeStageSecretRef": {"name": "absent", "namespace": "default"}}
    for name in ("slow", "locked", "good"):
        driver.add_volume(name)
        node.put(f"{name}.json", *objects.bound(driver.name, name, csi=secret if name == "locked" else {}))
    node.put("lost.json", *objects.bound("absent.csi.test", "lost"))
    driver.script(Rule(method="NodeStageVolume", gate_before="slow", match={"volume_id": "slow"}))
    names = ("slow", "locked", "lost", "good")
    node.put("shop.json", pod("shop", *(objects.claimed(name, name) for name in names), memory("fine")))
    driver.until_called("NodePublishVolume", code="OK")
    driver.until_reached("slow")
    for words in (
        "volume slow (csi): not mounted; mount_device running since 20",
        "volume locked (csi): not mounted; waits for Secret default/absent: add it to the manifests",
        "driver name absent.csi.test not found in the list of registered CSI drivers: it was never seen on this node",
        "next try at 20",  # between two tries
    ):
        node.until_why("shop", words)
    driver.open("slow")
    assert [line.split()[1] for line in node.why("shop").splitlines()[1:] if " slow " not in line] == ["locked", "lost"]


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
def test_a_volume_below_a_linked_root_is_given_back_i64(top: Path, mode: str) -> None:
    (top / "elsewhere").mkdir()
    (top / "root").symlink_to(top / "elsewhere")
    registration = registry(top) / "fault-reg.sock"
    with running_fault_driver(top / "driver", registration=registration) as driver, CsiNode(top, **QUICK) as node:
        driver.add_volume("disk", block=mode == "Block")
        node.put(
            "driver.json", objects.driver_object(driver.name), *objects.bound(driver.name, "disk", volumeMode=mode)
        )
        make = objects.device_pod if mode == "Block" else pod
        node.put("shop.json", make("shop", objects.claimed("disk")))
        node.wait("shop")
        node.kill()
        node.start()
        node.wait("shop")
        assert len(driver.calls("NodePublishVolume")) == 1
        (node.manifests / "shop.json").unlink()
        node.until_clean()
        assert (driver.volumes.get("disk").staged, loops_below(top)) == ([], [])


@pytest.mark.parametrize("known", [True, False], ids=["known", "killed"])
def test_a_device_that_disappeared_is_unmapped_all_the_same_i66(
    node: CsiNode, driver: ThreadDriver, top: Path, known: bool
) -> None:
    driver.add_volume("raw", block=True)
    node.put("raw.json", *objects.bound(driver.name, "raw", volumeMode="Block"))
    shop = node.put("shop.json", objects.device_pod("shop", objects.claimed("raw")))
    node.wait("shop")
    image = driver.volumes.image(driver.volumes.get("raw"))
    if not known:
        node.kill()
    kernel.detach_loop(image)
    image.unlink()
    shop.unlink()
    if not known:
        node.start()
    node.until_clean()
    assert loops_below(top) == []
    assert driver.volumes.get("raw").staged == []
