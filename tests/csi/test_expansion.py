"""Volumes grow whatever happens meanwhile (I84): what is true on the node decides, not what somebody wrote down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.csi import objects
from tests.csi.fault_driver.rules import Rule
from tests.csi.fault_driver.running import ThreadDriver
from tests.csi.node import CsiNode
from tests.eventually import eventually
from tests.root.acceptance.outside import pod

MIB = 1 << 20


def put_claim(node: CsiNode, driver: ThreadDriver, size: str = "16Mi", **spec: Any) -> None:  # noqa: ANN401 - YAML
    """Let there be a claim of a class of the driver, which makes its volume, or grows it."""
    node.put("class.json", objects.storage_class("grows", driver.name, allowVolumeExpansion=True))
    node.put("claim.json", objects.claim("orders", size=size, storageClassName="grows", **spec))


def until_grown(node: CsiNode, driver: ThreadDriver, size: int = 32 * MIB) -> None:
    """Return when the node, the driver and the claim agree that a volume has grown."""
    said = f"{size // MIB}Mi"
    eventually(lambda: driver.volumes.all()[0].node_size == size, lambda: f"{said}: {node.why('shop')}")
    eventually(lambda: node.json("claims")["volumes"][0]["capacity"] == said, lambda: str(node.json("claims")))


@pytest.mark.parametrize("code", ["INTERNAL", "UNAVAILABLE", "DEADLINE_EXCEEDED"])
@pytest.mark.parametrize("worked", [False, True], ids=["undone", "done"])
def test_a_volume_grows_though_the_driver_failed_once(
    node: CsiNode, driver: ThreadDriver, code: str, worked: bool
) -> None:
    put_claim(node, driver)
    node.put("shop.json", pod("shop", objects.claimed("orders")))
    node.wait("shop")
    driver.script(Rule(method="NodeExpandVolume", code=code, skip_work=not worked))
    put_claim(node, driver, "32Mi")
    driver.until_called("NodeExpandVolume", code=code)
    until_grown(node, driver)
    (node.manifests / "shop.json").unlink()
    node.wait("shop", "unmounted")


def test_a_volume_that_cannot_grow_in_use_grows_after_its_next_mount(node: CsiNode, driver: ThreadDriver) -> None:
    put_claim(node, driver, accessModes=["ReadWriteMany"])
    node.put("shop.json", pod("shop", objects.claimed("orders")))
    node.wait("shop")
    driver.script(Rule(method="NodeExpandVolume", code="FAILED_PRECONDITION", message="it is open"))
    put_claim(node, driver, "32Mi", accessModes=["ReadWriteMany"])
    driver.until_called("NodeExpandVolume", code="FAILED_PRECONDITION")
    eventually(lambda: "not tried again until the next mount" in node.why("shop"), lambda: node.why("shop"))
    node.put("next.json", pod("next", objects.claimed("orders")))
    node.wait("next")
    until_grown(node, driver)
    assert [call.code for call in driver.calls("NodeExpandVolume")] == ["FAILED_PRECONDITION", "OK"]


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND"])
def test_a_size_that_cannot_be_is_asked_for_once(node: CsiNode, driver: ThreadDriver, code: str) -> None:
    put_claim(node, driver)
    node.put("shop.json", pod("shop", objects.claimed("orders")))
    node.wait("shop")
    driver.script(Rule(method="NodeExpandVolume", code=code))
    put_claim(node, driver, "24Mi")
    eventually(lambda: "not tried again until a manifest changes" in node.why("shop"), lambda: node.why("shop"))
    put_claim(node, driver, "32Mi")
    until_grown(node, driver)
    assert [call.code for call in driver.calls("NodeExpandVolume")] == [code, "OK"]


def test_a_volume_that_grew_while_the_daemon_was_killed_is_as_large_as_it_is(
    node: CsiNode, driver: ThreadDriver
) -> None:
    put_claim(node, driver)
    node.put("shop.json", pod("shop", objects.claimed("orders")))
    node.wait("shop")
    driver.script(Rule(method="NodeExpandVolume", gate_after="grown"))
    put_claim(node, driver, "32Mi")
    driver.until_reached("grown")
    node.kill()
    driver.open("grown")
    node.start()
    node.wait("shop")
    until_grown(node, driver)


def test_a_volume_whose_pod_left_while_it_grew_is_grown_for_the_next_one(node: CsiNode, driver: ThreadDriver) -> None:
    put_claim(node, driver)
    shop = node.put("shop.json", pod("shop", objects.claimed("orders")))
    node.wait("shop")
    driver.script(Rule(method="NodeExpandVolume", code="UNAVAILABLE", gate_before="growing"))
    put_claim(node, driver, "32Mi")
    driver.until_reached("growing")
    shop.unlink()
    node.settle()
    driver.open("growing")
    node.wait("shop", "unmounted")
    node.until_clean()
    node.put("next.json", pod("next", objects.claimed("orders")))
    node.wait("next")
    until_grown(node, driver)


def test_a_device_grows_and_has_no_file_system_that_anybody_grows(node: CsiNode, driver: ThreadDriver) -> None:
    put_claim(node, driver, volumeMode="Block")
    node.put("shop.json", objects.device_pod("shop", objects.claimed("orders")))
    node.wait("shop")
    device = node.device("shop", node.json("claims")["claims"][0]["volume"])
    assert size_of(device) == 16 * MIB
    put_claim(node, driver, "32Mi", volumeMode="Block")
    until_grown(node, driver)
    assert size_of(device) == 32 * MIB
    (call,) = driver.calls("NodeExpandVolume")
    assert call.request["volumeCapability"]["block"] == {}


def size_of(device: Path) -> int:
    with device.open("rb") as opened:
        return opened.seek(0, 2)
