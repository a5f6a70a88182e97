"""What happens later, and what runs beside."""

from __future__ import annotations

import threading
from queue import SimpleQueue

from hypothesis import given
from hypothesis import strategies as st

from tests.eventually import eventually
from volmgr.timers import Timers
from volmgr.workers import Workers


def test_timers_run_when_due_in_order_and_those_of_one_moment_as_they_were_set() -> None:
    timers, ran = Timers(), list[str]()
    for when, name in ((2.0, "c"), (1.0, "a"), (1.0, "b"), (3.0, "d")):
        timers.at(when, lambda name=name: ran.append(name))  # type: ignore[misc]
    assert timers.next_due() == 1.0
    timers.run_due(0.9)
    assert ran == []
    timers.run_due(2.0)
    assert ran == ["a", "b", "c"]
    assert timers.next_due() == 3.0


def test_a_cancelled_timer_wakes_nobody() -> None:
    timers, ran = Timers(), list[str]()
    timers.at(1.0, lambda: ran.append("a")).cancel()
    assert timers.next_due() is None
    timers.run_due(2.0)
    assert ran == []


def test_a_timer_may_set_another_and_cancel_one() -> None:
    timers, ran = Timers(), list[str]()
    doomed = timers.at(2.0, lambda: ran.append("doomed"))

    def first() -> None:
        doomed.cancel()
        timers.at(1.5, lambda: ran.append("second"))

    timers.at(1.0, first)
    timers.run_due(5.0)
    assert ran == ["second"]


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=30), st.integers(0, 20))
def test_exactly_what_is_due_and_not_cancelled_has_run(given_timers: list[tuple[int, bool]], now: int) -> None:
    timers, ran = Timers(), list[int]()
    for index, (when, cancelled) in enumerate(given_timers):
        timer = timers.at(when, lambda index=index: ran.append(index))  # type: ignore[misc]
        if cancelled:
            timer.cancel()
    timers.run_due(now)
    assert sorted(ran) == [
        index for index, (when, cancelled) in enumerate(given_timers) if when <= now and not cancelled
    ]


def test_every_chore_s_result_is_delivered() -> None:
    results: SimpleQueue[int] = SimpleQueue()
    workers = Workers[int](results.put, limit=3)
    for number in range(50):
        workers.submit(lambda number=number: number)  # type: ignore[misc]
    assert sorted(results.get(timeout=10) for _ in range(50)) == list(range(50))


def test_no_more_chores_than_allowed_run_at_once_but_others_beside_a_slow_one() -> None:
    results: SimpleQueue[str] = SimpleQueue()
    workers = Workers[str](results.put, limit=1)
    release, started = threading.Event(), threading.Event()

    def stuck() -> str:
        started.set()
        release.wait(10)
        return "stuck"

    workers.submit(stuck)
    assert started.wait(10)
    workers.submit(lambda: "next")
    assert results.empty()
    workers.make_room()
    assert results.get(timeout=10) == "next"
    release.set()
    assert results.get(timeout=10) == "stuck"
    workers.take_room_back()
    workers.submit(lambda: "after")
    assert results.get(timeout=10) == "after"


def test_threads_that_a_slow_chore_made_room_for_end_with_it_though_nothing_else_is_to_be_done() -> None:
    results: SimpleQueue[threading.Thread] = SimpleQueue()
    workers = Workers[threading.Thread](results.put, limit=1)
    release, together = threading.Event(), threading.Barrier(3)

    def slow() -> threading.Thread:
        together.wait(10)
        release.wait(10)
        return threading.current_thread()

    workers.make_room()
    for _ in range(3):
        workers.submit(slow)
    release.set()
    threads = [results.get(timeout=10) for _ in range(3)]
    workers.take_room_back()
    eventually(lambda: sum(thread.is_alive() for thread in threads) == 1)
    workers.submit(threading.current_thread)
    assert results.get(timeout=10) in threads


def test_a_chore_that_fails_unexpectedly_does_not_end_its_worker() -> None:
    results: SimpleQueue[str] = SimpleQueue()
    workers = Workers[str](results.put, limit=1)

    def fail() -> str:
        raise ValueError("a bug")

    def end() -> str:
        raise GeneratorExit

    workers.submit(fail)
    workers.submit(end)
    workers.submit(lambda: "next")
    assert results.get(timeout=10) == "next"
