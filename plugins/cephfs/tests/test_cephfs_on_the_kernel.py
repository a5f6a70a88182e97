"""cephfs on this machine's kernel, with a server of FUSE that stands in for ceph-fuse: what becomes of servers."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import Outside, pod
from volmgr.host.local import local_host
from volmgr_cephfs.contract import KEY

pytestmark = pytest.mark.root

PLUGIN = "kubernetes.io~cephfs"
VOLUME = {"name": "v", "cephfs": {"monitors": ["10.0.0.1:6789"], "secretRef": {"name": "ceph"}}}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "ceph"},
    "data": {"key": base64.b64encode(KEY.encode()).decode()},
}


class FuseNode(Outside):
    """A daemon in a session of its own, on a node whose ceph-fuse is the stand-in."""

    def __init__(self, top: Path) -> None:
        programs = top / "bin"
        programs.mkdir()
        program = programs / "ceph-fuse"
        program.write_text(
            f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("ceph_fuse_stand_in.py")} "$@"\n'
        )
        program.chmod(0o755)
        configuration = top / "volmgr.json"
        plugins = {"kubernetes.io/cephfs": {"client": "fuse", "force_after": 1}}
        times = {"removal_settle": "50ms", "backoff_initial": "50ms", "health_interval": "200ms"}
        configuration.write_text(json.dumps({"plugins": plugins, **times}))
        super().__init__(top, "--config", str(configuration))
        self.path = f"{programs}:{os.environ['PATH']}"

    def argv(self, *options: str) -> list[str]:
        return ["setsid", "env", f"PATH={self.path}", *super().argv(*options)]

    def data(self, name: str) -> Path:
        return self.volume(name, plugin=PLUGIN)

    def server(self, name: str) -> int:
        """Give the process that serves a Pod's volume."""
        target = os.fsencode(self.data(name))
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and target in words_of(entry):
                return int(entry.name)
        message = f"nobody serves {name}"
        raise AssertionError(message)


def words_of(process: Path) -> list[bytes]:
    try:
        return (process / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it ended meanwhile
        return []


@pytest.fixture
def node(tmp_path: Path) -> Iterator[FuseNode]:
    with FuseNode(tmp_path) as node:
        node.put("secret.json", SECRET)
        yield node
        for file in node.manifests.glob("*.json"):
            file.unlink()
        eventually(lambda: not node.mounts(), "an empty mount table")
        assert os.listdir(node.root / "volmgr/cephfs") == []


def test_a_server_outlives_the_daemon_whose_process_group_is_killed_i82(node: FuseNode) -> None:
    node.put("one.json", pod("one", VOLUME))
    node.wait("one")
    server = node.server("one")
    assert os.getsid(server) != os.getsid(node.pid)
    os.killpg(node.pid, signal.SIGKILL)
    assert node.daemon is not None
    node.daemon.wait()
    assert os.listdir(node.data("one")) == []
    assert os.statvfs(node.data("one")).f_blocks == 1 << 20
    node.start()
    node.wait("one")
    assert node.server("one") == server


def test_inodes_without_a_limit_are_not_counted(node: FuseNode) -> None:
    node.put("one.json", pod("one", VOLUME))
    node.wait("one")
    usage = local_host(node.root).filesystems.measure(node.data("one"))
    assert (usage.capacity, usage.available) == (1 << 32, 1 << 31)
    assert (usage.inodes, usage.inodes_free, usage.inodes_used) == (0, 0, 0)


def test_a_dead_server_is_told_its_mount_goes_and_a_new_pod_has_a_living_one_i83(node: FuseNode) -> None:
    node.put("old.json", pod("old", VOLUME))
    node.wait("old")
    os.kill(node.server("old"), signal.SIGKILL)
    node.until_why("old", "the volume is dead: the FUSE server behind it has gone")
    node.put("new.json", pod("new", VOLUME))
    node.wait("new")
    assert os.listdir(node.data("new")) == []
    (node.manifests / "old.json").unlink()
    node.wait("old", "unmounted")
    assert list(node.mounts()) == [str(node.data("new"))]


def test_a_mount_whose_server_died_while_the_daemon_was_down_is_found_dead(node: FuseNode) -> None:
    node.put("one.json", pod("one", VOLUME))
    node.wait("one")
    server = node.server("one")
    node.kill()
    os.kill(server, signal.SIGKILL)
    node.start()
    node.until_why("one", "the volume is dead")


def test_a_volume_goes_when_its_monitors_are_silent_although_who_asked_for_its_size_waits(node: FuseNode) -> None:
    file = node.put("one.json", pod("one", VOLUME))
    node.wait("one")
    server = node.server("one")
    os.kill(server, signal.SIGUSR1)
    node.until_why("one", "the volume may be dead: the FUSE server behind it has not answered")
    file.unlink()
    node.wait("one", "unmounted")
    assert "by force: its server does not answer" not in node.log_text()
    eventually(lambda: not words_of(Path(f"/proc/{server}")), "the end of the server")
