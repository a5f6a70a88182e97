"""Killed, or failed, at any host call of any story: the end is the same, nothing is leaked, no user's file is lost."""

import pytest

from tests.flow.faults.stories import MEANT_TO_FAIL_SOFTLY, STORIES, Story, kills, tell
from tests.flow.machine.sites import FakeSite
from volmgr.errors import OperationError
from volmgr.testing import Fault


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_after_a_kill_at_any_host_call_the_end_is_the_same(story: Story) -> None:
    undisturbed = tell(FakeSite(), story)
    assert undisturbed.calls > 0, "the story is about host calls"
    for fault in kills(undisturbed.calls):
        ending = tell(FakeSite(), story, fault)
        assert ending.picture == undisturbed.picture, f"{fault.when} call {fault.at}"


@pytest.mark.parametrize("story", [each for each in STORIES if each.name not in MEANT_TO_FAIL_SOFTLY], ids=str)
@pytest.mark.parametrize("times", [1, 3])
def test_after_any_host_call_failed_the_end_is_the_same(story: Story, times: int) -> None:
    undisturbed = tell(FakeSite(), story)
    for number in range(1, undisturbed.calls + 1):
        error = OperationError("no space left on device")
        ending = tell(FakeSite(), story, Fault(number, error, times=times))
        assert ending.picture == undisturbed.picture, f"call {number}"
