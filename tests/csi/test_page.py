"""What docs/csi.md shows is run as it stands there, with a driver of Go under the name that the page uses."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.csi.node import CsiNode, loops_below, registry
from tests.docs.pages import ROOT, blocks
from tests.eventually import eventually
from tests.kube.drivers import MIB, LoopCsi, running_loopcsi
from volmgr.cli.app import cli

DRIVER = "hostpath.csi.k8s.io"
MANIFESTS = [block.text for block in blocks(ROOT / "docs/csi.md") if (block.language, block.title) == ("yaml", "")]


def example(*parts: str) -> str:
    """Give the one manifest of the page that has all of these."""
    (found,) = [text for text in MANIFESTS if all(part in text for part in parts)]
    return found


@pytest.fixture
def driver(top: Path) -> Iterator[LoopCsi]:
    with running_loopcsi(top / "driver", DRIVER, "node-1", registration=registry(top) / f"{DRIVER}-reg.sock") as driver:
        yield driver


@pytest.fixture
def node(top: Path, driver: LoopCsi) -> Iterator[CsiNode]:
    with CsiNode(top) as node:
        node.put_text("shop.yaml", example("kind: StorageClass"))
        yield node
        (node.manifests / "shop.yaml").unlink(missing_ok=True)
        eventually(lambda: not node.mounts() and not loops_below(top), lambda: f"nothing, but {node.mounts()}")


def volume(node: CsiNode, pod: str) -> Path:
    """Give where the one volume of a Pod is."""
    (found,) = node.json("status", pod)["volumes"]
    return Path(found["path"])


def size_of(device: str) -> int:
    """Give the bytes of a block device."""
    with open(device, "rb") as file:
        return file.seek(0, os.SEEK_END)


def test_a_claim_becomes_a_mounted_volume_that_is_deleted_only_when_that_is_said(
    node: CsiNode, driver: LoopCsi
) -> None:
    assert node.volmgr("wait", "shop").stdout == "shop: mounted\n"
    (volume(node, "shop") / "order").write_text("1")
    assert DRIVER in node.volmgr("plugins").stdout
    assert "orders" in node.volmgr("claims").stdout
    shop = node.manifests / "shop.yaml"
    whole = shop.read_text()
    driver_and_class = "---".join(whole.split("---")[:2])
    node.put_text("shop.yaml", driver_and_class)
    node.volmgr("wait", "shop", "--for", "unmounted")
    assert len(list(driver.volumes.glob("*.img"))) == 1
    assert "orders" in node.volmgr("orphans").stdout

    node.volmgr("delete", "pvc/default/orders", "--data")

    eventually(lambda: not list(driver.volumes.glob("*.img")), "a deleted volume")


def test_a_volume_that_exists_is_used(node: CsiNode, driver: LoopCsi) -> None:
    driver.add_volume("vol-0001")
    node.put_text("reader.yaml", example("volumeHandle: vol-0001"))

    node.volmgr("wait", "reader")

    options = node.mounts()[str(volume(node, "reader"))].split(" ")[5]
    assert {"ro", "noatime"} <= set(options.split(","))
    (node.manifests / "reader.yaml").unlink()


def test_an_inline_volume_is_used(node: CsiNode) -> None:
    node.put_text("worker.yaml", example("name: worker"))

    node.volmgr("wait", "worker")

    assert " tmpfs " in node.mounts()[str(volume(node, "worker"))]
    (node.manifests / "worker.yaml").unlink()


def test_a_device_is_used(node: CsiNode) -> None:
    node.put_text("database.yaml", example("volumeMode: Block"))

    node.volmgr("wait", "database")

    (container,) = node.json("mounts", "database")["containers"]
    (device,) = container["devices"]
    assert stat.S_ISBLK(Path(device["source"]).stat().st_mode)
    larger = example("volumeMode: Block").replace("storage: 16Mi", "storage: 32Mi")
    node.put_text("database.yaml", larger)
    eventually(lambda: size_of(device["source"]) == 32 * MIB, lambda: f"{size_of(device['source'])}: {node.log_text()}")
    (node.manifests / "database.yaml").unlink()


def test_a_developer_of_a_driver_sees_what_the_page_shows(driver: LoopCsi, top: Path) -> None:
    (console,) = (block.text for block in blocks(ROOT / "docs/csi.md") if "volmgr csi publish" in block.text)
    (shown,) = (block.text for block in blocks(ROOT / "docs/csi.md") if "is published at" in block.text)
    console = console.replace("/run/hostpath/csi.sock", str(driver.socket)).replace("/mnt", str(top))
    said: dict[str, str] = {}

    for line in console.splitlines():
        words = shlex.split(line.removeprefix("$ volmgr "))
        result = CliRunner().invoke(cli, words, env={"VOLMGR_CSI_STATE": str(top / "state")})
        assert result.exit_code == 0, result.output
        said[words[1]] = result.stdout

    assert [line.split()[0] for line in said["publish"].splitlines()] == [
        line.split()[0] for line in shown.splitlines()
    ]
    assert str(top / "scratch") in said["ls"]
    assert said["unpublish"].endswith("nothing is left of scratch\n")
    assert list(driver.volumes.iterdir()) == []
