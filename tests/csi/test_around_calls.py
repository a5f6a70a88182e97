"""What the node does around the calls: it watches what was published, waits for drivers, and lets them go last."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.csi import objects
from tests.csi.fault_driver import kernel
from tests.csi.fault_driver.rules import FOREVER, Rule
from tests.csi.fault_driver.running import ThreadDriver, running_fault_driver
from tests.csi.node import QUICK, CsiNode, registry
from tests.eventually import eventually
from tests.root.acceptance.outside import disk, host_path, pod

NAME = "fault.csi.test"
CHANGING = ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume")


def mounted(node: CsiNode, driver: ThreadDriver, *pods: str) -> Path:
    """Let Pods have one volume; gives where the first one has it."""
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk", accessModes=["ReadWriteMany"]))
    for name in pods:
        node.put(f"{name}.json", pod(name, objects.claimed("disk")))
    for name in pods:
        node.wait(name)
    return node.target(pods[0], "pv-disk")


def published(driver: ThreadDriver) -> int:
    return len(driver.calls("NodePublishVolume"))


def restart(node: CsiNode) -> None:
    node.kill()
    node.start()


def test_what_somebody_unmounts_is_published_again(node: CsiNode, driver: ThreadDriver) -> None:
    place = mounted(node, driver, "shop")
    kernel.unmount(str(place))
    driver.until_called("NodePublishVolume", times=2)
    node.wait("shop")
    assert str(place) in node.mounts()
    assert len(driver.calls("NodeStageVolume")) == 1


def test_what_somebody_unmounts_on_the_node_is_staged_again(node: CsiNode, driver: ThreadDriver) -> None:
    mounted(node, driver, "shop")
    (staging,) = node.global_mounts()
    kernel.unmount(str(staging))
    driver.until_called("NodeStageVolume", times=2)
    eventually(lambda: str(staging) in node.mounts(), "it is staged")


@pytest.mark.parametrize("code", ["FAILED_PRECONDITION", "NOT_FOUND"])
def test_what_a_driver_says_is_not_staged_is_staged_again_before_it_is_published(
    node: CsiNode, driver: ThreadDriver, code: str
) -> None:
    driver.script(Rule(method="NodePublishVolume", code=code, message="it is not staged"))
    mounted(node, driver, "shop")
    made = driver.calls("NodeStageVolume", "NodePublishVolume")
    assert [(call.method, call.code) for call in made] == [
        ("NodeStageVolume", "OK"),
        ("NodePublishVolume", code),
        ("NodeStageVolume", "OK"),
        ("NodePublishVolume", "OK"),
    ]


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
def test_a_volume_that_the_driver_forgot_to_have_staged_comes_to_the_next_pod(
    node: CsiNode, driver: ThreadDriver, mode: str
) -> None:
    driver.add_volume("disk", block=mode == "Block")
    node.put("disk.json", *objects.bound(driver.name, "disk", accessModes=["ReadWriteMany"], volumeMode=mode))
    make = objects.device_pod if mode == "Block" else pod
    node.put("shop.json", make("shop", objects.claimed("disk")))
    node.wait("shop")
    volume = driver.volumes.get("disk")
    driver.volumes.keep(replace(volume, staged=[]))
    node.put("cafe.json", make("cafe", objects.claimed("disk")))
    node.wait("cafe")
    assert [call.code for call in driver.calls("NodeStageVolume")] == ["OK", "OK"]
    assert driver.volumes.get("disk").staged == volume.staged


def test_a_volume_that_was_unmounted_while_nobody_looked_is_published_after_the_restart(
    node: CsiNode, driver: ThreadDriver
) -> None:
    place = mounted(node, driver, "shop")
    node.kill()
    kernel.unmount(str(place))
    node.start()
    driver.until_called("NodePublishVolume", times=2)
    node.wait("shop")
    assert str(place) in node.mounts()


def test_restarts_publish_nothing_again_though_the_driver_would_stack_mounts_i23(top: Path) -> None:
    registration = registry(top) / "fault-reg.sock"
    with (
        running_fault_driver(top / "driver", registration=registration, stacks=True) as driver,
        CsiNode(top, **QUICK) as node,
    ):
        node.put("driver.json", objects.driver_object(driver.name))
        mounted(node, driver, "shop", "cafe")
        node.put("inline.json", pod("inline", objects.inline(driver.name)))
        driver.add_volume("raw", block=True)
        node.put("raw.json", *objects.bound(driver.name, "raw", volumeMode="Block"))
        node.put("device.json", objects.device_pod("device", objects.claimed("raw")))
        node.wait("inline")
        node.wait("device")
        before, calls = node.mounts(), len(driver.calls(*CHANGING))
        for _ in range(3):
            restart(node)
            node.wait("inline")
            node.wait("device")
        node.settle()
        assert (node.mounts(), len(driver.calls(*CHANGING))) == (before, calls)


@pytest.mark.parametrize("inline", ["tmpfs", "files"])
def test_an_inline_volume_is_proven_by_its_mount_or_its_directory_and_unpublished_once_i15(
    top: Path, inline: str
) -> None:
    registration = registry(top) / "fault-reg.sock"
    with (
        running_fault_driver(top / "driver", registration=registration, inline=inline) as driver,
        CsiNode(top, **QUICK) as node,
    ):
        node.put("driver.json", objects.driver_object(driver.name))
        shop = node.put("shop.json", pod("shop", objects.inline(driver.name)))
        node.wait("shop")
        restart(node)
        node.wait("shop")
        assert published(driver) == 1
        node.kill()
        shop.unlink()
        node.start()
        node.until_clean()
        assert len(driver.calls("NodeUnpublishVolume")) == 1


def test_calls_for_one_volume_never_overlap_when_many_pods_leave_at_once_i21(
    node: CsiNode, driver: ThreadDriver
) -> None:
    names = [f"shop-{number}" for number in range(6)]
    mounted(node, driver, *names)
    driver.script(Rule(method="NodeUnpublishVolume", delay_before=0.05, times=FOREVER))
    for name in names:
        (node.manifests / f"{name}.json").unlink()
    node.until_clean()
    calls = sorted(
        driver.calls("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"),
        key=lambda call: call.started,
    )
    assert len(calls) == 2 * len(names) + 2
    assert all(one.ended <= other.started for one, other in pairwise(calls))


def test_a_pod_that_is_there_before_its_driver_is_mounted_when_that_registers_i79(top: Path) -> None:
    slow = "10m"  # so that it cannot be the next try
    with CsiNode(top, required_drivers=[NAME], backoff_initial=slow, backoff_max=slow) as node:
        node.put("driver.json", objects.driver_object(NAME), *objects.bound(NAME, "disk"))
        node.put("shop.json", pod("shop", objects.claimed("disk")))
        node.until_why("shop", NAME)
        assert "never seen on this node" in node.why("shop")
        status, body = node.http("GET", "/readyz")
        assert status == 503
        assert f"waiting for driver {NAME} (never seen on this node" in json.loads(body)["reasons"][0]
        with running_fault_driver(top / "driver", registration=registry(top) / "fault-reg.sock") as driver:
            driver.add_volume("disk")
            node.wait("shop")
            assert node.http("GET", "/readyz")[0] == 200
            (node.manifests / "shop.json").unlink()
            node.until_clean()


def test_a_driver_that_is_a_pod_of_the_node_is_drained_after_its_volumes_i85(
    node: CsiNode, driver: ThreadDriver
) -> None:
    mounted(node, driver, *(f"shop-{number}" for number in range(5)))
    node.put("itself.json", pod("itself", host_path(driver.socket.parent, name="socket"), disk("settings")))
    node.wait("itself")
    settings = node.volume("itself", "settings")
    driver.script(Rule(method="NodeUnpublishVolume", gate_before="drained"))
    done = node.volmgr("drain", "--timeout", "1s", code=1)
    driver.until_reached("drained")
    assert f"Pod default/itself serves {NAME}, of which volumes are left: those go first" in done.stderr
    assert settings.is_dir()
    driver.open("drained")
    node.volmgr("drain", "--timeout", "60s")
    assert not settings.exists()
    assert driver.volumes.get("disk").staged == []
