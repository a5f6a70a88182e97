"""A real volmgrd is killed by SIGKILL at any moment, again and again: it converges, and no user's file is lost."""

import json
import os
import random
import socket
import subprocess
import sys
import threading
from pathlib import Path

from tests.live_node import PATIENCE, LiveNode
from volmgr_emptydir.plugin import EmptyDir

KINDS: tuple[dict[str, object], ...] = (
    {"emptyDir": {}},
    {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    {"hostPath": {"path": "/tmp"}},
)
KILLS = 10
NAMES = tuple(f"pod-{number}" for number in range(6))
LONGEST = 0.7
"""Seconds; a start takes about half of it, so that kills hit starts as well as operations."""
SIZE = 100_000


def start(node: LiveNode) -> None:
    with (node.top / "log").open("a") as log:
        command = node.command("--manifests", str(node.manifests))
        node.daemon = subprocess.Popen(command, stderr=log, text=True)


def start_and_wait(node: LiveNode) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, (node.top / "log").open("a") as log:
        path = node.top / "notify-again"
        channel.bind(str(path))
        channel.settimeout(PATIENCE)
        command = node.command("--manifests", str(node.manifests))
        node.daemon = subprocess.Popen(command, env={**os.environ, "NOTIFY_SOCKET": str(path)}, stderr=log, text=True)
        assert channel.recv(4096).startswith(b"READY=1")


def kill(node: LiveNode) -> None:
    node.daemon.kill()
    node.daemon.wait()


def test_a_daemon_that_is_killed_at_any_moment_converges_and_loses_no_file(tmp_path: Path) -> None:
    chosen = random.Random(1)
    wanted: dict[str, dict[str, object]] = {}
    with LiveNode(Path(sys.executable), tmp_path) as node:
        kept: list[Path] = []
        for name, kind in (("disk", KINDS[0]), ("memory", KINDS[1])):
            node.put(name, kind)
            node.tell("wait", name, "--for", "mounted")
            kept.append(node.volume(name, EmptyDir.name) / "data")
            kept[-1].write_text("of a user")
        for _ in range(KILLS):
            timer = threading.Timer(chosen.uniform(0, LONGEST), kill, (node,))
            timer.start()
            for name in chosen.sample(NAMES, 3):
                if name in wanted:
                    del wanted[name]
                    node.remove(name)
                else:
                    wanted[name] = KINDS[NAMES.index(name) % len(KINDS)]
                    node.put(name, wanted[name])
            timer.join()
            assert [path.read_text() for path in kept] == ["of a user"] * 2
            start(node)
        kill(node)
        start_and_wait(node)
        for name in NAMES:
            node.tell("wait", name, "--for", "mounted" if name in wanted else "unmounted")
        there = {f"uid-{name}" for name in ("disk", "memory", *wanted)}
        on_disk = {path.name for path in (node.root / "pods").iterdir()}
        directories = {f"uid-{name}" for name, kind in wanted.items() if "emptyDir" in kind}
        assert directories <= on_disk <= there
        memory = [name for name, kind in wanted.items() if kind is KINDS[1]]
        mounts = sorted(str(node.volume(name, EmptyDir.name)) for name in ("memory", *memory))
        assert sorted(node.mount_ids()) == mounts
        assert {path.name for path in (node.root / "volmgr" / "mounts").iterdir()} == there
        assert {path.stem for path in (node.root / "volmgr" / "pods").iterdir()} == there
        assert [path.read_text() for path in kept] == ["of a user"] * 2


def test_a_daemon_that_is_killed_while_it_writes_shows_old_or_new_files_and_leaves_no_others(tmp_path: Path) -> None:
    chosen = random.Random(3)
    with LiveNode(Path(sys.executable), tmp_path) as node:

        def change(version: int) -> None:
            text = chr(ord("a") + version) * SIZE
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"key": text}}
            (node.manifests / ".draft").write_text(json.dumps(document))
            (node.manifests / ".draft").rename(node.manifests / "c.json")

        change(0)
        for name in NAMES:
            node.put(name, {"configMap": {"name": "c"}})
            node.tell("wait", name, "--for", "mounted")
        shown = [node.volume(name, "kubernetes.io/configmap") / "key" for name in NAMES]
        for version in range(1, KILLS // 2):
            timer = threading.Timer(chosen.uniform(0, 0.03), node.kill)
            timer.start()
            change(version)
            timer.join()
            for path in shown:
                text = path.read_text()
                assert text == text[0] * SIZE
            node.start()
            node.tell("wait", NAMES[-1], "--for", "mounted")
        node.kill()
        change(KILLS)
        node.start()
        for name in NAMES:
            node.tell("wait", name, "--for", "mounted")
        assert {path.read_text()[0] for path in shown} == {chr(ord("a") + KILLS)}
        for path in shown:
            stamp = os.readlink(path.parent / "..data")
            assert sorted(os.listdir(path.parent)) == [stamp, "..data", "key"]
