"""The stories of tests/flow/faults on a real kernel: killed at any host call, the end is the same."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flow.faults.stories import STORIES, Story, kills, tell
from tests.root.machine.real_site import RealSite


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[[], RealSite]]:
    """Sites, all at one path and one after the other, so that their pictures can be compared."""
    sites: list[RealSite] = []

    def fresh() -> RealSite:
        for site in sites:
            site.close()
        sites[:] = [RealSite(tmp_path / "site")]
        return sites[0]

    yield fresh
    for site in sites:
        site.close()


@pytest.mark.parametrize("story", STORIES, ids=str)
def test_after_a_kill_at_any_host_call_the_end_is_the_same(story: Story, fresh: Callable[[], RealSite]) -> None:
    undisturbed = tell(fresh(), story)
    for fault in kills(undisturbed.calls):
        ending = tell(fresh(), story, fault)
        assert ending.picture == undisturbed.picture, f"{fault.when} call {fault.at}"
