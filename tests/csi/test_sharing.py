"""Many Pods on few volumes: nobody takes anything away from another one, and nothing is left."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence

from tests.csi import objects
from tests.csi.churn import SHARED, Churn
from tests.csi.fault_driver.running import ThreadDriver
from tests.csi.node import CsiNode
from tests.csi.test_codes import overlaps
from tests.root.acceptance.outside import pod

SECONDS = float(os.environ.get("CSI_CHURN_SECONDS", "5"))
"""How long Pods come and go at random; two minutes is what was promised to converge."""


def mount_id(node: CsiNode, name: str, volume: str) -> str:
    """Give the id of the mount that a Pod has."""
    return node.mounts()[str(node.target(name, volume))].split(" ")[0]


def test_the_mount_of_one_pod_stays_while_another_of_the_volume_comes_and_goes_i27(
    node: CsiNode, driver: ThreadDriver
) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk", **SHARED))
    node.put("stays.json", pod("stays", objects.claimed("disk")))
    node.wait("stays")
    target, before = node.target("stays", "pv-disk"), mount_id(node, "stays", "pv-disk")
    over = threading.Event()
    failed: list[OSError] = []

    def use() -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                (target / "file").write_text(str(number))
                assert (target / "file").read_text() == str(number)
            except OSError as error:
                failed.append(error)
                return

    user = threading.Thread(target=use)
    user.start()
    try:
        for _ in range(5):
            other = node.put("goes.json", pod("goes", objects.claimed("disk")))
            node.wait("goes")
            other.unlink()
            node.wait("goes", "unmounted")
    finally:
        over.set()
        user.join()
    assert not failed
    assert mount_id(node, "stays", "pv-disk") == before
    assert len(driver.calls("NodeStageVolume")) == 1
    assert driver.calls("NodeUnstageVolume") == []


def test_who_uses_a_volume_is_known_after_kills_and_it_is_unstaged_once_i90(
    node: CsiNode, driver: ThreadDriver
) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk", **SHARED))

    def killed() -> None:
        node.kill()
        node.start()

    for name in ("one", "two"):
        node.put(f"{name}.json", pod(name, objects.claimed("disk")))
        node.wait(name)
        killed()
    for name in ("one", "two"):
        node.wait(name)
    (node.manifests / "one.json").unlink()
    node.wait("one", "unmounted")
    killed()
    assert driver.calls("NodeUnstageVolume") == []
    (node.manifests / "two.json").unlink()
    node.until_clean()
    for method, count in (("NodeStageVolume", 1), ("NodePublishVolume", 2)):
        assert len(driver.calls(method)) == count
    for method, count in (("NodeUnpublishVolume", 2), ("NodeUnstageVolume", 1)):
        assert len(driver.calls(method)) == count


def test_forty_pods_of_one_volume_come_and_go_i24(node: CsiNode, driver: ThreadDriver) -> None:
    churn(node, driver, volumes=["disk"], pods=40, seconds=SECONDS / 2)


def test_a_hundred_pods_of_twenty_volumes_come_and_go_and_nothing_leaks(node: CsiNode, driver: ThreadDriver) -> None:
    churn(node, driver, volumes=[f"disk-{number}" for number in range(20)], pods=100, seconds=SECONDS)


def churn(node: CsiNode, driver: ThreadDriver, volumes: Sequence[str], pods: int, seconds: float) -> None:
    """Let Pods come and go at random for some time; who is wanted is mounted in the end, and then nothing is left."""
    for volume in volumes:
        driver.add_volume(volume)
    churned = Churn(node, driver.name, volumes, pods)
    churned.offer_volumes()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        churned.step()
    for name in churned.wanted:
        node.wait(name)
    churned.until_right()
    assert {target for volume in driver.volumes.all() for target in volume.published} == churned.expected
    assert overlaps(driver.calls()) == []
    churned.end()
