"""A server that is not the one that it was: what the Pods of the earlier one wrote is not deleted because of it."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.unit.kube.pod_bench import PodBench
from volmgr.kube.custody import Speaker, doubt
from volmgr.kube.resources import PODS
from volmgr.sources.changes import Complaints, PodAccepted, PodLeft


@pytest.fixture
def bench() -> Generator[PodBench]:
    """One whose server has two Pods, which are read, and is at version 100."""
    made = PodBench()
    made.api.run_to(98)
    made.run_pod("web")
    made.run_pod("db")
    made.source.start()
    made.read()
    made.source.saw_node("node-1")
    made.read()
    yield made
    made.thread.stop()


def switch(bench: PodBench, *, version: int, node: str, place: str = "https://198.51.100.7:6443") -> None:
    """Start anew with another server, which has no Pod yet."""
    bench.restart()
    bench.take()
    bench.api.objects.clear()
    bench.api.place = place
    bench.api.go_back_to(version)
    bench.source.start()
    bench.read()
    bench.source.saw_node(node)
    bench.read()


def left(bench: PodBench) -> set[str]:
    return {each.uid for each in bench.take() if isinstance(each, PodLeft)}


def complaints(bench: PodBench) -> list[str]:
    return [str(error) for each in bench.told if isinstance(each, Complaints) for error in each.errors]


def test_pods_of_another_cluster_are_kept_and_named_until_that_is_accepted(bench: PodBench) -> None:
    switch(bench, version=5000, node="node-2")
    assert any("it is another cluster" in each and "--accept-cluster" in each for each in complaints(bench))
    assert left(bench) == set()
    bench.run_pod("new")
    bench.read()
    assert bench.stands == {"pods/default/web", "pods/default/db", "pods/default/new"}

    bench.source.accept()
    bench.read()

    assert left(bench) == {"uid-web", "uid-db"}
    assert bench.stands == {"pods/default/new"}


def test_pods_are_kept_over_restarts_and_those_that_came_later_go_as_ever(bench: PodBench) -> None:
    switch(bench, version=5000, node="node-2")
    bench.run_pod("new")
    bench.read()
    bench.restart()
    bench.source.start()
    bench.source.saw_node("node-2")
    bench.api.delete(PODS.path("default", "new"))
    bench.read()
    assert left(bench) == {"uid-new"}
    assert bench.stands == {"pods/default/web", "pods/default/db"}
    bench.source.accept()
    assert left(bench) == {"uid-web", "uid-db"}


def test_a_server_whose_state_went_back_takes_nothing_away(bench: PodBench) -> None:
    bench.api.objects.pop(PODS.path("default", "db"))
    bench.api.go_back_to(50)
    bench.read()
    assert any("it was restored from a backup" in each for each in complaints(bench))
    assert left(bench) == set()
    bench.run_pod("db")
    bench.take()
    bench.read()
    assert complaints(bench) == []
    bench.api.delete(PODS.path("default", "db"))
    bench.read()
    assert left(bench) == {"uid-db"}


def test_a_pod_that_comes_back_by_an_event_is_kept_no_longer(bench: PodBench) -> None:
    switch(bench, version=5000, node="node-2")
    bench.source.changed(bench.seen("web", uid="uid-web"))
    bench.source.gone(bench.seen("web", uid="uid-web"))
    assert left(bench) == {"uid-web"}


def test_a_namesake_in_another_cluster_waits_for_the_one_that_is_kept(bench: PodBench) -> None:
    bench.restart()
    bench.take()
    bench.api.objects.clear()
    bench.api.place = "elsewhere"
    bench.run_pod("web", uid="uid-other-web")
    bench.source.start()
    bench.source.saw_node("node-2")
    bench.read()
    assert left(bench) == set()
    bench.source.accept()
    told = bench.take()
    assert {each.uid for each in told if isinstance(each, PodLeft)} == {"uid-web", "uid-db"}
    assert [each.pod.uid for each in told if isinstance(each, PodAccepted)] == ["uid-other-web"]


@pytest.mark.parametrize("version", [100, 4000])
def test_pods_that_went_while_nobody_looked_leave_as_soon_as_the_node_was_read(bench: PodBench, version: int) -> None:
    bench.restart()
    bench.take()
    bench.api.objects.clear()
    bench.api.run_to(version)
    bench.source.start()
    bench.read()
    assert left(bench) == set()
    bench.source.saw_node("node-1")
    assert left(bench) == {"uid-web", "uid-db"}


def test_a_node_that_was_registered_anew_is_that_of_the_same_cluster(bench: PodBench) -> None:
    switch(bench, version=4000, node="node-2", place=bench.api.place)
    assert left(bench) == {"uid-web", "uid-db"}


def test_credentials_that_were_renewed_change_nothing(bench: PodBench) -> None:
    switch(bench, version=4000, node="node-1", place="another address")
    assert left(bench) == {"uid-web", "uid-db"}


def test_a_deletion_that_is_late_concerns_no_namesake(bench: PodBench) -> None:
    bench.run_pod("web", uid="uid-new-web")
    bench.read()
    assert left(bench) == {"uid-web"}
    bench.source.gone(bench.seen("web", uid="uid-web"))
    assert left(bench) == set()
    bench.source.gone(bench.seen("web", uid="uid-new-web"))
    assert left(bench) == {"uid-new-web"}


@pytest.mark.parametrize(("before", "now"), [("", "5"), ("5", ""), ("a", "b"), ("9", "9"), ("9", "10")])
def test_versions_that_do_not_say_who_is_older_raise_no_doubt(before: str, now: str) -> None:
    assert doubt(Speaker("n", "p", before), Speaker("n", "p", now)) == ""
