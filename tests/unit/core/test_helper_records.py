"""Helpers on record: written before they are let run, found by the next daemon as long as they live."""

from __future__ import annotations

import pytest

from volmgr import records
from volmgr.admission import Held
from volmgr.errors import OperationError
from volmgr.helper_records import HelperRecords
from volmgr.host.noted import StartedHelper
from volmgr.report.world import Survivor
from volmgr.testing import FakeHost

HELD = Held("example.com/loop/v", "u1", ("disk a",), "server")
HELPER = StartedHelper("loop mount", 77, 500.0)


class Site:
    """A host, and the processes that live on it: PID to start time."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.processes = {77: 5}

    @property
    def records(self) -> HelperRecords:
        return HelperRecords(self.host, lambda: 1000.0, self.processes.get)

    def names(self) -> tuple[str, ...]:
        return self.host.files.names(self.host.paths.state / "helpers")


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_helper_that_lives_is_found_by_the_next_daemon_as_it_was_noted(site: Site) -> None:
    site.records.note(HELD, HELPER, needed=True)
    (found,) = site.records.load()
    assert found == Survivor(
        helper="loop mount",
        pid=77,
        start_time=5,
        boot_id=site.host.kernel.boot_id,
        since=1000.0,
        until=500.0,
        held=HELD,
    )
    assert site.records.load() == (found,), "a second daemon that is killed changes nothing"
    site.records.remove(found)
    assert site.names() == ()


def test_a_helper_that_has_ended_leaves_no_record(site: Site) -> None:
    ended = site.records.note(HELD, HELPER, needed=True)
    other = site.records.note(HELD, StartedHelper("fsck", 78, 500.0), needed=True)
    ended()
    assert [name.partition("-")[0] for name in site.names()] == ["78"]
    other()
    assert site.names() == ()


def test_a_helper_without_a_deadline_is_read_back_as_such(site: Site) -> None:
    site.records.note(HELD, StartedHelper("walk", 77, float("inf")), needed=True)
    assert [each.until for each in site.records.load()] == [None]


@pytest.mark.parametrize("fate", ["dead", "reused", "rebooted"])
def test_a_process_that_is_not_the_noted_one_keeps_nobody_waiting(site: Site, fate: str) -> None:
    site.records.note(HELD, HELPER, needed=True)
    match fate:
        case "dead":
            del site.processes[77]
        case "reused":
            site.processes[77] = 6
        case _:
            site.host.reboot()  # with the same PID and the same ticks since the boot
    assert site.records.load() == ()
    assert site.names() == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        records.encode("helper", {"helper": "loop", "pid": 77}),
        records.encode("hold", {}),
        records.encode("helper", {}).replace(b'"version":1', b'"version":99'),
    ],
)
def test_a_record_that_says_nothing_of_use_keeps_nobody_waiting(site: Site, data: bytes) -> None:
    path = site.host.paths.state / "helpers/77-5.json"
    site.host.files.ensure_directory(path.parent, 0o700, parents_mode=0o700)
    site.host.put(path, data, 0o600)
    assert site.records.load() == ()


def test_where_nothing_can_be_written_only_what_takes_away_goes_on(site: Site) -> None:
    site.host.disk_full = True
    with pytest.raises(OperationError, match="space"):
        site.records.note(HELD, HELPER, needed=True)
    site.records.note(HELD, HELPER, needed=False)()
    assert site.records.load() == ()
