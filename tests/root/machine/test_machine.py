"""The state machine of tests/flow/machine on a real kernel."""

import itertools
import os
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.flow.machine.node_machine import NodeMachine
from tests.flow.machine.sites import Site
from tests.root.machine.real_site import RealSite

DEEP = int(os.environ.get("VOLMGR_DEEP", "1"))


def test_a_node_on_a_real_kernel_converges_after_everything_that_can_happen_to_it(tmp_path: Path) -> None:
    numbers = itertools.count()

    class RealNodeMachine(NodeMachine):
        def make_site(self) -> Site:
            self.real = RealSite(tmp_path / str(next(numbers)))
            return self.real

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                self.real.close()

    chosen = settings(
        max_examples=25 * DEEP,
        stateful_step_count=40,
        deadline=None,
        derandomize=DEEP == 1,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(RealNodeMachine, settings=chosen)
