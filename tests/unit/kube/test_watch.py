"""One watch on a real connection: however its bytes come, however it ends, and that nothing of it blocks the thread."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.kube.recording import Clock, Kubeconfigs, WatchRecorder, done, pass_time
from tests.unit.kube.scripted_server import (
    HEAD,
    WAIT,
    Certificates,
    Exchange,
    ScriptedServer,
    bookmark,
    chunk,
    event_line,
    pod,
    status_of,
)
from volmgr.kube.api import configured
from volmgr.kube.errors import ApiError
from volmgr.kube.thread import KubeThread
from volmgr.kube.watch import BOOKMARK_INTERVAL, Watch, WatchTarget
from volmgr.model.kube import KubeSettings

SETTINGS = KubeSettings()
PATH = "/api/v1/pods"
QUERY = {"watch": "true", "resourceVersion": "7"}

Begin = Callable[[], tuple[WatchRecorder, Exchange]]


def target_of(path: Path, settings: KubeSettings = SETTINGS) -> WatchTarget:
    target = configured(path, settings).watch_target()
    assert target is not None
    return target


@contextmanager
def watching(thread: KubeThread, target: WatchTarget) -> Generator[WatchRecorder]:
    recorder = WatchRecorder()
    watch = Watch(thread, target, PATH, QUERY, recorder)
    thread.post(watch.start)
    yield recorder
    done(thread, watch.stop)


@pytest.fixture
def target(server: ScriptedServer, kubeconfigs: Kubeconfigs) -> WatchTarget:
    return target_of(kubeconfigs.write(server.address))


def test_a_watch_is_asked_for_and_heard(thread: KubeThread, server: ScriptedServer, target: WatchTarget) -> None:
    with watching(thread, target) as recorder:
        exchange = server.next()
        exchange.begin()
        exchange.event("ADDED", pod("a", 8))
        exchange.event("BOOKMARK", bookmark(9))
        exchange.end()

        assert [recorder.next() for _ in range(4)] == ["opened", "ADDED a@8", "BOOKMARK @9", "ended"]
    assert (exchange.path, exchange.query) == (PATH, QUERY)
    assert exchange.headers["authorization"] == "Bearer open-sesame"
    assert exchange.headers["host"] == server.address.removeprefix("https://")


def test_a_stream_that_comes_byte_by_byte_is_the_same(
    thread: KubeThread, server: ScriptedServer, target: WatchTarget
) -> None:
    line = event_line("MODIFIED", pod("a", 8))
    with watching(thread, target) as recorder:
        exchange = server.next()
        exchange.bytewise(HEAD + chunk(line[:9]) + chunk(line[9:] + line) + b"0\r\n\r\n")

        assert [recorder.next() for _ in range(4)] == ["opened", "MODIFIED a@8", "MODIFIED a@8", "ended"]


def test_many_events_in_one_record_of_tls_are_all_heard_at_once(
    thread: KubeThread, server: ScriptedServer, target: WatchTarget
) -> None:
    events = b"".join(chunk(event_line("ADDED", pod(f"p{n}", n))) for n in range(60))
    assert len(HEAD + events) < 1 << 14, "one record"
    with watching(thread, target) as recorder:
        server.next().raw(HEAD + events)

        assert [recorder.next() for _ in range(61)][1:] == [f"ADDED p{n}@{n}" for n in range(60)]


def test_more_than_one_turn_reads_is_heard_to_its_end(
    thread: KubeThread, server: ScriptedServer, target: WatchTarget
) -> None:
    body = "x" * 15_000
    with watching(thread, target) as recorder:
        exchange = server.next()
        exchange.raw(HEAD + b"".join(chunk(event_line("ADDED", pod(f"p{n}", n, data=body))) for n in range(400)))

        assert [recorder.next() for _ in range(401)][1:] == [f"ADDED p{n}@{n}" for n in range(400)]


def test_it_is_the_same_without_tls(thread: KubeThread, kubeconfigs: Kubeconfigs) -> None:
    with ScriptedServer(None) as server, watching(thread, target_of(kubeconfigs.write(server.address))) as recorder:
        exchange = server.next()
        exchange.begin()
        exchange.event("DELETED", pod("a", 8))

        assert [recorder.next() for _ in range(2)] == ["opened", "DELETED a@8"]


def ended(thread: KubeThread, server: ScriptedServer, target: WatchTarget, act: Callable[[Exchange], None]) -> ApiError:
    with watching(thread, target) as recorder:
        act(server.next())
        while not recorder.next().startswith("ended"):
            pass
        assert recorder.error is not None
        return recorder.error


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "Unauthorized"), (403, "Forbidden"), (410, "Expired"), (429, "TooManyRequests"), (500, "InternalError")],
)
def test_a_refused_watch_says_so(
    thread: KubeThread, server: ScriptedServer, target: WatchTarget, status: int, reason: str
) -> None:
    error = ended(
        thread, server, target, lambda each: each.refuse(status, reason, "the server's words", {"Retry-After": "4"})
    )

    assert (error.status, error.reason, error.retry_after) == (status, reason, 4)
    assert str(error).startswith(f"cannot watch pods at {server.address}: {status}")
    assert "the server's words" in str(error)


def test_an_endless_refusal_is_read_no_further(thread: KubeThread, server: ScriptedServer, target: WatchTarget) -> None:
    def act(exchange: Exchange) -> None:
        with suppress(OSError):  # the client does not wait for all of it
            exchange.raw(HEAD.replace(b"200 OK", b"502 Bad") + chunk(b"x" * 100_000))

    assert ended(thread, server, target, act).status == 502


def test_an_error_event_ends_it(thread: KubeThread, server: ScriptedServer, target: WatchTarget) -> None:
    def act(exchange: Exchange) -> None:
        exchange.begin()
        exchange.event("ERROR", status_of(410, "Expired", "too old resource version"))

    assert ended(thread, server, target, act).is_gone


def test_what_is_no_event_ends_it(thread: KubeThread, server: ScriptedServer, target: WatchTarget) -> None:
    def act(exchange: Exchange) -> None:
        exchange.begin()
        exchange.raw(chunk(b"garbage\n"))

    assert "no event" in str(ended(thread, server, target, act))


def test_what_is_no_http_ends_it(thread: KubeThread, server: ScriptedServer, target: WatchTarget) -> None:
    assert ended(thread, server, target, lambda each: each.raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")).is_unreachable


def test_an_object_beyond_the_bound_ends_it_with_the_bound(
    thread: KubeThread, server: ScriptedServer, kubeconfigs: Kubeconfigs
) -> None:
    target = target_of(kubeconfigs.write(server.address), replace(SETTINGS, object_limit=1000))

    def act(exchange: Exchange) -> None:
        exchange.begin()
        exchange.event("ADDED", pod("small", 1))
        exchange.raw(chunk(event_line("ADDED", pod("large", 1, data="x" * 1000))[:-1]))

    assert "more than 1000 bytes" in str(ended(thread, server, target, act))


@pytest.mark.parametrize("sent", [b"", HEAD[:20], HEAD, HEAD + b"5\r\nab"])
def test_a_cut_connection_is_said_so(
    thread: KubeThread, server: ScriptedServer, target: WatchTarget, sent: bytes
) -> None:
    def act(exchange: Exchange) -> None:
        exchange.raw(sent)
        exchange.cut()

    error = ended(thread, server, target, act)

    assert error.is_unreachable
    assert "the connection was cut" in str(error)


def test_after_a_refusal_of_the_credentials_they_are_read_again(
    thread: KubeThread, server: ScriptedServer, target: WatchTarget
) -> None:
    before = target.access.session()
    ended(thread, server, target, lambda each: each.refuse(403, "Forbidden", "no"))
    assert target.access.session() is before

    ended(thread, server, target, lambda each: each.refuse(401, "Unauthorized", "no"))

    assert target.access.session() is not before


def test_a_server_that_is_not_there_is_named(thread: KubeThread, kubeconfigs: Kubeconfigs) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    with watching(thread, target_of(kubeconfigs.write(f"https://127.0.0.1:{port}"))) as recorder:
        assert recorder.next() == "ended 0"

    assert f"https://127.0.0.1:{port}: no answer (Connection refused)" in str(recorder.error)


def test_a_server_that_closes_in_the_handshake_is_said_so(thread: KubeThread, kubeconfigs: Kubeconfigs) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        address = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with watching(thread, target_of(kubeconfigs.write(address))) as recorder:
            connection, _ = listener.accept()
            connection.recv(10)
            connection.close()

            assert recorder.next() == "ended 0"


def test_a_server_whose_certificate_is_strange_is_not_told_the_token(
    thread: KubeThread, server: ScriptedServer, kubeconfigs: Kubeconfigs
) -> None:
    strange = {"certificate-authority": str(kubeconfigs.certificates.stranger)}
    with watching(thread, target_of(kubeconfigs.write(server.address, None, strange))) as recorder:
        assert recorder.next() == "ended 0"

    assert "not trusted" in str(recorder.error)
    assert server.is_waiting


def test_a_server_that_never_shakes_hands_delays_no_other_watch(
    thread: KubeThread, server: ScriptedServer, target: WatchTarget, kubeconfigs: Kubeconfigs
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as stalled:
        silent = target_of(kubeconfigs.write(f"https://127.0.0.1:{stalled.getsockname()[1]}"))
        with watching(thread, silent) as never, watching(thread, target) as recorder:
            exchange = server.next()
            exchange.begin()
            exchange.event("ADDED", pod("a", 8))

            assert [recorder.next() for _ in range(2)] == ["opened", "ADDED a@8"]
            assert never.heard_words.empty()


def test_a_watch_that_is_stopped_while_it_connects_is_closed_and_heard_no_more(
    thread: KubeThread, certificates: Certificates, kubeconfigs: Kubeconfigs
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.server, certificates.server_key)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        target = target_of(kubeconfigs.write(f"https://127.0.0.1:{listener.getsockname()[1]}"))
        with watching(thread, target) as recorder:
            connection, _ = listener.accept()
        connection.settimeout(WAIT)
        with tls.wrap_socket(connection, server_side=True) as shaken:
            sent = shaken.recv(1 << 16)
            with suppress(ConnectionResetError):  # closed before it had read the server's tickets
                while more := shaken.recv(1 << 16):
                    sent += more

    assert sent.startswith(b"GET /api/v1/pods?watch=true"), "it had been on its way"
    done(thread)
    assert recorder.heard_words.empty()


def test_a_watch_that_is_stopped_when_it_has_just_connected_is_closed_and_heard_no_more(
    server: ScriptedServer, target: WatchTarget
) -> None:
    thread = KubeThread(requests=1)
    recorder, exchanges = WatchRecorder(), list[Exchange]()
    watch = Watch(thread, target, PATH, QUERY, recorder)

    def stop_between() -> None:
        watch.start()
        exchanges.append(server.next())
        connected = threading.Event()
        thread.ask(connected.set, lambda _: None, lambda _: None)  # after the other: there is one thread for both
        assert connected.wait(WAIT)
        watch.stop()

    thread.start()
    done(thread, stop_between)
    assert exchanges[0].is_closed_by_client()
    thread.stop()
    assert recorder.heard_words.empty()


def test_a_watch_that_is_stopped_closes_its_connection(
    thread: KubeThread, server: ScriptedServer, target: WatchTarget
) -> None:
    with watching(thread, target) as recorder:
        exchange = server.next()
        exchange.begin()
        assert recorder.next() == "opened"

    assert exchange.is_closed_by_client()


def test_headers_that_do_not_come_end_it_after_the_time_of_a_request(
    clocked: KubeThread, clock: Clock, server: ScriptedServer, target: WatchTarget
) -> None:
    began = clock.now
    with watching(clocked, target) as recorder:
        exchange = server.next()
        exchange.raw(HEAD[:-10])
        while recorder.heard_words.empty():
            pass_time(clocked, clock, 1.0)

        assert recorder.next() == "ended 0"
        assert "nothing has come for 30 s" in str(recorder.error)
        assert exchange.is_closed_by_client()
    assert clock.now - began >= SETTINGS.request_timeout


def test_silence_ends_it_but_not_before_a_bookmark_could_have_come(
    clocked: KubeThread, clock: Clock, server: ScriptedServer, target: WatchTarget
) -> None:
    bound = BOOKMARK_INTERVAL + SETTINGS.watch_silence
    with watching(clocked, target) as recorder:
        exchange = server.next()
        exchange.begin()
        assert recorder.next() == "opened"
        pass_time(clocked, clock, bound - 1)
        exchange.event("BOOKMARK", bookmark(9))
        assert recorder.next() == "BOOKMARK @9"

        pass_time(clocked, clock, bound - 1)
        assert recorder.heard_words.empty()
        pass_time(clocked, clock, 1.1)

        assert recorder.next() == "ended 0"
        assert exchange.is_closed_by_client()


def test_while_nothing_comes_many_watches_neither_wake_up_nor_take_threads(
    thread: KubeThread, server: ScriptedServer, target: WatchTarget
) -> None:
    def ours() -> int:
        return sum(each.name.startswith("volmgr") for each in threading.enumerate())

    recorders = [WatchRecorder() for _ in range(64)]
    watches = [Watch(thread, target, PATH, QUERY, recorder) for recorder in recorders]
    before = ours()
    for each in watches:
        thread.post(each.start)
    exchanges = [server.next() for _ in watches]
    for exchange in exchanges:
        exchange.begin()
    assert [recorder.next() for recorder in recorders] == ["opened"] * 64

    assert ours() - before <= 6, "threads for requests, and none a watch"
    done(thread)
    done(thread)
    steps = thread.steps
    for _ in range(200):
        done(thread)
    assert thread.steps - steps <= 201, "one for each action, and none besides"

    exchanges[63].event("ADDED", pod("a", 8))
    while all(recorder.heard_words.empty() for recorder in recorders):
        done(thread)
    assert [recorder.next() for recorder in recorders if not recorder.heard_words.empty()] == ["ADDED a@8"]
    descriptors = len(os.listdir("/proc/self/fd"))
    for each in watches:
        thread.post(each.stop)
    done(thread)
    assert descriptors - len(os.listdir("/proc/self/fd")) >= 64
