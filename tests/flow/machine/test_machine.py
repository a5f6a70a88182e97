"""The state machine on a host in memory, thousands of steps."""

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.flow.machine.node_machine import NodeMachine
from tests.flow.machine.sites import FakeSite, Site

DEEP = int(os.environ.get("VOLMGR_DEEP", "1"))
"""How many times more to look: `VOLMGR_DEEP=20` searches at random for what is rare; 1 is the same run each time."""


class FakeNodeMachine(NodeMachine):
    def make_site(self) -> Site:
        return FakeSite()


def test_a_node_converges_after_everything_that_can_happen_to_it() -> None:
    chosen = settings(
        max_examples=60 * DEEP,
        stateful_step_count=50,
        deadline=None,
        derandomize=DEEP == 1,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(FakeNodeMachine, settings=chosen)
