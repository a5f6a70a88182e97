"""loopcsi registers by its socket, and Pods of manifests use it, also when the daemon is killed in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.csi import objects
from tests.csi.node import CsiNode, loops_below, registry
from tests.eventually import eventually
from tests.kube.drivers import MIB, LoopCsi, running_loopcsi
from tests.root.acceptance.outside import pod

DRIVER = "loop.csi.e2e"
SIZES = {"xfs": (320, 384), "btrfs": (128, 288)}
"""MiB from and to which a mounted file system grows: mkfs.xfs makes none below 300, the kernel grows no btrfs to less
than 256."""


@pytest.fixture
def loopcsi(top: Path) -> Iterator[LoopCsi]:
    with running_loopcsi(top / "driver", DRIVER, "machine-1", registration=registry(top) / "loop-reg.sock") as driver:
        yield driver


@pytest.fixture
def node(top: Path, loopcsi: LoopCsi) -> Iterator[CsiNode]:
    with CsiNode(top) as node:
        node.put("driver.json", objects.driver_object(DRIVER, podInfoOnMount=True))
        node.until_registered(DRIVER)
        yield node
        node.until_clean()
        assert loops_below(top) == []


def restart(node: CsiNode) -> None:
    """Kill the daemon, and start it again."""
    node.kill()
    node.start()


def calls(driver: LoopCsi, *methods: str) -> list[dict[str, Any]]:
    """Give the requests of some methods, which must all have been answered."""
    found = [call for call in driver.calls() if call["method"].rpartition("/")[2] in methods]
    assert {call["code"] for call in found} <= {"OK"}, found
    return [call["request"] for call in found]


def test_what_the_driver_says_of_itself_is_listed(node: CsiNode, loopcsi: LoopCsi) -> None:
    told = node.drivers()[DRIVER]
    assert (told["node_id"], told["limit"], told["topology"]) == ("machine-1", None, {})
    assert told["endpoint"] == str(loopcsi.socket)
    assert set(told["capabilities"]) >= {"STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME", "GET_VOLUME_STATS"}
    assert told["since"]


def test_a_pod_has_a_volume_that_an_administrator_made(node: CsiNode, loopcsi: LoopCsi) -> None:
    loopcsi.add_volume("disk")
    node.put("disk.json", *objects.bound(DRIVER, "disk"))
    shop = node.put("shop.json", pod("shop", objects.claimed("disk")))
    node.wait("shop")
    (node.target("shop", "pv-disk") / "orders").write_text("one")
    restart(node)
    node.wait("shop")
    assert (node.target("shop", "pv-disk") / "orders").read_text() == "one"
    assert len(calls(loopcsi, "NodeStageVolume")) == len(calls(loopcsi, "NodePublishVolume")) == 1
    shop.unlink()
    node.wait("shop", "unmounted")
    node.until_clean()
    node.put("again.json", pod("again", objects.claimed("disk")))
    node.wait("again")
    assert (node.target("again", "pv-disk") / "orders").read_text() == "one"
    (node.manifests / "again.json").unlink()
    node.wait("again", "unmounted")


def test_a_pod_that_left_while_the_daemon_was_killed_is_taken_down(node: CsiNode, loopcsi: LoopCsi) -> None:
    loopcsi.add_volume("disk")
    node.put("disk.json", *objects.bound(DRIVER, "disk"))
    shop = node.put("shop.json", pod("shop", objects.claimed("disk"), objects.inline(DRIVER, "scratch")))
    node.wait("shop")
    node.kill()
    shop.unlink()
    node.start()
    node.until_clean()
    assert len(calls(loopcsi, "NodeUnpublishVolume")) == 2
    assert len(calls(loopcsi, "NodeUnstageVolume")) == 1


def test_a_pod_has_a_volume_of_its_own_in_memory(node: CsiNode, loopcsi: LoopCsi) -> None:
    volume = objects.inline(DRIVER, "scratch", volumeAttributes={"size": "2m"})
    shop = node.put("shop.json", pod("shop", volume))
    node.wait("shop")
    target = node.target("shop", "scratch")
    assert " tmpfs " in node.mounts()[str(target)]
    assert "size=2048k" in node.mounts()[str(target)]
    (target / "file").write_text("here")
    restart(node)
    node.wait("shop")
    assert (target / "file").read_text() == "here"
    (published,) = calls(loopcsi, "NodePublishVolume")
    assert published["volumeContext"]["csi.storage.k8s.io/pod.name"] == "shop"
    shop.unlink()
    node.wait("shop", "unmounted")
    assert len(calls(loopcsi, "NodeUnpublishVolume")) == 1


def test_pods_share_a_device_and_keep_it_over_a_kill(node: CsiNode, loopcsi: LoopCsi) -> None:
    loopcsi.add_volume("raw")
    node.put("raw.json", *objects.bound(DRIVER, "raw", volumeMode="Block"))
    names = ("first", "second")
    for name in names:
        node.put(f"{name}.json", objects.device_pod(name, objects.claimed("raw")))
    for name in names:
        node.wait(name)
    first, second = (node.device(name, "pv-raw") for name in names)
    assert first.is_block_device()
    assert os.stat(first).st_rdev == os.stat(second).st_rdev
    first.write_bytes(b"written")
    restart(node)
    for name in names:
        node.wait(name)
    (node.manifests / "first.json").unlink()
    node.wait("first", "unmounted")
    with second.open("rb") as device:
        assert device.read(7) == b"written"
    assert not calls(loopcsi, "NodeUnstageVolume")
    (node.manifests / "second.json").unlink()
    node.wait("second", "unmounted")
    node.until_clean()
    assert len(calls(loopcsi, "NodeUnstageVolume")) == 1


@pytest.mark.parametrize("file_system", ["xfs", "btrfs"])
def test_a_claim_is_made_a_volume_mounted_and_grown_while_it_is_used(
    node: CsiNode, loopcsi: LoopCsi, file_system: str
) -> None:
    size, larger = SIZES[file_system]
    parameters = {"csi.storage.k8s.io/fstype": file_system}
    node.put("fast.json", objects.storage_class("fast", DRIVER, parameters=parameters, allowVolumeExpansion=True))
    node.put("claim.json", objects.claim("orders", size=f"{size}Mi", storageClassName="fast"))
    node.put("shop.json", pod("shop", objects.claimed("orders")))
    node.wait("shop")
    (claim,) = node.json("claims")["claims"]
    target = node.target("shop", claim["volume"])
    assert f" {file_system} " in node.mounts()[str(target)]
    (target / "file").write_text("kept")
    before = os.statvfs(target)
    restart(node)
    node.put("claim.json", objects.claim("orders", size=f"{larger}Mi", storageClassName="fast"))
    eventually(lambda: os.statvfs(target).f_blocks > before.f_blocks, lambda: f"it grows: {node.why('shop')}")
    assert (target / "file").read_text() == "kept"
    (image,) = loopcsi.volumes.glob("*.img")
    assert image.stat().st_size == larger * MIB
    (node.manifests / "shop.json").unlink()
    node.wait("shop", "unmounted")
    (node.manifests / "claim.json").unlink()
    node.settle()
    assert image.exists()  # a file that is gone destroys nothing
