"""A real volmgrd with Secrets and ConfigMaps: what waits, what changes, what a start repairs, what nobody may see."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live_node import PATIENCE, LiveNode
from volmgr.cli.client import Client
from volmgr.testing.node import pod

PYTHON = Path(sys.executable)
SECRET: dict[str, object] = {"name": "s", "secret": {"secretName": "login"}}
CONFIG: dict[str, object] = {"name": "c", "configMap": {"name": "settings"}}
HIDDEN = "hunter2-correct-horse"
MORE_HIDDEN = "hunter3-battery-staple"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with LiveNode(PYTHON, tmp_path) as node:
        yield node


def offer(node: LiveNode, name: str, *documents: dict[str, Any]) -> None:
    """Let a manifest file be replaced at once."""
    draft = node.manifests / f".{name}"
    draft.write_text("\n---\n".join(map(json.dumps, documents)))
    draft.rename(node.manifests / f"{name}.json")


def secret(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": data}


def config(name: str = "settings", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def place(node: LiveNode, uid: str, volume: dict[str, object]) -> Path:
    plugin = "kubernetes.io~secret" if "secret" in volume else "kubernetes.io~configmap"
    return node.root / "pods" / uid / "volumes" / plugin / str(volume["name"])


def follow(node: LiveNode, tells: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Give the first event, old or new, that tells something."""
    client = Client(str(node.socket))
    watchdog = threading.Timer(PATIENCE, client.close)
    watchdog.start()
    try:
        return next(event for line in client.follow() if tells(event := json.loads(line)))
    finally:
        watchdog.cancel()
        client.close()


def mounts_done(node: LiveNode, uid: str, count: int) -> None:
    """Wait until a Pod's volumes were mounted this often in the life of the daemon."""
    seen: list[None] = []

    def tells(event: dict[str, Any]) -> bool:
        if event["reason"] == "SuccessfulMountVolume" and uid in json.dumps(event):
            seen.append(None)
        return len(seen) == count

    follow(node, tells)


def test_a_pod_waits_with_a_reason_until_its_secret_appears(node: LiveNode) -> None:
    offer(node, "web", pod("web", SECRET, uid="u1"))
    node.await_why("web", "Secret default/login")
    assert node.run("wait", "web", "--timeout", "0s").returncode != 0
    offer(node, "secret", secret(user="admin"))
    node.tell("wait", "web")
    assert (place(node, "u1", SECRET) / "user").read_text() == "admin"


def test_a_changed_config_map_reaches_the_volumes_that_use_it_and_no_others(node: LiveNode) -> None:
    other: dict[str, object] = {"name": "c", "configMap": {"name": "other"}}
    offer(node, "other", config("other", level="3"), pod("calm", other, uid="u2"))
    offer(node, "settings", config(level="3"))
    offer(node, "web", pod("web", CONFIG, SECRET, uid="u1"), secret(user="admin"))
    node.tell("wait", "web")
    node.tell("wait", "calm")
    calm = [(path, path.lstat().st_ino) for path in sorted(place(node, "u2", other).iterdir())]
    secret_before = sorted(path.lstat().st_ino for path in place(node, "u1", SECRET).iterdir())
    offer(node, "settings", config(level="4", more="x"))
    mounts_done(node, "u1", 3)
    assert (place(node, "u1", CONFIG) / "level").read_text() == "4"
    assert (place(node, "u1", CONFIG) / "more").read_text() == "x"
    assert [(path, path.lstat().st_ino) for path in sorted(place(node, "u2", other).iterdir())] == calm
    assert sorted(path.lstat().st_ino for path in place(node, "u1", SECRET).iterdir()) == secret_before


def test_a_start_after_kill_9_restores_links_and_content_of_living_pods(node: LiveNode) -> None:
    offer(node, "all", config(level="3", more="x"), secret(user="admin"), pod("web", CONFIG, SECRET, uid="u1"))
    node.tell("wait", "web")
    mounts = node.mount_ids()
    node.kill()
    (place(node, "u1", CONFIG) / "more").unlink()
    (place(node, "u1", CONFIG) / "level").write_text("meddled")
    (place(node, "u1", SECRET) / "user").unlink()
    node.start()
    mounts_done(node, "u1", 2)
    assert (place(node, "u1", CONFIG) / "level").read_text() == "3"
    assert (place(node, "u1", CONFIG) / "more").read_text() == "x"
    assert (place(node, "u1", SECRET) / "user").read_text() == "admin"
    assert node.mount_ids() == mounts


def test_a_secret_in_use_names_its_holder_and_goes_when_that_ends(node: LiveNode) -> None:
    offer(node, "secret", secret(user="admin"))
    offer(node, "web", pod("web", SECRET, uid="u1"))
    offer(node, "other", pod("other", SECRET, uid="u2"))
    node.tell("wait", "web")
    node.tell("wait", "other")
    with subprocess.Popen(["sleep", "60"], cwd=place(node, "u1", SECRET)) as inside:
        node.remove("web")
        node.remove("other")
        node.tell("wait", "other", "--for", "unmounted")
        busy = follow(node, lambda event: event["reason"] == "FailedUnmount")
        assert str(inside.pid) in busy["message"]
        inside.kill()
    node.tell("wait", "u1", "--for", "unmounted")
    assert not place(node, "u1", SECRET).exists()


def test_no_secret_is_in_records_journal_log_events_answers_or_command_lines(node: LiveNode) -> None:
    wrong: dict[str, object] = {"name": "x", "secret": {"secretName": "login", "items": [{"key": "no", "path": "no"}]}}
    bad = {**secret(), "data": {"password": f"%{HIDDEN}%"}}
    offer(node, "all", secret(password=HIDDEN), pod("web", SECRET, uid="u1"), pod("wrong", wrong, uid="u2"))
    node.tell("wait", "web")
    offer(node, "all", secret(password=MORE_HIDDEN), pod("web", SECRET, uid="u1"), pod("wrong", wrong, uid="u2"))
    mounts_done(node, "u1", 2)
    assert (place(node, "u1", SECRET) / "password").read_text() == MORE_HIDDEN
    follow(node, lambda event: event["reason"] == "FailedMount")
    offer(node, "bad", {**bad, "metadata": {"name": "bad"}})
    follow(node, lambda event: "bad.json" in json.dumps(event))
    client = Client(str(node.socket))
    told = [client.get(target).decode() for target in ANSWERS]
    client.close()
    told += [node.run(*command).stdout for command in COMMANDS]
    told += [path.read_text(errors="replace") for path in sorted(node.root.rglob("*")) if is_record(node, path)]
    told += [Path(f"/proc/{node.daemon.pid}/{name}").read_text() for name in ("cmdline", "environ")]
    told.append((node.top / "log").read_text())
    assert any("u1" in text for text in told)
    assert not [text for text in told if HIDDEN in text or MORE_HIDDEN in text]


COMMANDS = (("status",), ("why", "web"), ("why", "wrong"), ("events",), ("mounts", "web"))
ANSWERS = (
    "/metrics",
    "/readyz",
    "/v1/pods",
    "/v1/pods/web",
    "/v1/pods/web/why",
    "/v1/pods/wrong/why",
    "/v1/claims",
    "/v1/plan",
    "/v1/plugins",
    "/v1/orphans",
    "/v1/doctor",
    "/v1/events",
)


def is_record(node: LiveNode, path: Path) -> bool:
    """Say whether a file is ours rather than the content of a volume."""
    return path.is_file() and path.is_relative_to(node.root / "volmgr")
