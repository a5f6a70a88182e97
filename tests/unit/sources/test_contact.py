"""When an API server was last heard of survives a restart, and is written seldom."""

from __future__ import annotations

from volmgr.sources.changes import Change, SourceState
from volmgr.sources.contact import INTERVAL
from volmgr.sources.offers import API_SERVER
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost
from volmgr.testing.fault_host import FaultHost


class Bench:
    def __init__(self, host: FaultHost | None = None) -> None:
        self.host = host or FaultHost(FakeHost())
        self.told: list[Change] = []
        self.registry = Registry(self.host.files, self.host.paths, self.told.append)
        self.registry.start()

    def contact(self) -> float:
        """Give what is told of a server that does not answer."""
        self.registry.state(API_SERVER, ready=False, problem="refused")
        state = self.told[-1]
        assert isinstance(state, SourceState)
        return state.contact

    def writes(self) -> int:
        return [call.verb for call in self.host.trace].count("files.write")


def test_it_is_told_after_a_restart_until_the_server_is_heard_of_again() -> None:
    bench = Bench()
    assert bench.contact() == 0.0
    bench.registry.state(API_SERVER, ready=True, contact=1000.0)
    again = Bench(bench.host)
    assert again.contact() == 1000.0
    again.registry.state(API_SERVER, ready=True, contact=2000.0)
    assert again.told[-1] == SourceState(API_SERVER, ready=True, problem="", contact=2000.0)


def test_it_is_written_once_in_a_while_and_when_the_server_is_lost() -> None:
    bench = Bench()
    for second in range(1000, 1000 + int(INTERVAL)):
        bench.registry.state(API_SERVER, ready=True, contact=float(second))
    assert bench.writes() == 1
    last = 1000.0 + INTERVAL - 1
    bench.registry.state(API_SERVER, ready=True, contact=last, problem="refused")
    bench.registry.state(API_SERVER, ready=True, contact=last, problem="still refused")
    assert bench.writes() == 2
    assert Bench(bench.host).contact() == last


def test_a_damaged_record_is_none() -> None:
    bench = Bench()
    bench.registry.state(API_SERVER, ready=True, contact=1000.0)
    bench.host.files.write(
        bench.host.paths.state / "sources/kubernetes.json", b'{"kind":"contact","version":1,"at":"x"}'
    )
    assert Bench(bench.host).contact() == 0.0


def test_of_other_sources_nothing_is_written() -> None:
    bench = Bench()
    bench.registry.state("directory", ready=True, contact=1000.0)
    assert bench.writes() == 0
