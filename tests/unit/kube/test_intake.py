"""What an API server shows, as the registry stands; on a host in memory."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from volmgr.kube.intake import Intake
from volmgr.kube.resources import CONFIG_MAPS, PODS
from volmgr.kube.wire import seen_of
from volmgr.manifest import NoTypes
from volmgr.model.meta import ObjectRef
from volmgr.sources.changes import Change, Complaints, ObjectChanged, PodAccepted, PodLeft
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost
from volmgr.testing.node import pod

VOLUME: dict[str, Any] = {"name": "v", "emptyDir": {}}
NEWER: dict[str, Any] = {"name": "v", "emptyDir": {}, "novelty": {}}
SETTINGS = ObjectRef("ConfigMap", "default", "settings")


class Bench:
    """An intake before a real registry, and what that told."""

    def __init__(self) -> None:
        self.told: list[Change] = []
        self.meanwhile: Callable[[], None] = lambda: None
        host = FakeHost()
        self.registry = Registry(host.files, host.paths, self.hear, binds_claims=False)
        self.registry.start()
        self.intake = Intake(self.registry, NoTypes())

    def hear(self, change: Change) -> None:
        """Hear of a change while the registry holds its lock."""
        self.told.append(change)
        self.meanwhile()

    def show(self, *, version: str = "1", uid: str = "u1", status: dict[str, Any] | None = None, **spec: Any) -> bool:  # noqa: ANN401 - of the Pod
        metadata = {"namespace": "default", "resourceVersion": version}
        document = pod("web", VOLUME, uid=uid, metadata=metadata, status=status, **spec)
        return self.intake.offer(PODS, seen_of(json.dumps(document).encode()))

    def show_settings(self) -> None:
        metadata = {"namespace": "default", "name": "settings", "resourceVersion": "1"}
        self.intake.offer(CONFIG_MAPS, seen_of(json.dumps({"metadata": metadata, "data": {"a": "b"}}).encode()))

    def take(self) -> list[Change]:
        told = self.told[:]
        self.told.clear()
        return told


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_status_that_says_nothing_of_volumes_is_neither_told_nor_read_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        bench.show(volumes=[NEWER])
        assert [type(each) for each in bench.take()] == [PodAccepted]
        bench.show(volumes=[NEWER], version="2", status={"podIP": "192.0.2.1"})
        bench.show(volumes=[NEWER], version="3", status={"podIP": "192.0.2.2"})
    assert bench.take() == []
    assert len([each for each in caplog.records if "novelty" in each.getMessage()]) == 1


def test_what_counts_for_volumes_is_told_each_time(bench: Bench) -> None:
    bench.show()
    bench.show(version="2", status={"phase": "Running"})
    bench.show(version="3", status={"phase": "Succeeded"})
    assert [each.pod.status.phase for each in bench.take() if isinstance(each, PodAccepted)] == [
        "",
        "Running",
        "Succeeded",
    ]


def test_a_pod_that_left_and_is_shown_again_in_the_same_words_stands_again(bench: Bench) -> None:
    bench.show()
    bench.intake.withdraw(PODS, "default", "web")
    bench.show()
    assert [type(each) for each in bench.take()] == [PodAccepted, PodLeft, PodAccepted]


def test_a_complaint_ends_when_the_pod_is_shown_as_it_stands(bench: Bench) -> None:
    bench.show()
    bench.show(version="2", volumes=[VOLUME, VOLUME])
    bench.show(version="3")
    said = [len(each.errors) for each in bench.take() if isinstance(each, Complaints)]
    assert said[-1] == 0
    assert said[0] > 0


def test_a_namesake_in_the_same_place_is_another_pod(bench: Bench) -> None:
    bench.show()
    bench.show(version="2", uid="u2")
    assert [each.pod.uid for each in bench.take() if isinstance(each, PodAccepted)] == ["u1", "u2"]


def test_an_object_that_was_asked_for_again_is_told_with_when_that_was(bench: Bench) -> None:
    bench.show_settings()
    bench.show_settings()
    first, second = (each for each in bench.take() if isinstance(each, ObjectChanged))
    assert first.revision == second.revision
    assert first.read_at < second.read_at


def test_a_mount_of_what_is_on_disk_does_not_wait_for_a_list_that_is_being_taken(bench: Bench) -> None:
    bench.show_settings()
    bench.registry.keep([SETTINGS])
    waited: list[bool] = []

    def mount() -> None:
        asking = threading.Thread(target=bench.registry.keep, args=([SETTINGS],), daemon=True)
        asking.start()
        asking.join(10)
        waited.append(asking.is_alive())

    bench.meanwhile = mount
    bench.show()
    assert waited
    assert not any(waited)
