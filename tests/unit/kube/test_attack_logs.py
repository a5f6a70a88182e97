"""A server that is away for a day: what cannot be told or renewed is said once, not at each try."""

from __future__ import annotations

import logging

import pytest

from tests.unit.kube.memory_api import MemoryApi
from tests.unit.kube.test_own_node import Site
from tests.unit.kube.test_tokens import Site as TokenSite
from volmgr.kube.errors import ApiError
from volmgr.model.objects import MANAGED

DAY = 86_400.0


def lines(caplog: pytest.LogCaptureFixture, words: str) -> int:
    return sum(words in each.getMessage() for each in caplog.records)


@pytest.mark.parametrize("status", [0, 403, 503])
def test_what_the_node_cannot_be_told_is_said_once_and_again_when_it_fails_anew(
    caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.INFO)
    site = Site(MemoryApi())
    site.put(other="annotation")
    site.api.refusals = [ApiError("patch refused", status=status)] * 100_000
    site.own.start()
    site.own.report(("a",))
    site.thread.pass_time(DAY)
    tries = len(site.api.asked("PATCH"))
    assert tries > 1000
    assert lines(caplog, "volumesInUse") == 1
    assert lines(caplog, MANAGED) == 1
    site.api.refusals = []
    site.thread.pass_time(600)
    assert site.in_use == ["a"]
    site.api.refusals = [ApiError("patch refused", status=status)] * 3
    site.own.report(("b",))
    site.thread.pass_time(600)
    assert site.in_use == ["b"]
    assert lines(caplog, "volumesInUse") == 2
    site.thread.stop()


def test_tokens_that_cannot_be_renewed_are_said_once_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    site = TokenSite()
    first = site.issue(seconds=3600)
    site.api.down = True
    while site.clock.now < first.expires_at - 1:
        site.clock.now = min(site.issue(seconds=3600).due_at + 1, first.expires_at - 1)
    assert len(site.api.asked("POST")) > 20
    assert lines(caplog, "is due and stays") == 1
