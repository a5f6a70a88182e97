"""List and watch of one collection: pages, events, and all that can go wrong between two of them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

import pytest

from tests.unit.kube.recording import QUICK, Clock, Kubeconfigs, Recorder, done, pass_time
from tests.unit.kube.scripted_server import (
    WAIT,
    Exchange,
    ScriptedServer,
    bookmark,
    chunk,
    event_line,
    list_of,
    pod,
    status_of,
)
from volmgr.kube.api import ApiServer, configured
from volmgr.kube.reflector import Reflector
from volmgr.kube.resources import PODS
from volmgr.kube.thread import KubeThread
from volmgr.kube.wire import Seen
from volmgr.model.kube import KubeSettings

SELECTOR = "spec.nodeName=n1"
Make = Callable[..., Reflector]


@pytest.fixture
def api(server: ScriptedServer, kubeconfigs: Kubeconfigs) -> ApiServer:
    return configured(kubeconfigs.write(server.address), QUICK)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def make(thread: KubeThread, api: ApiServer, recorder: Recorder) -> Generator[Make]:
    made: list[Reflector] = []

    def start(settings: KubeSettings = QUICK, server: ApiServer = api, **selectors: str) -> Reflector:
        reflector = Reflector(thread, server, PODS, recorder, settings, **(selectors or {"field_selector": SELECTOR}))
        made.append(reflector)
        thread.post(reflector.start)
        return reflector

    yield start
    for each in made:
        done(thread, each.stop)


def begun(server: ScriptedServer, recorder: Recorder, *items: object, version: int = 5) -> Exchange:
    """Answer the list and agree to the watch, which is given."""
    server.next().answer(list_of(*items, version=version))
    assert recorder.next().startswith("listed")
    watch = server.next()
    watch.begin()
    assert recorder.next() == "current"
    return watch


def test_what_is_there_is_told_and_then_what_changes(make: Make, server: ScriptedServer, recorder: Recorder) -> None:
    began = time.time()
    reflector = make()
    listing = server.next()
    assert reflector.problem == "pods have not been read yet"
    assert reflector.last_contact == 0.0
    listing.answer(list_of(pod("a", 3), pod("b", 4), version=5))
    watch = server.next()
    watch.begin()
    watch.event("ADDED", pod("c", 6))
    watch.event("MODIFIED", pod("a", 7))
    watch.event("DELETED", pod("b", 8))

    assert [recorder.next() for _ in range(5)] == [
        "listed a@3 b@4",
        "current",
        "changed c@6",
        "changed a@7",
        "gone b@8",
    ]
    assert (listing.path, listing.query) == ("/api/v1/pods", {"limit": "500", "fieldSelector": SELECTOR})
    timeout = int(watch.query.pop("timeoutSeconds"))
    assert QUICK.watch_lifetime <= timeout <= 2 * QUICK.watch_lifetime
    assert watch.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "fieldSelector": SELECTOR,
    }
    assert reflector.problem == ""
    assert reflector.last_contact >= began


def test_a_namespace_and_labels_choose(make: Make, server: ScriptedServer) -> None:
    make(namespace="kube-system", label_selector="app=x")
    listing = server.next()

    assert listing.path == "/api/v1/namespaces/kube-system/pods"
    assert listing.query == {"limit": "500", "labelSelector": "app=x"}


def test_a_list_is_read_page_by_page_and_told_as_a_whole(
    make: Make, server: ScriptedServer, recorder: Recorder
) -> None:
    make(replace(QUICK, page_size=2))
    first = server.next()
    first.answer(list_of(pod("a", 1), pod("b", 2), version=9, further="token-1"))
    second = server.next()
    assert recorder.heard.empty()
    second.answer(list_of(pod("c", 3), version=9))

    assert recorder.next() == "listed a@1 b@2 c@3"
    assert first.query["limit"] == "2"
    assert second.query == {"limit": "2", "continue": "token-1", "fieldSelector": SELECTOR}
    assert server.next().query["resourceVersion"] == "9"


def test_pages_that_expire_are_read_from_the_first_again(
    make: Make, server: ScriptedServer, recorder: Recorder
) -> None:
    make()
    server.next().answer(list_of(pod("old", 1), version=2, further="token-1"))
    server.next().refuse(410, "Expired", "The provided continue parameter is too old")
    assert recorder.next() == "troubled 410"
    again = server.next()
    assert "continue" not in again.query
    again.answer(list_of(pod("new", 3), version=4))

    assert recorder.next() == "listed new@3"


@pytest.mark.parametrize("how", ["an event", "a status"])
def test_a_version_that_is_too_old_is_listed_again(
    make: Make, server: ScriptedServer, recorder: Recorder, how: str
) -> None:
    make()
    watch = begun(server, recorder, pod("a", 1))
    watch.event("BOOKMARK", bookmark(6))
    if how == "an event":
        watch.event("ERROR", status_of(410, "Expired", "too old resource version: 6 (99)"))
    else:
        watch.end()
        server.next().refuse(410, "Expired", "too old resource version: 6 (99)")
    server.next().answer(list_of(pod("b", 98), version=99))

    assert recorder.next() == "listed b@98"
    assert server.next().query["resourceVersion"] == "99"
    assert recorder.errors == [], "it happens after each long outage, and nothing is wrong"


def test_a_cut_connection_goes_on_where_it_was(make: Make, server: ScriptedServer, recorder: Recorder) -> None:
    reflector = make()
    watch = begun(server, recorder, pod("a", 1))
    watch.event("MODIFIED", pod("a", 11))
    assert recorder.next() == "changed a@11"
    watch.cut()

    assert recorder.next() == "troubled 0"
    assert "the connection was cut" in reflector.problem
    again = server.next()
    assert again.query["resourceVersion"] == "11"
    again.begin()
    assert recorder.next() == "current"
    assert reflector.problem == ""


def test_a_bookmark_moves_where_it_goes_on(make: Make, server: ScriptedServer, recorder: Recorder) -> None:
    make()
    watch = begun(server, recorder)
    watch.event("BOOKMARK", bookmark(77))
    watch.end()

    assert server.next().query["resourceVersion"] == "77"
    assert recorder.heard.empty(), "a watch that ends as it should is no trouble"


def test_events_in_pieces_and_in_one_record_are_the_same(
    make: Make, server: ScriptedServer, recorder: Recorder
) -> None:
    make()
    watch = begun(server, recorder)
    watch.bytewise(chunk(event_line("ADDED", pod("a", 6))))
    watch.raw(b"".join(chunk(event_line("MODIFIED", pod("a", n))) for n in range(7, 40)))

    assert [recorder.next() for _ in range(34)] == ["changed a@6", *(f"changed a@{n}" for n in range(7, 40))]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (chunk(b"garbage\n"), "no event"),
        (chunk(event_line("ADDED", pod("big", 6, data="x" * 2000))), "more than 2000 bytes"),
        (chunk(event_line("ERROR", status_of(500, "InternalError", "etcd lost its leader"))), "its leader"),
        (b"no chunk\r\n", "no HTTP"),
    ],
)
def test_what_it_cannot_read_is_said_and_it_goes_on(
    make: Make,
    server: ScriptedServer,
    recorder: Recorder,
    sent: bytes,
    words: str,
    kubeconfigs: Kubeconfigs,
) -> None:
    settings = replace(QUICK, object_limit=2000)
    make(settings, configured(kubeconfigs.write(server.address), settings))
    watch = begun(server, recorder, pod("a", 1))
    watch.event("MODIFIED", pod("a", 6))
    assert recorder.next() == "changed a@6"
    watch.raw(sent)
    assert recorder.next().startswith("troubled")
    again = server.next()

    assert words in str(recorder.errors[0])
    assert again.query["resourceVersion"] == "6"
    again.begin()
    again.event("MODIFIED", pod("a", 7))
    assert [recorder.next() for _ in range(2)] == ["current", "changed a@7"]


def test_what_is_no_list_is_said_and_asked_for_again(make: Make, server: ScriptedServer, recorder: Recorder) -> None:
    make()
    server.next().answer(b"<html>")
    assert recorder.next() == "troubled 0"
    assert "cannot list pods" in str(recorder.errors[0])
    assert "no list" in str(recorder.errors[0])

    begun(server, recorder)


def test_the_same_trouble_is_told_once(make: Make, server: ScriptedServer, recorder: Recorder) -> None:
    make()
    for _ in range(4):
        server.next().refuse(403, "Forbidden", "you may not")

    begun_words = [recorder.next()]
    server.next().answer(list_of(version=5))
    begun_words.append(recorder.next())

    assert begun_words == ["troubled 403", "listed"]
    assert len(recorder.errors) == 1


def pause_before_next(thread: KubeThread, clock: Clock, server: ScriptedServer) -> float:
    """Let time pass until the next request; gives how much it took, or more."""
    began = clock.now
    while server.is_waiting:
        pass_time(thread, clock, 0.1)
    return clock.now - began


@pytest.mark.parametrize("status", [429, 503])
def test_it_waits_as_long_as_the_server_says(
    clocked: KubeThread, clock: Clock, api: ApiServer, server: ScriptedServer, recorder: Recorder, status: int
) -> None:
    reflector = Reflector(clocked, api, PODS, recorder, QUICK)
    clocked.post(reflector.start)
    server.next().refuse(status, "TooManyRequests", "slow down", {"Retry-After": "11"})
    assert recorder.next() == f"troubled {status}"
    assert pause_before_next(clocked, clock, server) > 10.9, "however short its own pause"
    server.next().answer(list_of(version=5))
    assert recorder.next() == "listed"
    server.next().refuse(status, "TooManyRequests", "slow down still", {"Retry-After": "12"})
    assert recorder.next() == f"troubled {status}"

    assert pause_before_next(clocked, clock, server) > 11.9
    done(clocked, reflector.stop)


def test_pauses_double_up_to_the_longest_and_begin_anew_after_something_worked(
    clocked: KubeThread, clock: Clock, api: ApiServer, server: ScriptedServer, recorder: Recorder
) -> None:
    settings = replace(QUICK, backoff_initial=4.0, backoff_max=16.0)
    reflector = Reflector(clocked, api, PODS, recorder, settings)
    clocked.post(reflector.start)
    for number, least in enumerate((2, 4, 8, 8)):
        server.next().refuse(500, "InternalError", f"no, for the time {number}")
        assert recorder.next() == "troubled 500"
        assert pause_before_next(clocked, clock, server) > least - 0.1
    watch = begun(server, recorder)
    watch.event("ADDED", pod("a", 6))
    assert recorder.next() == "changed a@6"
    watch.cut()
    assert recorder.next() == "troubled 0"
    done(clocked)
    pass_time(clocked, clock, 4.1)

    assert server.next().query["resourceVersion"] == "6"
    done(clocked, reflector.stop)


def test_a_token_that_was_rotated_is_sent_by_the_next_watch(
    make: Make, server: ScriptedServer, recorder: Recorder, kubeconfigs: Kubeconfigs
) -> None:
    token = kubeconfigs.directory / "token"
    token.write_text("one")
    make(QUICK, configured(kubeconfigs.write(server.address, {"tokenFile": "token"}), QUICK))
    watch = begun(server, recorder)
    assert watch.headers["authorization"] == "Bearer one"
    token.write_text("two-longer")
    watch.cut()

    assert server.next().headers["authorization"] == "Bearer two-longer"


def test_nothing_is_heard_after_the_end(
    make: Make, server: ScriptedServer, recorder: Recorder, thread: KubeThread
) -> None:
    reflector = make()
    watch = begun(server, recorder)
    done(thread, reflector.stop)

    assert watch.is_closed_by_client()
    done(thread)
    assert recorder.heard.empty()
    assert server.is_waiting


def test_it_may_be_stopped_while_it_lists(api: ApiServer, server: ScriptedServer, recorder: Recorder) -> None:
    thread = KubeThread(requests=1)
    thread.start()
    reflector = Reflector(thread, api, PODS, recorder, QUICK)
    thread.post(reflector.start)
    listing = server.next()
    done(thread, reflector.stop)
    listing.answer(list_of(pod("a", 1), version=5))
    after = threading.Event()
    thread.ask(lambda: None, lambda _: after.set(), lambda _: None)  # by the same thread, after the list

    assert after.wait(WAIT)
    thread.stop()
    assert recorder.heard.empty()
    assert server.is_waiting


def test_a_sink_may_stop_it_in_the_middle_of_a_record(
    thread: KubeThread, api: ApiServer, server: ScriptedServer
) -> None:
    class Stopping(Recorder):
        def changed(self, seen: Seen) -> None:
            super().changed(seen)
            reflector.stop()

    recorder = Stopping()
    reflector = Reflector(thread, api, PODS, recorder, QUICK)
    thread.post(reflector.start)
    watch = begun(server, recorder)
    lines = b"".join(event_line("ADDED", pod(f"p{n}", n)) for n in range(3))
    watch.raw(chunk(lines) + chunk(lines))

    assert recorder.next() == "changed p0@0"
    assert watch.is_closed_by_client()
    done(thread)
    assert recorder.heard.empty()


def test_a_sink_that_stumbles_over_one_object_hears_of_the_next(
    thread: KubeThread, api: ApiServer, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    class Stumbling(Recorder):
        def listed(self, seen: Sequence[Seen]) -> None:
            super().listed(seen)
            raise RuntimeError("stumbled")

        def changed(self, seen: Seen) -> None:
            if seen.name == "stone":
                raise RuntimeError("stumbled")
            super().changed(seen)

    recorder = Stumbling()
    reflector = Reflector(thread, api, PODS, recorder, QUICK)
    thread.post(reflector.start)
    watch = begun(server, recorder)
    watch.raw(chunk(event_line("ADDED", pod("stone", 6)) + event_line("ADDED", pod("a", 7))))

    assert recorder.next() == "changed a@7"
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2
    done(thread, reflector.stop)


def test_a_server_that_is_down_is_asked_until_it_is_there(
    make: Make, server: ScriptedServer, recorder: Recorder
) -> None:
    make()
    watch = begun(server, recorder, pod("a", 1))
    watch.cut()
    assert recorder.next() == "troubled 0"
    for _ in range(3):
        server.next().cut()

    again = server.next()
    assert again.query["resourceVersion"] == "5"
    again.begin()
    while (word := recorder.next()) != "current":
        assert word.startswith("troubled")


def test_a_list_from_which_no_watch_can_begin_is_not_asked_for_without_a_pause(
    clocked: KubeThread, clock: Clock, api: ApiServer, server: ScriptedServer, recorder: Recorder
) -> None:
    reflector = Reflector(clocked, api, PODS, recorder, replace(QUICK, backoff_initial=4.0, backoff_max=8.0))
    clocked.post(reflector.start)
    server.next().answer(list_of(version=5))
    watch = server.next()
    watch.begin()
    watch.event("ERROR", status_of(410, "Expired", "too old"))
    assert watch.is_closed_by_client()
    done(clocked)

    assert pause_before_next(clocked, clock, server) > 1.9
    assert "watch" not in server.next().query
    done(clocked, reflector.stop)


def test_behind_a_proxy_it_lists_again_after_the_lifetime(
    thread: KubeThread, recorder: Recorder, kubeconfigs: Kubeconfigs
) -> None:
    settings = replace(QUICK, object_lifetime=0.01)
    with ScriptedServer(None) as proxy:
        path = kubeconfigs.write("http://api.test", None, {"proxy-url": proxy.address})
        reflector = Reflector(thread, configured(path, settings), PODS, recorder, settings)
        thread.post(reflector.start)
        for version in (5, 6, 7):
            listing = proxy.next()
            assert (listing.path, listing.query) == ("/api/v1/pods", {"limit": "500"})
            listing.answer(list_of(pod("a", version), version=version))

        assert [recorder.next() for _ in range(4)] == ["listed a@5", "current", "listed a@6", "listed a@7"]
        done(thread, reflector.stop)
