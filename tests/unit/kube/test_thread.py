"""The thread of Kubernetes mode: order, requests, timers, files, bugs, its end; and that idle means idle."""

from __future__ import annotations

import logging
import os
import threading
from queue import Queue

import pytest

from tests.unit.kube.recording import done
from tests.unit.kube.scripted_server import WAIT
from volmgr.kube.errors import ApiError
from volmgr.kube.thread import KubeThread


def test_actions_run_in_the_order_in_which_they_were_posted_on_one_thread(thread: KubeThread) -> None:
    ran: list[tuple[int, str]] = []

    for number in range(50):
        thread.post(lambda number=number: ran.append((number, threading.current_thread().name)))  # type: ignore[misc]
    done(thread)

    assert ran == [(number, "volmgr-kube") for number in range(50)]


def test_a_request_runs_elsewhere_and_its_result_comes_back(thread: KubeThread) -> None:
    came: Queue[tuple[str, str]] = Queue()

    thread.ask(
        lambda: threading.current_thread().name,
        lambda ran_on: came.put((ran_on, threading.current_thread().name)),
        lambda error: came.put((str(error), "")),
    )

    assert came.get(timeout=WAIT) == ("volmgr-worker", "volmgr-kube")


def test_what_a_request_raises_comes_back_too(thread: KubeThread) -> None:
    came: Queue[ApiError] = Queue()

    def refuse() -> str:
        raise ApiError("no", status=403)

    thread.ask(refuse, lambda _: None, came.put)

    assert came.get(timeout=WAIT).status == 403


def test_a_bug_in_a_request_is_logged_and_who_asked_learns_of_it(
    thread: KubeThread, caplog: pytest.LogCaptureFixture
) -> None:
    came: Queue[ApiError] = Queue()

    def stumble() -> str:
        raise KeyError("metadata")

    thread.ask(stumble, lambda _: None, came.put)

    assert "metadata" in str(came.get(timeout=WAIT))
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_bug_in_an_action_a_timer_or_a_file_is_logged_and_the_thread_goes_on(
    thread: KubeThread, caplog: pytest.LogCaptureFixture
) -> None:
    reading, writing = os.pipe()
    stumbled = threading.Semaphore(0)

    def stumble() -> None:
        stumbled.release()
        raise RuntimeError("stumbled")

    def read_and_stumble() -> None:
        os.read(reading, 1)
        stumble()

    thread.post(stumble)
    done(thread, lambda: thread.later(0.0, stumble))
    thread.post(lambda: thread.watch(reading, read_and_stumble))
    os.write(writing, b"x")

    assert all(stumbled.acquire(timeout=WAIT) for _ in range(3))
    done(thread)
    assert [str(record.exc_info and record.exc_info[1]) for record in caplog.records] == ["stumbled"] * 3
    done(thread, lambda: thread.forget(reading))
    os.close(reading)
    os.close(writing)


def test_a_forgotten_file_is_not_heard_any_more(thread: KubeThread) -> None:
    reading, writing = os.pipe()
    heard: Queue[bytes] = Queue()
    done(thread, lambda: thread.watch(reading, lambda: heard.put(os.read(reading, 1))))
    os.write(writing, b"a")
    assert heard.get(timeout=WAIT) == b"a"

    done(thread, lambda: thread.forget(reading))
    os.write(writing, b"b")
    done(thread)
    done(thread)

    assert heard.empty()
    os.close(reading)
    os.close(writing)


def test_while_nothing_happens_it_does_not_wake_up(thread: KubeThread) -> None:
    done(thread)
    done(thread)
    before = thread.steps

    for _ in range(200):
        done(thread)

    assert thread.steps - before <= 201, "one for each action, and none besides"


def test_what_was_posted_before_the_end_is_done_and_nothing_after_it() -> None:
    thread = KubeThread(requests=1)
    ran: list[str] = []
    inside, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        inside.set()
        go_on.wait(WAIT)

    thread.start()
    thread.post(hold)
    assert inside.wait(WAIT)
    thread.post(lambda: ran.append("before"))
    stopping = threading.Thread(target=thread.stop)
    stopping.start()
    go_on.set()
    stopping.join(WAIT)
    thread.post(lambda: ran.append("after"))
    thread.stop()

    assert ran == ["before"]


def test_a_request_that_hangs_delays_neither_others_nor_the_end() -> None:
    thread = KubeThread(requests=2)
    thread.start()
    release, came = threading.Event(), Queue[str]()
    thread.ask(lambda: release.wait(WAIT), lambda _: came.put("late"), lambda _: None)

    thread.ask(lambda: "quick", came.put, lambda _: None)

    assert came.get(timeout=WAIT) == "quick"
    thread.stop()
    release.set()
    assert came.empty()
