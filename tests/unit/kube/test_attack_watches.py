"""Watches that say nothing, or nonsense: the collection is current again by itself, and nothing is lost."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.unit.kube.recording import QUICK, Clock, Kubeconfigs, Recorder, done, pass_time
from tests.unit.kube.scripted_server import Exchange, ScriptedServer, bookmark, chunk, list_of, pod
from volmgr.kube.api import ApiServer, configured
from volmgr.kube.reflector import Reflector
from volmgr.kube.resources import PODS
from volmgr.kube.thread import KubeThread
from volmgr.kube.watch import BOOKMARK_INTERVAL

SILENCE = BOOKMARK_INTERVAL + QUICK.watch_silence


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def api(kubeconfigs: Kubeconfigs, server: ScriptedServer) -> ApiServer:
    return configured(kubeconfigs.write(server.address), QUICK)


@pytest.fixture
def watch(clocked: KubeThread, api: ApiServer, recorder: Recorder, server: ScriptedServer) -> Generator[Exchange]:
    """The watch of a reflector that has listed version 500."""
    reflector = Reflector(clocked, api, PODS, recorder, QUICK)
    clocked.post(reflector.start)
    server.next().answer(list_of(pod("a", 400), version=500))
    watch = server.next()
    watch.begin()
    assert [recorder.next(), recorder.next()] == ["listed a@400", "current"]
    yield watch
    done(clocked, reflector.stop)


def next_request(thread: KubeThread, clock: Clock, server: ScriptedServer) -> Exchange:
    while server.is_waiting:
        pass_time(thread, clock, 0.1)
    return server.next()


def test_a_watch_without_even_a_bookmark_is_followed_by_a_list(
    watch: Exchange, clocked: KubeThread, clock: Clock, server: ScriptedServer, recorder: Recorder
) -> None:
    pass_time(clocked, clock, SILENCE + 1)
    assert watch.is_closed_by_client()
    assert recorder.next() == "troubled 0"
    listing = next_request(clocked, clock, server)
    assert "watch" not in listing.query
    listing.answer(list_of(pod("b", 70), version=77))
    again = next_request(clocked, clock, server)
    assert again.query["resourceVersion"] == "77"
    again.begin()
    assert [recorder.next(), recorder.next()] == ["listed b@70", "current"]


def test_a_watch_that_ends_as_promised_but_has_said_nothing_is_followed_by_a_list(
    watch: Exchange, clocked: KubeThread, clock: Clock, server: ScriptedServer
) -> None:
    for _ in range(3):  # what lies before the server sends empty lines, and ends each watch long before it is silent
        pass_time(clocked, clock, SILENCE / 2)
        watch.raw(chunk(b"\n"))
        done(clocked)
    watch.end()
    assert "watch" not in next_request(clocked, clock, server).query


def test_a_watch_that_is_cut_soon_after_a_bookmark_goes_on_from_there(
    watch: Exchange, clocked: KubeThread, clock: Clock, server: ScriptedServer, recorder: Recorder
) -> None:
    pass_time(clocked, clock, SILENCE - 1)
    watch.event("BOOKMARK", bookmark(600))
    watch.cut()
    assert recorder.next() == "troubled 0"
    assert next_request(clocked, clock, server).query["resourceVersion"] == "600"


NONSENSE = {
    "brackets without end": b'{"type":"ADDED","object":{"metadata":{"name":"x"},"spec":' + b"[" * 200_000 + b"\n",
    "an unknown type": b'{"type":"RENAMED","object":{"metadata":{"name":"x"}}}\n',
    "no object": b'{"type":"DELETED"}\n',
    "null": b"null\n",
    "bytes that are no text": b'{"type":"DELETED","object":{"metadata":{"name":"\xff"}}}\n',
    "half a surrogate": b'{"type":"DELETED","object":{"metadata":{"name":"\\ud800"}}}\n',
    "a login page": b"<html>\n",
}


@pytest.mark.parametrize("line", NONSENSE.values(), ids=list(NONSENSE))
def test_nonsense_ends_the_watch_which_goes_on_before_it(
    watch: Exchange, clocked: KubeThread, clock: Clock, server: ScriptedServer, recorder: Recorder, line: bytes
) -> None:
    watch.event("MODIFIED", pod("a", 501))
    watch.raw(chunk(line))
    assert [recorder.next(), recorder.next()] == ["changed a@501", "troubled 0"]
    assert "what is no event" in str(recorder.errors[-1])
    assert next_request(clocked, clock, server).query["resourceVersion"] == "501"
