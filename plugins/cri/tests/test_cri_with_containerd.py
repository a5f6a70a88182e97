"""A real volmgrd, a real containerd, and real containers on the volumes."""

from __future__ import annotations

import json
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from plugins.cri.tests.client import labelled
from plugins.cri.tests.containerd import IMAGE, Containerd, running
from plugins.cri.tests.runtime_server import RuntimeServer

from tests.eventually import eventually
from tests.live_node import PATIENCE, LiveNode
from tests.side_venv import SideVenv
from volmgr.config import Config

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

MEMORY = "kubernetes.io/empty-dir"
SOON, NEVER = 0.2, 3600.0
"""Seconds until holders are asked again: what a test waits for comes by asking again, or only by an event."""


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> SideVenv:
    venv = SideVenv.make(tmp_path_factory.mktemp("cri") / "venv")
    venv.install(Path(__file__).parents[1])
    return venv


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    with running(tmp_path_factory.mktemp("containerd") / "c") as containerd:
        yield containerd


@contextmanager
def node_with(venv: SideVenv, top: Path, endpoint: str, recheck: float) -> Generator[LiveNode]:
    """Run a daemon that has volmgr-cri; when a test fails it is not drained, as containers still run."""
    settings = {"runtime_endpoint": endpoint, "request_timeout": 60}
    configuration = {"holders_recheck": recheck, "plugins": {"volmgr-cri": settings}}
    (top / "config.json").write_text(json.dumps(configuration))
    with LiveNode(venv.python, top, "--config", str(top / "config.json")) as node:
        try:
            yield node
        except BaseException:
            node.kill()
            raise


def run_container(containerd: Containerd, node: LiveNode, name: str, container: str = "main") -> str:
    """Mount a Pod's volume, run a container that has written into it, and give the container's id."""
    node.put(name, {"emptyDir": {"medium": "Memory"}})
    node.tell("wait", name)
    volume = node.volume(name, MEMORY)
    sandbox = containerd.client.run_sandbox(name, f"uid-{name}", labelled(f"uid-{name}"))
    script = "echo it is here > /v/file && exec /bin/busybox sleep 86400"
    made = containerd.client.create(sandbox, container, IMAGE, volume, "/bin/busybox", "sh", "-c", script)
    containerd.client.start(made)
    return made


def until(node: LiveNode, name: str, text: str) -> None:
    """Return when `volmgr why` says something of a Pod."""
    eventually(lambda: text in node.tell("why", name), lambda: f"{text!r} in: {node.tell('why', name)}")


def until_grpc_is_idle(pid: int) -> None:
    """Return when a process has none of grpc's threads: an open channel wakes them several times a second."""
    prefixes = ("grpc", "event_engine", "lifeguard")
    eventually(lambda: not any(name.startswith(prefixes) for name in thread_names(pid)), "the end of a channel")


def thread_names(pid: int) -> list[str]:
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            found.append((task / "comm").read_text().strip())
    return found


def test_a_volume_stays_while_its_container_runs_and_goes_when_it_has_ended(
    venv: SideVenv, containerd: Containerd, tmp_path: Path
) -> None:
    with node_with(venv, tmp_path, containerd.endpoint, SOON) as node:
        container = run_container(containerd, node, "web")
        node.remove("web")
        until(node, "web", "held by containerd says that main runs")
        assert str(node.volume("web", MEMORY)) in node.mount_ids()
        assert (node.volume("web", MEMORY) / "file").read_text() == "it is here\n"

        containerd.client.stop(container)
        node.tell("wait", "web", "--for", "unmounted")
        assert node.mount_ids() == {}


def test_an_event_lets_a_volume_go_at_once(venv: SideVenv, containerd: Containerd, tmp_path: Path) -> None:
    with (
        RuntimeServer(tmp_path / "s", events=True, behind=containerd.client) as server,
        node_with(venv, tmp_path, server.endpoint, NEVER) as node,
    ):
        container = run_container(containerd, node, "quick")
        node.remove("quick")
        until(node, "quick", "held by testd says that main runs")
        assert server.subscribed.acquire(timeout=PATIENCE)
        assert any(name.startswith("event_engine") for name in thread_names(node.daemon.pid))
        containerd.client.stop(container)
        server.send(uid="uid-quick")
        node.tell("wait", "quick", "--for", "unmounted")
        assert server.unsubscribed.acquire(timeout=PATIENCE)
        until_grpc_is_idle(node.daemon.pid)


def test_a_runtime_that_is_killed_takes_no_volume_with_it(
    venv: SideVenv, containerd: Containerd, tmp_path: Path
) -> None:
    with node_with(venv, tmp_path, containerd.endpoint, SOON) as node:
        container = run_container(containerd, node, "tough")
        containerd.kill()
        node.remove("tough")
        until(node, "tough", "start the runtime, name its socket in plugins.volmgr-cri.runtime_endpoint")
        assert str(node.volume("tough", MEMORY)) in node.mount_ids()

        containerd.start()
        until(node, "tough", "containerd says that main runs")
        containerd.client.stop(container)
        node.tell("wait", "tough", "--for", "unmounted")


def test_a_runtime_that_hangs_keeps_no_other_pod_waiting(
    venv: SideVenv, containerd: Containerd, tmp_path: Path
) -> None:
    with node_with(venv, tmp_path, containerd.endpoint, SOON) as node:
        leaving = [f"leaving-{number}" for number in range(2 * Config().workers)]
        for name in leaving:
            node.put(name, {"emptyDir": {"medium": "Memory"}})
            node.tell("wait", name)
        containerd.process.send_signal(signal.SIGSTOP)
        try:
            for name in leaving:
                node.remove(name)
            for name in leaving:
                until(node, name, ": leaving")
            node.put("new", {"emptyDir": {"medium": "Memory"}})
            node.tell("wait", "new")
            assert len(node.mount_ids()) == len(leaving) + 1
        finally:
            containerd.process.send_signal(signal.SIGCONT)
        for name in leaving:
            node.tell("wait", name, "--for", "unmounted")


def test_a_daemon_that_is_killed_asks_again(venv: SideVenv, containerd: Containerd, tmp_path: Path) -> None:
    with (
        RuntimeServer(tmp_path / "s", events=True, behind=containerd.client) as server,
        node_with(venv, tmp_path, server.endpoint, NEVER) as node,
    ):
        container = run_container(containerd, node, "again")
        node.remove("again")
        until(node, "again", "main runs")
        before = node.mount_ids()
        for number in (signal.SIGKILL, signal.SIGTERM):
            assert server.subscribed.acquire(timeout=PATIENCE)
            node.daemon.send_signal(number)
            node.daemon.wait(PATIENCE)
            assert server.unsubscribed.acquire(timeout=PATIENCE)
            node.start()
            until(node, "again", "main runs")
            assert node.mount_ids() == before
        containerd.client.stop(container)
        assert server.subscribed.acquire(timeout=PATIENCE)
        server.send(uid="uid-again")
        node.tell("wait", "again", "--for", "unmounted")


def test_a_container_that_was_created_may_start_and_a_sandbox_alone_keeps_nothing(
    venv: SideVenv, containerd: Containerd, tmp_path: Path
) -> None:
    with node_with(venv, tmp_path, containerd.endpoint, SOON) as node:
        for name in ("made", "empty"):
            node.put(name, {"emptyDir": {"medium": "Memory"}})
            node.tell("wait", name)
        sandbox = containerd.client.run_sandbox("made", "uid-made", {})  # known by its metadata alone
        container = containerd.client.create(sandbox, "late", IMAGE, node.volume("made", MEMORY))
        containerd.client.run_sandbox("empty", "uid-empty", labelled("uid-empty"))
        node.remove("made")
        node.remove("empty")

        node.tell("wait", "empty", "--for", "unmounted")
        until(node, "made", "containerd says that late is created and may start")
        containerd.client.remove(container)
        node.tell("wait", "made", "--for", "unmounted")
