"""csi volumes on a whole node in memory: published again, kept over restarts, and gone in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.csi.fault_driver.rules import Rule
from tests.csi.in_memory import ALL, NAME, NODE, POD_VOLUME, STAGED, Site, running_in_memory
from tests.csi.objects import Document, bound, claimed, driver_object, inline
from volmgr.config import Config
from volmgr.plugin import CsiSource, DriverInfo, Host, Mount, Mounted
from volmgr.report.orphans import orphans_report
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_csi.node import publishing
from volmgr_csi.volume import Csi

INTERVAL = 60.0
BACKOFF = 10.0
UID = "uid-web"
HANDLE = "h"


class Timed(Csi):
    """The type, by the clock of a node."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def mount(self, request: Mount[CsiSource], host: Host) -> Mounted:
        return publishing.publish(request, host, self._now())


@dataclass
class Running:
    """A node and the driver on it."""

    node: TestNode
    site: Site

    def put(self, *documents: Document, **driver: Any) -> None:  # noqa: ANN401 - fields of the CSIDriver
        """Let the manifests say this, beside the driver's CSIDriver."""
        self.node.put_file("all", driver_object(NAME, **driver), *documents)

    def persistent(self, **driver: Any) -> None:  # noqa: ANN401 - fields of the CSIDriver
        """Let a Pod have the volume `h`."""
        self.put(*self.volume(), pod("web", claimed(HANDLE, "data"), uid=UID), **driver)

    def volume(self) -> list[Document]:
        """Give the volume and its claim."""
        return bound(NAME, HANDLE)

    def target(self) -> Path:
        """Give where it is published."""
        return Path(POD_VOLUME.replace("/data", f"/pv-{HANDLE}"), "mount")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with running_in_memory(tmp_path) as site:
        plugins = plugins_of(Timed(lambda: node.now))
        node = TestNode(site.host, plugins, Config(node_name=NODE), sources=("directory",))
        node.sources_ready()
        yield Running(node, site)


def published(running: Running) -> int:
    return len(running.site.calls("NodePublishVolume"))


def test_a_volume_is_published_again_and_again_and_a_failure_leaves_it_mounted(running: Running) -> None:
    running.persistent(requiresRepublish=True)
    assert running.node.is_mounted("web")
    assert published(running) == 1
    running.node.advance(INTERVAL)
    assert published(running) == 2
    before = running.site.files()
    for code in ("INTERNAL", "UNAVAILABLE"):
        running.site.answer("NodePublishVolume", code)
    running.node.advance(INTERVAL)
    running.node.advance(BACKOFF)
    assert running.node.is_mounted("web")
    assert [call.code for call in running.site.calls("NodePublishVolume")][2:] == ["INTERNAL", "UNAVAILABLE", "OK"]
    assert running.site.files() == before
    assert running.site.host.mounts.is_mount_point(running.target())
    running.node.advance(INTERVAL)
    assert published(running) == 6


def test_a_volume_that_nobody_wants_published_again_is_not(running: Running) -> None:
    running.persistent()
    running.node.advance(10 * INTERVAL)
    assert published(running) == 1


def test_a_restart_calls_no_driver_for_what_is_proven(running: Running) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": HANDLE}}
    running.put(*running.volume(), pod("web", volume, inline(NAME, "own"), uid=UID))
    assert running.node.is_mounted("web")
    before = running.site.named()
    for _ in range(3):
        running.node.start()
        running.node.sources_ready()
        assert running.node.is_mounted("web")
    assert running.site.named() == before


def test_after_a_reboot_a_volume_is_staged_and_published_before_its_pod_has_it_i11(running: Running) -> None:
    running.persistent()
    running.site.host.reboot()
    assert not running.site.host.mounts.is_mount_point(running.target())
    assert list(running.site.files()) == [f"{STAGED}/vol_data.json", str(running.target().parent / "vol_data.json")]
    running.node.start()
    running.site.answer("NodeStageVolume", "INTERNAL")
    running.node.sources_ready()
    assert not running.node.is_mounted("web")
    assert len(running.site.files()) == 2
    running.node.advance(BACKOFF)
    assert running.node.is_mounted("web")
    assert running.site.named()[2:] == ["NodeStageVolume", "NodeStageVolume", "NodePublishVolume"]


def test_what_vanished_is_published_again(running: Running) -> None:
    running.persistent()
    running.site.host.mounts.unmount(running.target())
    running.node.mounts_changed()
    assert running.node.is_mounted("web")
    assert running.site.named() == ["NodeStageVolume", "NodePublishVolume", "NodePublishVolume"]


def test_what_the_node_lost_is_staged_and_published_again(running: Running) -> None:
    running.persistent()
    for path in (running.target(), Path(STAGED, "globalmount")):
        running.site.host.mounts.unmount(path)
    running.node.mounts_changed()
    assert running.node.is_mounted("web")
    assert running.site.named()[2:] == ["NodeStageVolume", "NodePublishVolume"]
    assert running.site.host.mounts.is_mount_point(running.target())


def test_data_where_a_mount_was_is_kept_and_named_and_the_pod_is_gone_i09(running: Running) -> None:
    running.persistent()
    target = running.target()
    running.site.host.mounts.unmount(target)
    running.site.host.files.write(target / "precious", b"of the Pod")
    running.site.script.add((Rule(method="NodeUnpublishVolume", skip_work=True),))
    running.node.remove_file("all")
    assert running.node.is_unmounted("web")
    running.node.advance(10 * INTERVAL)
    assert running.site.named().count("NodeUnpublishVolume") == 1
    assert running.site.named().count("NodeUnstageVolume") == 1
    assert running.site.host.files.read(target / "precious") == b"of the Pod"
    assert [orphan.path for orphan in orphans_report(running.node.world).orphans] == [str(target.parent)]


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("text", [b"", b"{", None], ids=["empty", "cut off", "deleted"])
def test_damaged_files_keep_nobody_i10(running: Running, text: bytes | None, is_restarted: bool) -> None:
    running.put(*running.volume(), pod("web", claimed(HANDLE, "data"), inline(NAME, "own"), uid=UID))
    for path in map(Path, running.site.files()):
        if text is None:
            running.site.host.files.remove_file(path)
        else:
            running.site.host.files.write(path, text)
    if is_restarted:
        running.node.start()
    running.node.remove_file("all")
    running.node.sources_ready()
    assert running.node.is_unmounted("web")
    assert sorted(running.site.named()[-3:]) == ["NodeUnpublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
    assert running.site.left() == []


def test_an_inline_volume_is_mounted_once_its_driver_serves_such(running: Running) -> None:
    web = pod("web", inline(NAME, "own"), uid=UID)
    running.put(web, modes=["Persistent"])
    assert not running.node.is_mounted("web")
    assert "serves no Ephemeral volumes" in running.node.warnings()[-1]
    running.put(web)
    assert running.node.is_mounted("web")


def test_a_volume_is_mounted_when_its_driver_registers(running: Running) -> None:
    running.site.known.drop(NAME)
    running.persistent()
    running.node.advance(INTERVAL)
    assert not running.node.is_mounted("web")
    assert running.site.calls() == []
    running.site.register(ALL)
    running.node.declare(DriverInfo(name=NAME, node_id="machine-1"))
    assert running.node.is_mounted("web")


def test_a_staging_that_took_too_long_is_undone_when_its_pod_left_i19(running: Running) -> None:
    running.site.answer("NodeStageVolume", "DEADLINE_EXCEEDED", works=True)
    running.persistent()
    assert not running.node.is_mounted("web")
    running.site.answer("NodeUnstageVolume", "UNAVAILABLE")
    running.node.remove_file("all")
    running.node.advance(INTERVAL)
    assert running.site.named() == ["NodeStageVolume", "NodeUnstageVolume", "NodeUnstageVolume"]
    assert running.site.left() == []


def test_a_driver_that_never_comes_costs_ten_attempts_and_one_event_a_minute_at_most_i30(running: Running) -> None:
    running.node.put_file("lost", *bound("absent.csi.test", "lost"), pod("web", claimed("lost", "data"), uid=UID))
    running.node.advance(60)
    events = [event for event in running.node.world.events.after(0) if "absent.csi.test" in event.message]
    (message,) = {event.message for event in events}
    assert "it was never seen on this node" in message
    assert 1 < events[-1].count <= 10
