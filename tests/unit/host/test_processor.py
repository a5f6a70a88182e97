"""The interpreter keeps to one CPU, and what it executes does not."""

import os
import sys
from collections.abc import Iterator

import pytest

from volmgr.host import processor
from volmgr.host.commands import LocalCommands


@pytest.fixture(autouse=True)
def _everywhere_again() -> Iterator[None]:
    yield
    processor.spread()


def test_threads_keep_to_one_of_the_allowed_processors() -> None:
    allowed = os.sched_getaffinity(0)
    processor.keep_to_one()
    assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) <= allowed


def test_a_helper_may_run_on_every_allowed_processor() -> None:
    allowed = os.sched_getaffinity(0)
    processor.keep_to_one()
    code = "import os; print(*sorted(os.sched_getaffinity(0)))"
    result = LocalCommands().run((sys.executable, "-c", code), deadline=20)
    assert set(map(int, result.stdout.split())) == allowed
    assert len(os.sched_getaffinity(0)) == 1


def test_a_new_execution_of_the_daemon_starts_with_every_allowed_processor() -> None:
    allowed = os.sched_getaffinity(0)
    processor.keep_to_one()
    processor.spread()
    assert os.sched_getaffinity(0) == allowed
