"""The way to a driver, over real sockets: calls at once, drivers that end, answers that cannot be read, odd paths."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from tests.csi.fault_driver.rules import Rule
from tests.csi.fault_driver.running import running_fault_driver, running_fault_process
from tests.eventually import eventually
from volmgr.plugin import OperationError, UncertainError
from volmgr_csi.driver.connection import MESSAGE_LIMIT, CallError, Connection, Observed
from volmgr_csi.driver.methods import NODE_INFO, PLUGIN_INFO, PUBLISH, Method
from volmgr_csi.driver.secrets import TOKENS
from volmgr_csi.driver.sockets import greet, is_answering, stamp_of, visit
from volmgr_csi.v1 import csi_pb2 as csi

NAME = "fault.csi.test"
CODES = [code.name for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
NOT_FINAL = {"CANCELLED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"}
"""Those of kubelet's isFinalError."""


@pytest.fixture
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("n")


def ask(connection: Connection, timeout: float = 60.0) -> str:
    return connection.call(NODE_INFO, csi.NodeGetInfoRequest(), timeout).node_id


@pytest.mark.parametrize("code", CODES)
def test_a_code_says_whether_anything_may_be_left(top: Path, code: str) -> None:
    seen: list[Observed] = []
    with running_fault_driver(top / "d") as driver:
        driver.script(Rule(method="NodeGetInfo", code=code, message="in  the\ndriver's words"))
        connection = Connection(NAME, str(driver.socket), seen.append)
        with pytest.raises(CallError) as error:
            ask(connection)
        assert str(error.value) == f"NodeGetInfo of csi driver {NAME} failed: {code}: in the driver's words"
        expected = UncertainError if code in NOT_FINAL else OperationError
        assert type(error.value.as_outcome()) is expected
        assert ask(connection) == "machine-1"
        assert [(each.method, each.code) for each in seen] == [("NodeGetInfo", code), ("NodeGetInfo", "OK")]
        connection.close()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("mount -o user=ann,password=hunter2 failed", "mount -o user=***,password=*** failed"),
        ("the key is\nfirst line\nsecond line\n}", "the key is ***"),
        ("only second line }", "only *** }"),
        ("in a banana, by a b", "in a banana, by a ***"),
        ("nobody takes token-of-db", "nobody takes ***"),
        ("clear \x1b[2J, ring \x07, turn \u202e round", "clear \\x1b[2J, ring \\x07, turn \\u202e round"),
        ("x" * 5000 + "exit status 32", "x" * 300 + " … " + "x" * 686 + "exit status 32"),
    ],
)
def test_what_a_driver_says_is_shown_without_secrets_and_as_text(top: Path, words: str, shown: str) -> None:
    question = csi.NodePublishVolumeRequest(
        secrets={"user": "ann", "password": "hunter2", "key": "first line\nsecond line\n}\n", "pin": "b", "none": ""},
        volume_context={TOKENS: '{"db":{"token":"token-of-db","expirationTimestamp":"2026-01-01T00:00:00Z"}}'},
    )
    with running_fault_driver(top / "d") as driver:
        driver.script(Rule(method="NodePublishVolume", code="INTERNAL", message=words))
        connection = Connection(NAME, str(driver.socket))
        with pytest.raises(CallError) as error:
            connection.call(PUBLISH, question, 60.0)
        assert error.value.details == shown
        connection.close()


def test_an_answer_that_cannot_be_read_says_nothing_of_what_the_driver_did(top: Path) -> None:
    with running_fault_driver(top / "d") as driver:
        connection = Connection(NAME, str(driver.socket))
        wrong = Method(PLUGIN_INFO.path, csi.GetPluginInfoRequest, csi.ListVolumesResponse)  # a name is no entry
        with pytest.raises(CallError, match="no status: its answer cannot be read") as error:
            connection.call(wrong, csi.GetPluginInfoRequest(), 60.0)
        assert isinstance(error.value.as_outcome(), UncertainError)
        connection.close()


def test_an_answer_that_is_too_long_is_not_taken_for_a_failure_of_the_driver(top: Path) -> None:
    with running_fault_driver(top / "d") as driver:
        connection = Connection(NAME, str(driver.socket))
        driver.script(Rule(method="NodeGetInfo", answer={"nodeId": "x" * (MESSAGE_LIMIT + 1)}))
        with pytest.raises(CallError) as error:
            ask(connection)
        assert not error.value.is_final
        connection.close()


def test_a_call_ends_at_its_deadline_and_may_still_be_at_work(top: Path) -> None:
    with running_fault_driver(top / "d") as driver:
        connection = Connection(NAME, str(driver.socket))
        driver.script(Rule(method="NodeGetInfo", gate_before="never"))
        with pytest.raises(CallError, match="DEADLINE_EXCEEDED") as error:
            ask(connection, timeout=0.2)
        assert not error.value.is_final
        connection.close()


def test_a_driver_that_dies_below_a_call_is_reached_again_at_once_when_it_is_back(top: Path) -> None:
    lost: list[Connection] = []
    with running_fault_process(top / "d") as driver:
        connection = Connection(NAME, str(driver.socket), lost=lost.append)
        for _ in range(3):
            driver.script(Rule(method="NodeGetInfo", crash="before"))
            with pytest.raises(CallError, match="UNAVAILABLE") as error:
                ask(connection)
            assert not error.value.is_final
            driver.until_crashed()
            assert not connection.is_answering()
            with pytest.raises(CallError, match="UNAVAILABLE"):
                ask(connection)
            driver.start()
            assert connection.is_answering()
            assert ask(connection) == "machine-1"
        assert len(lost) == 6
        connection.close()


def test_nothing_is_sent_where_no_socket_is(top: Path) -> None:
    for path in (str(top / "none.sock"), str(top / ("x" * 200)), "/\u00e9/none.sock"):
        connection = Connection(NAME, path)
        with pytest.raises(CallError, match="UNAVAILABLE"):
            ask(connection)
        assert not connection.is_answering()


@pytest.mark.parametrize("name", ["x" * 120, "a b", "100%25", "what?", "a#b", "\u00e9", "a;b,c"])
def test_a_path_of_any_form_is_dialled(top: Path, name: str) -> None:
    with running_fault_driver(top / "d") as driver:
        odd = top / name
        odd.symlink_to(driver.top)
        connection = Connection(NAME, str(odd / "csi.sock"))
        descriptors = len(os.listdir("/proc/self/fd"))
        assert ask(connection) == "machine-1"
        assert connection.is_answering()
        connection.close()
        eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)


def test_many_calls_at_once_with_channels_that_close_between_them(top: Path) -> None:
    with running_fault_driver(top / "d") as driver, ThreadPoolExecutor(16) as pool:
        connection = Connection(NAME, str(driver.socket))
        stop = threading.Event()

        def one(_number: int) -> str:
            return ask(connection)

        def disturb() -> None:
            while not stop.is_set():
                connection.close_if_idle(0.0)
                connection.reopen()

        disturber = threading.Thread(target=disturb)
        disturber.start()
        try:
            answers = list(pool.map(one, range(400)))
        finally:
            stop.set()
            disturber.join()
        assert answers == ["machine-1"] * 400
        connection.close()


def test_who_closes_lets_calls_end_and_who_aborts_does_not(top: Path) -> None:
    with running_fault_driver(top / "d") as driver, ThreadPoolExecutor(2) as pool:
        for end, outcome in ((Connection.close, "machine-1"), (Connection.abort, "CANCELLED")):
            connection = Connection(NAME, str(driver.socket))
            gate = outcome
            driver.script(Rule(method="NodeGetInfo", gate_before=gate))
            running = pool.submit(_outcome, lambda: ask(connection))  # noqa: B023 - it is awaited below
            driver.until_reached(gate)
            end(connection)
            with pytest.raises(CallError, match="is closed"):
                ask(connection)
            assert connection.is_closed
            if end is Connection.abort:
                assert running.result() == outcome
            driver.open(gate)
            assert running.result() == outcome


def _outcome(work: Callable[[], str]) -> str:
    try:
        return work()
    except CallError as error:
        return error.code


def test_the_time_until_a_channel_closes_is_counted_from_the_end_of_the_last_call(top: Path) -> None:
    rested: list[Connection] = []
    with running_fault_driver(top / "d") as driver:
        connection = Connection(NAME, str(driver.socket), rested=rested.append)
        assert connection.close_if_idle(0.0) is None
        ask(connection)
        assert rested == [connection]
        left = connection.close_if_idle(3600.0)
        assert left is not None
        assert 0 < left <= 3600
        assert connection.close_if_idle(0.0) is None
        assert connection.close_if_idle(3600.0) is None  # it is closed
        assert ask(connection) == "machine-1"
        connection.close()


def test_who_listens_is_greeted_and_only_one_that_speaks_grpc_answers(top: Path) -> None:
    with running_fault_driver(top / "d") as driver:
        with visit(str(driver.socket)) as visitor:
            greet(visitor, 60.0)
        assert stamp_of(str(driver.socket)) is not None
    assert stamp_of(str(top)) is None
    path = str(top / "other.sock")
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(path)
        with pytest.raises(ConnectionRefusedError):
            visit(path)
        assert not is_answering(path)
        listener.listen()
        with visit(path) as visitor, pytest.raises(TimeoutError):
            greet(visitor, 0.05)
        listener.accept()[0].close()
        for words, complaint in ((b"HTTP/1.1 400", "is not gRPC"), (b"", "hung up")):
            with visit(path) as visitor:
                answered = pool.submit(_say, listener, words)
                with pytest.raises(OSError, match=complaint):
                    greet(visitor, 60.0)
                answered.result()


def _say(listener: socket.socket, words: bytes) -> None:
    guest, _ = listener.accept()
    with guest:
        guest.recv(4096)
        guest.sendall(words)


def test_a_listener_whose_backlog_is_full_is_there(top: Path) -> None:
    path = str(top / "busy.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        with visit(path):
            assert is_answering(path)
            assert is_answering(path)
