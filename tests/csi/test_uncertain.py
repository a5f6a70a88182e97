"""A call that took too long is uncertain: nothing of it is lost, and nothing overlaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.csi import objects
from tests.csi.fault_driver.rules import FOREVER, Rule
from tests.csi.fault_driver.running import ThreadDriver
from tests.csi.node import QUICK, CsiNode
from tests.eventually import eventually
from tests.root.acceptance.outside import pod


@pytest.fixture
def hasty(top: Path, driver: ThreadDriver) -> Iterator[CsiNode]:
    """A node that waits half a second for a driver."""
    driver.add_volume("disk")
    with CsiNode(top, settings={"call_timeout": 0.5}, **QUICK) as node:
        node.put("disk.json", objects.driver_object(driver.name), *objects.bound(driver.name, "disk"))
        node.until_registered(driver.name)
        yield node
        node.until_clean()


def test_a_volume_that_was_staged_too_late_is_unstaged_when_its_pod_is_gone_i19(
    hasty: CsiNode, driver: ThreadDriver
) -> None:
    driver.script(Rule(method="NodeStageVolume", gate_after="late", times=FOREVER))
    driver.script(Rule(method="NodeUnstageVolume", code="UNAVAILABLE", times=3))
    shop = hasty.put("shop.json", pod("shop", objects.claimed("disk")))
    driver.until_reached("late")
    (staging,) = hasty.global_mounts()
    shop.unlink()
    driver.until_called("NodeUnstageVolume", code="UNAVAILABLE")
    assert str(staging) in hasty.mounts()  # the directory stays while nobody knows
    driver.until_called("NodeUnstageVolume", code="OK")
    hasty.until_clean()
    driver.open("late")
    assert driver.volumes.get("disk").staged == []


def test_a_volume_that_the_driver_knows_no_more_is_unpublished_i21(hasty: CsiNode, driver: ThreadDriver) -> None:
    shop = hasty.put("shop.json", pod("shop", objects.claimed("disk")))
    hasty.wait("shop")
    driver.script(
        Rule(method="NodeUnpublishVolume", gate_after="late"),
        Rule(method="NodeUnpublishVolume", code="NOT_FOUND", message="no such volume", times=FOREVER),
        Rule(method="NodeUnstageVolume", gate_after="late"),
        Rule(method="NodeUnstageVolume", code="NOT_FOUND", message="no such volume", times=FOREVER),
    )
    shop.unlink()
    hasty.wait("shop", "unmounted")
    hasty.until_clean()
    driver.open("late")
    for method in ("NodeUnpublishVolume", "NodeUnstageVolume"):
        driver.until_called(method, times=2)
    assert [call.code for call in driver.calls("NodeUnpublishVolume")][-1] == "OK"  # the late one ends last
    assert len(driver.calls("NodeUnpublishVolume")) == len(driver.calls("NodeUnstageVolume")) == 2


def test_a_published_volume_that_answered_too_late_is_mounted_when_it_answers_in_time(
    hasty: CsiNode, driver: ThreadDriver
) -> None:
    driver.script(Rule(method="NodePublishVolume", gate_after="late"))
    shop = hasty.put("shop.json", pod("shop", objects.claimed("disk")))
    hasty.wait("shop")
    driver.open("late")
    shop.unlink()
    hasty.wait("shop", "unmounted")


def test_why_says_which_call_failed_and_what_the_driver_said(node: CsiNode, driver: ThreadDriver) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    driver.script(Rule(method="NodeStageVolume", code="INTERNAL", message="the pool is degraded", times=FOREVER))
    node.put("shop.json", pod("shop", objects.claimed("disk")))
    node.until_why("shop", "the pool is degraded")
    said = node.why("shop")
    assert "NodeStageVolume" in said
    assert driver.name in said
    driver.clear()
    node.wait("shop")


def test_a_final_error_leaves_nothing_behind_and_an_uncertain_one_is_undone(
    node: CsiNode, driver: ThreadDriver
) -> None:
    for name, code in (("final", "INTERNAL"), ("uncertain", "UNAVAILABLE")):
        driver.add_volume(name)
        driver.script(Rule(method="NodeStageVolume", code=code, times=FOREVER, match={"volume_id": name}))
        node.put(f"{name}.json", *objects.bound(driver.name, name), pod(name, objects.claimed(name)))
    for name, code in (("final", "INTERNAL"), ("uncertain", "UNAVAILABLE")):
        driver.until_called("NodeStageVolume", times=2, code=code)
        node.put(f"{name}.json", *objects.bound(driver.name, name))
        node.wait(name, "unmounted")
    eventually(lambda: not node.left(), lambda: f"nothing, but {node.left()}")
    assert {call.request["volumeId"] for call in driver.calls("NodeUnstageVolume")} == {"uncertain"}
