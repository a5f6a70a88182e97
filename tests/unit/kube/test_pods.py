"""The Pods of an API server as a source: what cannot be recorded is tried again."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.unit.kube.pod_bench import RETRY, PodBench
from volmgr.kube.resources import PODS
from volmgr.sources.changes import PodAccepted, PodLeft


@pytest.fixture
def bench() -> Generator[PodBench]:
    made = PodBench()
    made.source.start()
    made.source.saw_node("uid-n1")
    made.thread.settle()
    yield made
    made.thread.stop()


def heard(bench: PodBench) -> list[type]:
    return [type(each) for each in bench.take() if isinstance(each, (PodAccepted, PodLeft))]


def test_a_pod_that_a_full_disk_refuses_is_accepted_when_there_is_room(bench: PodBench) -> None:
    bench.host.disk_full = True
    bench.run_pod("web")
    bench.read()
    assert heard(bench) == []
    bench.host.disk_full = False
    bench.thread.pass_time(RETRY)
    assert heard(bench) == [PodAccepted]
    bench.thread.pass_time(3 * RETRY)
    assert heard(bench) == []


def test_a_pod_whose_leaving_cannot_be_recorded_leaves_when_it_can(bench: PodBench) -> None:
    bench.run_pod("web")
    bench.read()
    assert heard(bench) == [PodAccepted]
    bench.host.read_only = True
    bench.api.delete(PODS.path("default", "web"))
    bench.read()
    assert heard(bench) == []
    bench.host.read_only = False
    bench.thread.pass_time(RETRY)
    assert heard(bench) == [PodLeft]
