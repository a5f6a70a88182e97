"""A part of the server that hangs: only what needs it waits."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from queue import Queue

import pytest

from tests.unit.kube.memory_api import MemoryApi
from tests.unit.kube.scripted_server import WAIT
from volmgr.kube.following import Asked, Following, Surroundings, Watched
from volmgr.kube.intake import Intake
from volmgr.kube.thread import KubeThread
from volmgr.manifest import NoTypes
from volmgr.model.kube import KubeSettings
from volmgr.model.meta import ObjectRef
from volmgr.sources.changes import Change, ObjectChanged
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost

REQUESTS = 6


@pytest.mark.parametrize("stalled", [1, REQUESTS, 50])
def test_requests_of_one_lane_that_hang_keep_no_other_waiting(stalled: int) -> None:
    thread = KubeThread(REQUESTS)
    thread.start()
    free, heard, answered = threading.Event(), Queue[str](), Queue[int]()

    def hang() -> int:
        free.wait(WAIT)
        return 1

    try:
        for _ in range(stalled):
            thread.ask(hang, answered.put, lambda error: heard.put(str(error)), "secrets")
        for lane in ("configmaps", "nodes", ""):
            thread.ask(lambda lane=lane: lane, heard.put, lambda error: heard.put(str(error)), lane)  # type: ignore[misc]
        assert {heard.get(timeout=WAIT) for _ in range(3)} == {"configmaps", "nodes", ""}
        assert answered.empty()
        free.set()
        assert sum(answered.get(timeout=WAIT) for _ in range(stalled)) == stalled
    finally:
        free.set()
        thread.stop()


def test_a_lane_that_fails_goes_on(thread: KubeThread) -> None:
    answers = Queue[str]()

    def fail() -> str:
        raise RuntimeError("a bug")

    for _ in range(50):
        thread.ask(fail, answers.put, lambda error: answers.put(str(error)), "secrets")
    assert all("a bug" in answers.get(timeout=WAIT) for _ in range(50))


class SecretsHang(MemoryApi):
    """A server whose KMS is away."""

    def __init__(self) -> None:
        super().__init__()
        self.free = threading.Event()

    def get(self, path: str, query: Mapping[str, str] = {}) -> bytes:
        if "secrets" in path:
            self.free.wait(WAIT)
        return super().get(path, query)


@pytest.mark.parametrize("way", [Asked, Watched])
def test_secrets_that_hang_do_not_keep_config_maps_from_being_read(way: type[Following]) -> None:
    api, told, thread, host = SecretsHang(), Queue[Change](), KubeThread(REQUESTS), FakeHost()
    registry = Registry(host.files, host.paths, told.put, binds_claims=False)
    around = Surroundings(thread, api, KubeSettings(), Intake(registry, NoTypes()), registry)
    ref = ObjectRef("ConfigMap", "default", "mine")
    api.put(
        "/api/v1/namespaces/default/configmaps/mine",
        {"metadata": {"namespace": "default", "name": "mine", "uid": "u"}, "data": {}},
    )
    for number in range(2 * REQUESTS):
        thread.post(way(around, ObjectRef("Secret", "default", f"s{number}")).start)
    thread.post(way(around, ref).start)
    thread.start()
    try:
        while not isinstance(change := told.get(timeout=WAIT), ObjectChanged):
            pass
        assert change.item.metadata.name == "mine"
        assert not api.free.is_set()
    finally:
        api.free.set()
        thread.stop()
