"""Whether a server is there, asked of sockets of this machine."""

import socket
import time
from collections.abc import Iterator

import pytest

from volmgr.errors import OperationError, UnansweredError
from volmgr.host.network import Address, LocalNetwork


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        yield server


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def test_a_server_that_listens_is_there(listening: socket.socket) -> None:
    LocalNetwork().reach("127.0.0.1", port_of(listening), within=10)
    LocalNetwork().reach("localhost", port_of(listening), within=10)


def test_a_server_of_ipv6_is_there() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        LocalNetwork().reach("::1", port_of(server), within=10)


def test_a_port_on_which_nobody_listens_is_silent(listening: socket.socket) -> None:
    port = port_of(listening)
    listening.close()
    with pytest.raises(
        UnansweredError, match=rf"cannot connect to 127\.0\.0\.1 on TCP port {port}: connection refused"
    ):
        LocalNetwork().reach("127.0.0.1", port, within=10)


def test_a_server_that_takes_no_more_connections_is_silent_after_its_time(listening: socket.socket) -> None:
    waiting = [socket.socket() for _ in range(4)]
    try:
        for one in waiting:  # more than its backlog holds
            one.setblocking(False)
            one.connect_ex(listening.getsockname())
        with pytest.raises(UnansweredError, match=r"no answer within 0\.2 s"):
            LocalNetwork().reach("127.0.0.1", port_of(listening), within=0.2)
    finally:
        for one in waiting:
            one.close()


def test_a_name_that_nobody_knows_is_no_silence() -> None:
    with pytest.raises(OperationError, match="nobody knows that name") as caught:
        LocalNetwork().reach("no such name", 1, within=10)
    assert not isinstance(caught.value, UnansweredError)


@pytest.mark.parametrize("name", ["files..example.org", f"{64 * 'x'}.example.org"])
def test_what_is_no_name_at_all_is_told_like_one_that_nobody_knows(name: str) -> None:
    with pytest.raises(OperationError, match="nobody knows that name"):
        LocalNetwork().reach(name, 1, within=10)


def test_a_name_server_that_is_slow_takes_nothing_of_the_time_of_the_server(listening: socket.socket) -> None:
    def slowly(name: str, port: int) -> list[Address]:
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            pass
        return [(socket.AF_INET, (name, port))]

    LocalNetwork(slowly).reach("127.0.0.1", port_of(listening), within=0.2)


def test_an_address_of_a_family_that_this_machine_has_not_is_passed_over(listening: socket.socket) -> None:
    here = (socket.AF_INET, listening.getsockname())
    LocalNetwork(lambda _name, _port: [(9999, "?"), here]).reach("files", port_of(listening), within=10)
    with pytest.raises(UnansweredError, match="address family not supported"):
        LocalNetwork(lambda _name, _port: [(9999, "?")]).reach("files", 1, within=10)


def test_an_address_that_swallows_packets_leaves_time_for_the_next_one(listening: socket.socket) -> None:
    waiting = [socket.socket() for _ in range(4)]
    with socket.create_server(("127.0.0.1", 0), backlog=1) as full:
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            found = [(socket.AF_INET, each.getsockname()) for each in (full, listening)]
            LocalNetwork(lambda _name, _port: found).reach("files", 1, within=1)
        finally:
            for one in waiting:
                one.close()
