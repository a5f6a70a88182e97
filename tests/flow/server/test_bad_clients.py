"""Malformed, huge, slow and vanishing clients: each is answered or dropped, and the next one is served."""

import os
import random
import select
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.flow.server.engines import FakeEngine, serving
from volmgr.cli.client import Client
from volmgr.report.events import Severity
from volmgr.server import messages
from volmgr.server.api import ApiServer
from volmgr.server.listen import listen, remove
from volmgr.server.messages import BODY_LIMIT, HEAD_LIMIT, HttpError, Reader


@contextmanager
def talk(path: Path) -> Generator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        yield connection


def everything(connection: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):  # comes after the answer when the server has not read all that was sent
        while part := connection.recv(65536):
            data += part
    return data


def status_of(path: Path, data: bytes) -> int:
    with talk(path) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = everything(connection)
    return int(answer.split(b" ")[1]) if answer else 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x00\x01\x02\xff\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 400),
        (b"GET healthz HTTP/1.1\r\n\r\n", 400),
        (b"GET /healthz HTTP/2.0\r\n\r\n", 505),
        (b"BREW /healthz HTTP/1.1\r\n\r\n", 501),
        (b"PUT /v1/pods HTTP/1.1\r\n\r\n", 405),
        (b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nX: \xff\r\n\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/events?" + b"a=1&" * 100 + b" HTTP/1.1\r\n\r\n", 400),
        (b"POST /v1/pods HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /v1/pods HTTP/1.1\r\nContent-Length: 1e3\r\n\r\n", 400),
        (b"POST /v1/pods HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabc", 400),
        (b"POST /v1/pods HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        (b"POST /v1/pods HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_LIMIT + 1), 413),
        (b"POST /v1/pods HTTP/1.1\r\nContent-Length: 9999999999999999999999999\r\n\r\n", 413),
        (b"GET /" + b"a" * HEAD_LIMIT * 2, 431),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * HEAD_LIMIT, 431),
    ],
)
def test_malformed_requests_are_answered_and_harm_nobody(client: Client, path: Path, data: bytes, status: int) -> None:
    assert status_of(path, data) == status
    assert client.get("/healthz")


@pytest.mark.parametrize("data", [b"", b"GE", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nab"])
def test_half_a_request_is_dropped_without_an_answer(client: Client, path: Path, data: bytes) -> None:
    assert status_of(path, data) == 0
    assert client.get("/healthz")


def test_noise_never_harms_the_server(client: Client, path: Path) -> None:
    noise = random.Random(7)
    for _ in range(50):
        with talk(path) as connection:
            connection.sendall(noise.randbytes(noise.randrange(1, 4000)) + b"\r\n\r\n")
    assert client.get("/healthz")


def test_a_slow_client_has_one_deadline_for_its_whole_request() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = Reader(ours, timeout=0.05)
        theirs.sendall(b"GET / HT")
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.01):
                theirs.sendall(b"T")

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(HttpError) as caught:
            reader.next()
        stop.set()
        thread.join()
        assert (caught.value.status, caught.value.fatal) == (408, True)


def test_a_request_that_comes_byte_by_byte_is_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        data = b"POST /v1/pods/a%20b?x=1 HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"

        def drip() -> None:
            for byte in data:
                theirs.sendall(bytes([byte]))

        thread = threading.Thread(target=drip)
        thread.start()
        request = Reader(ours).next()
        thread.join()
    assert request is not None
    assert (request.method, request.path, request.query, request.body) == (
        "POST",
        ("v1", "pods", "a b"),
        {"x": "1"},
        b"body",
    )


def test_requests_that_come_in_one_packet_are_answered_one_after_the_other(client: Client, path: Path) -> None:
    one = b"GET /healthz HTTP/1.1\r\n\r\n"
    with talk(path) as connection:
        connection.sendall(one * 3)
        connection.shutdown(socket.SHUT_WR)
        assert everything(connection).count(b"HTTP/1.1 200 OK") == 3


def test_http_1_0_and_connection_close_end_the_connection(client: Client, path: Path) -> None:
    for request in (b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"):
        with talk(path) as connection:
            connection.sendall(request)
            assert b"200 OK" in everything(connection)


def test_a_client_that_expects_to_be_told_to_continue_is(client: Client, path: Path) -> None:
    with talk(path) as connection:
        connection.sendall(b"POST /v1/pods HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"pod")
        connection.shutdown(socket.SHUT_WR)
        assert b"200 OK" in everything(connection)


def test_a_body_of_eleven_megabytes_is_read(client: Client) -> None:
    assert client.post("/v1/pods", b" " * BODY_LIMIT)


def test_a_client_that_vanishes_while_it_follows_harms_nobody(client: Client, engine: FakeEngine, path: Path) -> None:
    with talk(path) as connection:
        connection.sendall(b"GET /v1/events?follow=1 HTTP/1.1\r\n\r\n")
        assert connection.recv(10) == b"HTTP/1.1 2"
    for number in range(3):
        engine.events.record(Severity.NORMAL, "Tick", str(number))
    assert client.get("/healthz")


def test_a_user_that_is_not_allowed_is_told_so_at_once(engine: FakeEngine, path: Path) -> None:
    listener = listen(path, 0o666)
    path.parent.chmod(0o777)
    server = ApiServer(engine, listener, frozenset())
    assert os.geteuid() == 0, "run as root: this test changes its user"
    here = os.open(path.parent, os.O_RDONLY)  # nobody may walk to a directory of pytest's by its path
    program = (
        f"import os, socket; os.fchdir({here}); os.setuid(65534);"
        " c = socket.socket(socket.AF_UNIX); c.connect('volmgr.sock'); input();"
        " c.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n'); print(c.recv(99))"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, pass_fds=[here]) as process:
        assert select.select([server], [], [], 20)[0]
        server.accept_ready()
        output, _ = process.communicate(b"\n", timeout=20)
    assert b"403 Forbidden" in output
    os.close(here)
    server.close()


def test_the_socket_is_private_from_its_first_moment(path: Path) -> None:
    with listen(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.umask(os.umask(0o022)) != 0o177


def test_a_stale_socket_is_replaced(path: Path) -> None:
    listen(path).close()
    listen(path).close()


def test_a_socket_that_somebody_answers_on_is_left_alone(client: Client, path: Path) -> None:
    with pytest.raises(OSError, match="another daemon answers there"):
        listen(path)
    assert client.get("/healthz")


def test_a_file_that_is_no_socket_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(OSError, match="is no socket"):
        listen(path)
    assert path.read_text() == "mine"


def test_at_the_end_the_file_of_the_socket_is_removed(path: Path) -> None:
    with listen(path):
        remove(path)
    assert not path.exists()
    remove(path)


def test_what_is_not_the_socket_of_this_process_is_never_removed(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    program = (
        "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\nprint(flush=True)"
    )
    argv = [sys.executable, "-c", f"{program}\nsys.stdin.read()", str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        remove(path)
        assert path.is_socket()
        other.communicate()
    remove(path)
    assert path.is_socket()  # a stale one is for the next start
    path.unlink()
    path.write_text("mine")
    remove(path)
    assert path.read_text() == "mine"
    real = tmp_path / "real.sock"
    with listen(real):
        path.unlink()
        path.symlink_to(real)
        remove(path)
        assert path.is_symlink()


def test_a_bug_in_one_answer_is_told_to_its_client_and_the_next_is_served(
    engine: FakeEngine, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine.world.paths = None  # type: ignore[assignment] # pyright: ignore[reportAttributeAccessIssue] - breaks it
    with serving(engine, path):
        client = Client(str(path))
        answer = client.answer("GET", "/v1/doctor")
        assert (answer.status, b"bug in volmgrd" in answer.body) == (500, True)
        assert client.get("/healthz")
        client.close()
    assert "bug: GET /v1/doctor" in caplog.text


def test_every_status_that_is_sent_has_a_name() -> None:
    for status in messages.REASONS:
        assert messages.problem(status, "x").startswith(f"HTTP/1.1 {status} ".encode())
