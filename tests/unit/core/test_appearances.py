"""What appears while operations run."""

from __future__ import annotations

import pytest

from volmgr.appearances import Appearances
from volmgr.operations import Operation, Verb

FIRST, SECOND = (Operation(Verb.MOUNT, "volume", uid) for uid in ("u1", "u2"))


@pytest.fixture
def appearances() -> Appearances:
    found = Appearances()
    found.begin(FIRST)
    return found


def test_what_appears_while_an_operation_runs_is_known_at_its_end(appearances: Appearances) -> None:
    appearances.note("driver")
    appearances.note("secret")
    assert appearances.end(FIRST, "driver")


def test_what_appeared_before_an_operation_began_did_not_appear_while_it_ran(appearances: Appearances) -> None:
    appearances.note("driver")
    appearances.begin(SECOND)
    appearances.note("secret")
    assert not appearances.end(SECOND, "driver")
    assert appearances.end(FIRST, "driver")


def test_what_appears_again_has_appeared_for_the_later_operation_too(appearances: Appearances) -> None:
    appearances.note("driver")
    appearances.begin(SECOND)
    appearances.note("driver")
    assert appearances.end(FIRST, "secret") is False
    assert appearances.end(SECOND, "driver")


def test_an_operation_that_waits_for_nothing_in_particular_has_not_seen_it_appear(appearances: Appearances) -> None:
    appearances.note("driver")
    assert not appearances.end(FIRST, "")


def test_an_operation_that_begins_anew_has_not_seen_what_its_first_run_saw(appearances: Appearances) -> None:
    appearances.note("driver")
    appearances.end(FIRST, "secret")
    appearances.begin(FIRST)
    assert not appearances.end(FIRST, "driver")


def test_what_appears_while_nothing_runs_is_nothing_to_an_operation_that_begins_later() -> None:
    appearances = Appearances()
    appearances.note("driver")
    appearances.begin(FIRST)
    assert not appearances.end(FIRST, "driver")
