"""FaultHost: counts, traces, fails and dies where it is told to."""

from pathlib import Path

import pytest

from volmgr.plugin import OperationError
from volmgr.testing import FakeHost, Fault, FaultHost, Killed, When

PLACE = Path("/srv/place")


def test_without_a_plan_it_is_the_host_it_wraps() -> None:
    inner = FakeHost()
    faulty = FaultHost(inner)
    assert faulty.files.ensure_directory(PLACE, 0o755)
    assert (faulty.paths, faulty.kernel, faulty.clock()) == (inner.paths, inner.kernel, inner.now)
    assert PLACE in inner.tree(PLACE)


def test_the_trace_says_what_was_called_in_order() -> None:
    faulty = FaultHost(FakeHost())
    faulty.files.ensure_directory(PLACE, 0o755)
    faulty.mounts.ensure_mounted(PLACE, "tmpfs", options=("size=4k",))
    assert faulty.verbs == ["files.ensure_directory", "mounts.ensure_mounted"]
    assert str(faulty.trace[1]) == "mounts.ensure_mounted(/srv/place, 'tmpfs', options=('size=4k',))"
    assert [call.number for call in faulty.trace] == [1, 2]


@pytest.mark.parametrize(("when", "made"), [(When.BEFORE, False), (When.AFTER, True)])
def test_a_call_fails_before_or_after_it_was_carried_out(when: When, made: bool) -> None:
    inner = FakeHost()
    faulty = FaultHost(inner, [Fault(1, OperationError("no"), when)])
    with pytest.raises(OperationError):
        faulty.files.ensure_directory(PLACE, 0o755)
    assert (PLACE in inner.tree(PLACE)) is made
    faulty.files.ensure_directory(PLACE, 0o755)


@pytest.mark.parametrize(("when", "made"), [(When.BEFORE, False), (When.AFTER, True)])
def test_nothing_runs_after_a_kill(when: When, made: bool) -> None:
    inner = FakeHost()
    faulty = FaultHost(inner, [Fault.kill(1, when)])
    with pytest.raises(Killed):
        faulty.files.ensure_directory(PLACE, 0o755)
    with pytest.raises(Killed):
        faulty.files.remove_directory(PLACE)
    assert (PLACE in inner.tree(PLACE)) is made
    assert faulty.dead
    assert faulty.verbs == ["files.ensure_directory"]


def test_a_kill_is_no_exception_that_a_plugin_may_handle() -> None:
    assert not issubclass(Killed, Exception)


def test_a_fault_may_count_the_calls_of_one_verb_and_last_for_several() -> None:
    faulty = FaultHost(FakeHost(), [Fault(2, OperationError("no"), verb="files.info", times=2)])
    outcomes: list[str] = []
    for _ in range(5):
        faulty.files.names(PLACE)
        try:
            faulty.files.info(PLACE)
            outcomes.append("done")
        except OperationError:
            outcomes.append("failed")
    assert outcomes == ["done", "failed", "failed", "done", "done"]


def test_faults_may_be_planned_while_it_runs() -> None:
    faulty = FaultHost(FakeHost())
    faulty.files.info(PLACE)
    faulty.faults.append(Fault(len(faulty.trace) + 1, OperationError("now")))
    with pytest.raises(OperationError, match="now"):
        faulty.files.info(PLACE)


def test_faults_lie_in_wait_below_one_another() -> None:
    inner = FaultHost(FakeHost(), [Fault(1, OperationError("inner"))])
    with pytest.raises(OperationError, match="inner"):
        FaultHost(inner).files.info(PLACE)
