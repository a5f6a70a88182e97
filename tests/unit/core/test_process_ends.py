"""Ends of real processes: told at once, and only of those that are awaited; records go with them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from signal import SIGKILL, SIGTERM

import pytest

from volmgr.admission import Held
from volmgr.helper_records import HelperRecords
from volmgr.holds import Holds
from volmgr.host.noted import StartedHelper
from volmgr.loop import Loop
from volmgr.messages import HoldGone, Message, SurvivorEnded
from volmgr.process_ends import ProcessEnds
from volmgr.report.world import Survivor
from volmgr.testing import FakeHost
from volmgr.timers import Timers

HELD = Held("example.com/loop/v", "u1", (), "server")


class Site:
    """A loop that runs until something is told."""

    def __init__(self) -> None:
        host = FakeHost()
        self.loop = Loop()
        self.holds = Holds(host)
        self.helpers = HelperRecords(host)
        self.told: list[Message] = []
        self.ends = ProcessEnds(self.loop, self.holds, self.helpers, self._tell, lambda _what, chore: chore())
        self._records = (host.files, host.paths.state)

    def _tell(self, message: Message) -> None:
        self.told.append(message)
        self.loop.stop()

    def run(self) -> None:
        self.loop.run(lambda: None, Timers())

    def records(self) -> list[str]:
        files, state = self._records
        return [name for kind in ("holds", "helpers") for name in files.names(state / kind)]

    def survivor(self, process: subprocess.Popen[bytes]) -> Survivor:
        self.helpers.note(HELD, StartedHelper("fsck", process.pid, 1e9), needed=True)
        (found,) = self.helpers.load()
        return found


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.loop.close()


def started() -> subprocess.Popen[bytes]:
    """Start what runs until its input ends, and says what it is told."""
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with started() as running:
        yield running


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def test_the_end_of_who_holds_a_pod_is_told_and_its_record_goes(site: Site, process: subprocess.Popen[bytes]) -> None:
    hold = site.holds.add("u1", process.pid, "runc")
    site.ends.await_holder(hold)
    assert (site.told, site.records()) == ([], [f"{hold.id}.json"])

    end(process)
    site.run()

    assert (site.told, site.records()) == ([HoldGone(hold.id, "u1")], [])


def test_who_has_ended_before_it_was_awaited_is_told_at_once(site: Site, process: subprocess.Popen[bytes]) -> None:
    hold = site.holds.add("u1", process.pid, "runc")
    end(process)

    site.ends.await_holder(hold)

    assert (site.told, site.records()) == ([HoldGone(hold.id, "u1")], [])


def test_nothing_is_told_of_a_hold_that_was_given_back(site: Site, process: subprocess.Popen[bytes]) -> None:
    with started() as other:
        released, kept = site.holds.add("u1", process.pid, ""), site.holds.add("u2", other.pid, "")
        for hold in (released, kept):
            site.ends.await_holder(hold)
        site.ends.forget(released.id)

        end(process)
        end(other)
        site.run()

    assert site.told == [HoldGone(kept.id, "u2")]


def test_a_helper_of_an_earlier_daemon_is_ended_and_told(site: Site, process: subprocess.Popen[bytes]) -> None:
    helper = site.survivor(process)
    site.ends.await_survivor(helper)

    site.ends.signal_survivor(helper, SIGTERM)
    site.run()

    assert (site.told, site.records()) == ([SurvivorEnded(helper)], [])


def test_no_process_is_signalled_that_is_not_awaited(site: Site, process: subprocess.Popen[bytes]) -> None:
    site.ends.signal_survivor(site.survivor(process), SIGKILL)

    assert process.communicate(b"alive")[0] == b"alive"
