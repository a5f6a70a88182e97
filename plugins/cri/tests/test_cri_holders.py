"""Asking a runtime, and hearing of it only as long as a Pod is kept; the runtime is a server of the test."""

from __future__ import annotations

import queue
import subprocess  # noqa: TID251 - an interpreter that has imported nothing yet
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import pytest
from plugins.cri.tests.client import labelled
from plugins.cri.tests.runtime_server import RuntimeServer

from tests.eventually import eventually
from tests.live_node import PATIENCE
from volmgr.testing import FakeHost
from volmgr_cri.holders import Holders
from volmgr_cri.plugin import volmgr_hold_watchers
from volmgr_cri.settings import CriSettings
from volmgr_cri.v1 import api_pb2 as cri


@dataclass
class Asking:
    """Holders, and what they want to be asked again."""

    holders: Holders
    rechecks: queue.Queue[str] = field(default_factory=queue.Queue[str])

    @classmethod
    def of(cls, endpoint: str, lifetime: float = PATIENCE, timeout: float = PATIENCE) -> Asking:
        rechecks: queue.Queue[str] = queue.Queue()
        settings = CriSettings(runtime_endpoint=endpoint, request_timeout=timeout, events_lifetime=lifetime)
        return cls(Holders(rechecks.put, settings), rechecks)

    def ask(self, uid: str = "u1") -> str | None:
        return self.holders.volmgr_holds(uid)

    def rechecked(self) -> str:
        return self.rechecks.get(timeout=PATIENCE)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RuntimeServer]:
    with RuntimeServer(tmp_path / "s", events=True) as server:
        yield server


@pytest.fixture
def asking(server: RuntimeServer) -> Iterator[Asking]:
    asking = Asking.of(server.endpoint)
    yield asking
    asking.holders.stop()
    until_no_thread()


def run(server: RuntimeServer, uid: str = "u1", name: str = "web") -> None:
    container = cri.Container(id=f"{uid}-{name}", metadata=cri.ContainerMetadata(name=name), labels=labelled(uid))
    container.state = cri.CONTAINER_RUNNING
    server.containers.append(container)


def until_no_thread() -> None:
    for thread in threading.enumerate():
        if thread.name == "volmgr-cri":
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the listener never ended"


def test_nobody_runs_a_pod_that_the_runtime_does_not_know(server: RuntimeServer, asking: Asking) -> None:
    run(server, "u2")
    assert asking.ask() is None
    assert not server.subscribed.acquire(blocking=False)


def test_containers_of_the_pods_sandbox_count_without_a_label(server: RuntimeServer, asking: Asking) -> None:
    server.sandboxes.append(cri.PodSandbox(id="s1", metadata=cri.PodSandboxMetadata(uid="u1")))
    made = cri.Container(id="c", pod_sandbox_id="s1", metadata=cri.ContainerMetadata(name="db"))
    server.containers.append(made)
    assert asking.ask() == "testd says that db is created and may start"


def test_an_end_is_passed_on_and_the_last_ends_the_subscription(server: RuntimeServer, asking: Asking) -> None:
    run(server, "u1")
    run(server, "u2")
    assert (asking.ask("u1"), asking.ask("u2")) == ("testd says that web runs", "testd says that web runs")
    assert server.subscribed.acquire(timeout=PATIENCE)
    server.send(cri.CONTAINER_STARTED_EVENT, "u1")
    server.send(uid="u3")
    server.send(uid="u2")
    assert asking.rechecked() == "u2"
    server.send()  # in a Pod that is not named
    assert {asking.rechecked(), asking.rechecked()} == {"u1", "u2"}

    server.containers.clear()
    assert asking.ask("u2") is None
    assert not server.unsubscribed.acquire(blocking=False)
    assert asking.ask("u1") is None
    assert server.unsubscribed.acquire(timeout=PATIENCE)
    assert not server.subscribed.acquire(blocking=False)
    until_no_thread()


def test_a_pod_is_looked_at_again_once_it_is_listened_to(server: RuntimeServer, asking: Asking) -> None:
    run(server)
    assert asking.ask()
    twice = server.asked
    assert asking.ask()
    assert (twice, server.asked) == (2, 3)


def test_a_runtime_without_events_is_asked_all_the_same(tmp_path: Path) -> None:
    with RuntimeServer(tmp_path / "s", events=False) as server:
        run(server)
        asking = Asking.of(server.endpoint)
        for _ in range(3):
            assert asking.ask() == "testd says that web runs"
            until_no_thread()
        server.containers.clear()
        assert asking.ask() is None
        assert asking.rechecks.empty()
        asking.holders.stop()


def test_a_subscription_whose_time_is_over_lets_who_is_still_kept_be_asked_and_begins_anew(
    server: RuntimeServer,
) -> None:
    run(server)
    asking = Asking.of(server.endpoint, lifetime=0.5)
    assert asking.ask()
    for _ in range(3):
        assert asking.rechecked() == "u1"
        assert server.subscribed.acquire(timeout=PATIENCE)
        assert asking.ask()
    assert asking.rechecked() == "u1"  # a Pod that nobody asks about any more is forgotten
    until_no_thread()
    asking.holders.stop()


def test_nobody_answers_so_the_pod_is_kept_with_what_to_do(server: RuntimeServer, asking: Asking) -> None:
    run(server)
    server.stop()
    said = asking.ask()
    assert said is not None
    assert said.startswith(f"unknown: asking {server.endpoint} for the Pod's containers: unavailable: ")
    assert said.endswith(
        "; start the runtime, name its socket in plugins.volmgr-cri.runtime_endpoint, or uninstall volmgr-cri"
    )
    server.start()
    assert asking.ask() == "testd says that web runs"


def test_a_runtime_that_ends_ends_the_subscription_and_the_next_answer_begins_another(
    server: RuntimeServer, asking: Asking
) -> None:
    run(server)
    assert asking.ask()
    assert server.subscribed.acquire(timeout=PATIENCE)
    server.stop()
    until_no_thread()
    assert str(asking.ask()).startswith("unknown: ")
    assert asking.rechecks.empty()

    server.start()
    assert asking.ask() == "testd says that web runs"
    assert server.subscribed.acquire(timeout=PATIENCE)
    server.send(uid="u1")
    assert asking.rechecked() == "u1"


def test_a_runtime_that_hangs_is_asked_once_for_all_pods_until_a_while_has_passed(server: RuntimeServer) -> None:
    run(server)
    asking = Asking.of(server.endpoint, timeout=1.0)
    server.goes_on.clear()
    with ThreadPoolExecutor(3) as threads:
        said = list(threads.map(asking.ask, ("u1", "u2", "u3")))
    assert ["deadline exceeded" in str(each) for each in said] == [True, True, True]
    assert (len(set(said)), server.asked) == (1, 1)

    server.goes_on.set()
    eventually(lambda: asking.ask() == "testd says that web runs", "an answer of the runtime")
    asking.holders.stop()


def test_who_was_stopped_listens_no_more_but_answers(server: RuntimeServer, asking: Asking) -> None:
    run(server)
    asking.holders.stop()
    assert asking.ask() == "testd says that web runs"
    assert not server.subscribed.acquire(blocking=False)


def test_an_address_that_is_none_is_an_answer_too(tmp_path: Path) -> None:
    assert str(Asking.of("http:///nowhere").ask()).startswith("unknown: asking http:///nowhere for the Pod's")


def test_grpc_is_imported_by_the_first_question() -> None:
    code = """
        import sys
        from volmgr_cri.plugin import Holders, volmgr_settings, CriSettings
        holders = Holders(print, CriSettings(runtime_endpoint="unix:///nowhere"))
        holders.start()
        assert not any(name in sys.modules for name in ("grpc", "google.protobuf")), "at the start"
        holders.volmgr_holds("u1")
        assert "grpc" in sys.modules
        holders.stop()
    """
    subprocess.run([sys.executable, "-c", dedent(code)], check=True, timeout=PATIENCE)


def test_the_settings_are_those_of_the_host() -> None:
    host = FakeHost().with_settings(CriSettings(runtime_endpoint="unix:///nowhere"))
    (holders,) = volmgr_hold_watchers(print, host)
    assert isinstance(holders, Holders)
    assert "unix:///nowhere" in str(holders.volmgr_holds("u1"))
    holders.stop()
