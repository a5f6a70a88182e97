"""Packages come and go under a daemon with mounted Pods."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.door import Door
from tests.live_node import PATIENCE, LiveNode

if TYPE_CHECKING:
    from tests.root.reload.conftest import Workbench

MEMORY: dict[str, object] = {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
HELLO: dict[str, object] = {"note": {"text": "hello"}}


def test_a_type_is_installed_and_nothing_else_notices(node: Workbench) -> None:
    node.put("old", MEMORY)
    node.tell("wait", "old")
    before = node.mount_ids()
    assert before
    node.put("noted", HELLO)
    with Door(node.top / "door", node.socket) as door:
        argv = node.argv("wait", "noted", "--timeout", "60s", by=door.path)
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as waiting:
            door.until_asked(PATIENCE)
            node.publish_note()
            assert "example.com/note" in node.tell("plugins", "reload")
            _, problem = waiting.communicate(timeout=PATIENCE)
            assert waiting.returncode == 0, problem

    assert (node.volume("noted", "example.com/note") / "note").read_text() == "hello"
    assert node.daemon.poll() is None
    assert before.items() <= node.mount_ids().items()


def test_the_socket_goes_with_the_daemon_also_after_a_reload(node: Workbench) -> None:
    node.tell("plugins", "reload")
    assert node.socket.is_socket()

    node.daemon.terminate()

    assert node.daemon.wait(60) == 0
    assert not node.socket.exists()


def test_the_daemon_keeps_its_root_over_a_reload(node: Workbench) -> None:
    node.tell("plugins", "reload")

    second = subprocess.run(node.command(), capture_output=True, text=True, timeout=30, check=False)

    assert second.returncode == 1
    assert f"PID {node.daemon.pid}" in second.stderr


def test_a_broken_package_is_refused_and_the_old_set_goes_on(node: Workbench) -> None:
    node.publish("volmgr-rotten", "raise ImportError('worm-eaten')", 'rotten = "volmgr_rotten:Rotten"')

    refused = node.run("plugins", "reload")

    assert refused.returncode == 1
    assert "volmgr-rotten" in refused.stderr
    assert "worm-eaten" in refused.stderr
    assert "the old one goes on" in refused.stderr
    node.put("late", MEMORY)
    node.tell("wait", "late")

    node.kill()
    node.start()
    said = node.tell("plugins", "reload").splitlines()[0]

    assert said.startswith("still broken: volmgr-rotten 1.0 (rotten = volmgr_rotten:Rotten): ImportError: worm-eaten; ")
    node.put("rotten", {"rotten": {}})
    wrong = node.run("check", str(node.manifests / "rotten.json")).stderr
    assert "volmgr-rotten 1.0 (rotten = volmgr_rotten:Rotten), which may serve it, is installed but broken" in wrong
    node.venv.uninstall("volmgr-rotten")
    node.tell("plugins", "reload")


def test_a_reload_with_a_wrong_configuration_is_refused_and_the_daemon_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("workers: 2\n")
    with LiveNode(Path(sys.executable), tmp_path, "--config", str(file)) as node:
        file.write_text("wrokers: 3\n")
        refused = node.run("plugins", "reload")
        assert refused.returncode == 1
        assert f"the configuration is refused, the old one goes on: {file}: wrokers: unknown field" in refused.stderr
        file.write_text("plugins: {kubernetes.io/image: {entries_limit: many}}\n")
        assert "plugins.kubernetes.io/image.entries_limit" in node.run("plugins", "reload").stderr
        file.write_text("workers: 3\n")
        node.tell("plugins", "reload")
        assert node.daemon.poll() is None


def test_a_removed_type_leaves_its_volumes_and_takes_them_down_when_it_returns(node: Workbench) -> None:
    node.publish_note()
    node.tell("plugins", "reload")
    node.put("noted", HELLO)
    node.tell("wait", "noted")
    before = node.mount_ids()

    node.venv.uninstall("volmgr-note")
    node.tell("plugins", "reload")
    assert node.mount_ids() == before
    assert "example.com/note" in node.tell("why", "noted")

    node.remove("noted")
    stuck = node.run("wait", "noted", "--for", "unmounted", "--timeout", "3s")
    assert stuck.returncode == 1
    assert "example.com/note" in stuck.stderr
    assert "example.com/note" in node.tell("why", "noted")
    orphans = node.tell("orphans")
    assert "uid-noted" in orphans
    assert "example.com/note" in orphans
    assert node.mount_ids() == before

    node.publish_note()
    node.tell("plugins", "reload")
    node.tell("wait", "noted", "--for", "unmounted")
    assert node.mount_ids() == {}
    assert not (node.root / "pods" / "uid-noted").exists()
