"""When work gives way to others: by a clock of the test, and with a desk that nobody else uses."""

from __future__ import annotations

import pytest

from volmgr.admission import Admission
from volmgr.config import Config
from volmgr.desk import Desk, Outside
from volmgr.giving_way import SLOW, GivingWay
from volmgr.plugins import Plugins
from volmgr.report.events import EventLog
from volmgr.report.world import World
from volmgr.testing import FakeHost


class Bench:
    """A desk, and how much room others have now beyond what they always have."""

    def __init__(self) -> None:
        self.now = 100.0
        self.room = 0
        host, config = FakeHost(), Config()
        events = EventLog(self.clock, config.events_kept)
        world = World(paths=host.paths, plugins=Plugins(), events=events, admission=Admission(config))
        outside = Outside(
            monotonic=self.clock,
            wall=self.clock,
            submit=lambda _chore: None,
            forget=lambda _uid: False,
            slow=lambda: self.add(1),
            over=lambda: self.add(-1),
        )
        self.desk = Desk(world, host, config, outside, lambda _message: None)

    def clock(self) -> float:
        return self.now

    def add(self, room: int) -> None:
        self.room += room

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.desk.timers.run_due(self.now)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_work_that_hangs_gives_way_until_it_is_over(bench: Bench) -> None:
    way = GivingWay(bench.desk)
    way.noting(lambda: None)()
    bench.pass_time(SLOW - 0.01)
    assert bench.room == 0
    bench.pass_time(0.01)
    assert bench.room == 1
    way.over()
    assert bench.room == 0
    assert bench.desk.timers.next_due() is None


def test_work_that_waits_for_a_worker_gives_way_to_nobody(bench: Bench) -> None:
    """Each of a thousand mounts that wait for eight workers would ask for two more threads."""
    ways = [GivingWay(bench.desk) for _ in range(1000)]
    bench.pass_time(SLOW)
    bench.pass_time(10.0)
    assert bench.room == 0
    ways[0].noting(lambda: None)()
    bench.pass_time(SLOW - 0.01)
    assert bench.room == 0
    bench.pass_time(0.01)
    assert bench.room == 1
    for way in ways:
        way.over()
    assert bench.room == 0
    assert bench.desk.timers.next_due() is None


def test_who_asked_is_told_once_that_it_takes_long_though_it_only_waits(bench: Bench) -> None:
    told: list[float] = []
    way = GivingWay(bench.desk, lambda: told.append(bench.now), at_most=0.1)
    bench.pass_time(0.1)
    bench.pass_time(1.0)
    way.noting(lambda: None)()
    bench.pass_time(1.0)
    assert told == [100.1]
    assert bench.room == 1


def test_work_that_is_over_soon_gives_way_to_nobody(bench: Bench) -> None:
    way = GivingWay(bench.desk)
    assert way.noting(lambda: "done")() == "done"
    way.over()
    bench.pass_time(10.0)
    assert bench.room == 0
