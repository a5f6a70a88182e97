"""A driver whose FUSE server died (I83): its volumes are taken down all the same, and new Pods get living ones."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.csi import objects
from tests.csi.fault_driver.running import ThreadDriver
from tests.csi.node import CsiNode
from tests.eventually import eventually
from tests.root.acceptance.outside import pod
from tests.root.host.fuse import SilentFuse
from volmgr.host import syscalls
from volmgr.host.mount_options import MS_BIND


def kill_server(staging: Path, target: Path) -> None:
    """Let a volume be one whose server is gone, where it is staged and where it is published."""
    with SilentFuse(staging):
        syscalls.mount(str(staging), str(target), "", MS_BIND, "")
    for place in (staging, target):
        with pytest.raises(OSError, match=os.strerror(errno.ENOTCONN)):
            (place / "file").stat()


def test_a_new_pod_gets_a_volume_that_lives_and_the_old_one_goes_i83(node: CsiNode, driver: ThreadDriver) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk", accessModes=["ReadWriteMany"]))
    old = node.put("old.json", pod("old", objects.claimed("disk")))
    node.wait("old")
    (staging,) = node.global_mounts()
    node.kill()
    kill_server(staging, node.target("old", "pv-disk"))
    old.unlink()
    node.start()
    node.until_clean()
    node.put("new.json", pod("new", objects.claimed("disk")))
    node.wait("new")
    (node.target("new", "pv-disk") / "file").write_text("lives")


def test_a_volume_that_died_is_staged_again_for_the_next_pod_while_one_still_has_it_i83(
    node: CsiNode, driver: ThreadDriver
) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk", accessModes=["ReadWriteMany"]))
    old = node.put("old.json", pod("old", objects.claimed("disk")))
    node.wait("old")
    (staging,) = node.global_mounts()
    kill_server(staging, node.target("old", "pv-disk"))
    node.put("new.json", pod("new", objects.claimed("disk")))
    node.wait("new")
    (node.target("new", "pv-disk") / "file").write_text("lives")
    assert len(driver.calls("NodeStageVolume")) >= 2
    old.unlink()
    node.wait("old", "unmounted")
    assert (node.target("new", "pv-disk") / "file").read_text() == "lives"


def test_a_running_pod_hears_that_its_volume_died_i83(node: CsiNode, driver: ThreadDriver) -> None:
    driver.add_volume("disk")
    node.put("disk.json", *objects.bound(driver.name, "disk"))
    node.put("web.json", pod("web", objects.claimed("disk")))
    node.wait("web")
    (staging,) = node.global_mounts()
    target = node.target("web", "pv-disk")
    with SilentFuse(staging) as server:
        server.refuse_all(errno.ENOSYS)
        syscalls.mount(str(staging), str(target), "", MS_BIND, "")
        node.settle()
        assert "dead" not in node.why("web")
    eventually(lambda: "the volume is dead: the FUSE server" in node.why("web"), lambda: node.why("web"))
    assert node.volmgr("events").stdout.count("VolumeDead") == 1
