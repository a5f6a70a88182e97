"""Answers that look like an object, or like its absence, and are neither: what a Pod uses stays as it is."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence

import pytest

from tests.unit.kube.turned_thread import TurnedThread
from tests.unit.kube.watched_api import WatchedApi
from volmgr.kube.attempt import Attempt
from volmgr.kube.errors import ApiError
from volmgr.kube.following import Asked, Surroundings, Watched
from volmgr.kube.intake import Intake
from volmgr.kube.wire import read_refusal
from volmgr.manifest import NoTypes
from volmgr.model.kube import KubeSettings
from volmgr.model.meta import ObjectRef
from volmgr.sources.changes import Change, ObjectAbsent, ObjectAwaited, ObjectChanged, ObjectLeft
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost

MINE = ObjectRef("ConfigMap", "default", "mine")
PATH = "/api/v1/namespaces/default/configmaps/mine"

OF_OBJECTS = (ObjectAbsent, ObjectAwaited, ObjectChanged, ObjectLeft)


class Answers(WatchedApi):
    """A server, or what sits before it, that answers with what it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.instead: bytes | ApiError | None = None
        self.ignores_selectors = False

    def get(self, path: str, query: Mapping[str, str] = {}) -> bytes:
        if isinstance(self.instead, ApiError):
            raise self.instead
        if self.instead is not None:
            return self.instead
        return super().get(path, {} if self.ignores_selectors else query)


class Bench:
    """One ConfigMap, followed in one of the two ways."""

    def __init__(self, way: type[Asked | Watched]) -> None:
        self.api = Answers()
        self.thread = TurnedThread()
        self.told: list[Change] = []
        host = FakeHost()
        registry = Registry(host.files, host.paths, self.told.append, binds_claims=False)
        registry.start()
        around = Surroundings(self.thread, self.api, KubeSettings(), Intake(registry, NoTypes()), registry)
        self.following = way(around, MINE)
        self.put("mine", "1")

    def put(self, name: str, value: str) -> None:
        metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
        self.api.put(f"/api/v1/namespaces/default/configmaps/{name}", {"metadata": metadata, "data": {"a": value}})

    def follow(self) -> None:
        self.following.start()
        self.thread.settle()

    def take(self) -> Sequence[Change]:
        told = [
            each for each in self.told if isinstance(each, (ObjectAbsent, ObjectAwaited, ObjectChanged, ObjectLeft))
        ]
        self.told.clear()
        return told

    def end(self) -> None:
        self.following.stop()
        self.api.cut()
        self.thread.settle()
        self.thread.stop()


@pytest.fixture
def asked() -> Generator[Bench]:
    made = Bench(Asked)
    yield made
    made.end()


@pytest.fixture
def watched() -> Generator[Bench]:
    made = Bench(Watched)
    yield made
    made.end()


def refusal(status: int, body: bytes) -> ApiError:
    return Attempt("get", PATH, "https://192.0.2.1:6443", "here").refused(read_refusal(status, {}, body))


LIES: dict[str, bytes | ApiError] = {
    "a load balancer without backends": refusal(404, b"404 page not found\n"),
    "a login page in the place of a refusal": refusal(404, b"<html>not found</html>"),
    "another server's JSON": refusal(404, b'{"error": "no such route", "code": 404}'),
    "an empty object": b"{}",
    "a login page": b"<html></html>",
    "another object": json.dumps({"metadata": {"namespace": "default", "name": "other"}, "data": {}}).encode(),
    "one of another namespace": json.dumps({"metadata": {"namespace": "kube-system", "name": "mine"}}).encode(),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
def test_what_is_neither_the_object_nor_its_absence_changes_nothing(asked: Bench, lie: bytes | ApiError) -> None:
    asked.follow()
    assert [type(each) for each in asked.take()] == [ObjectChanged]
    asked.api.instead = lie
    asked.thread.pass_time(600)
    assert asked.take() == []
    asked.api.instead = None
    asked.api.delete(PATH)
    asked.thread.pass_time(600)
    assert ObjectAbsent in [type(each) for each in asked.take()]


@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
def test_an_object_that_was_never_read_is_awaited_and_not_absent(asked: Bench, lie: bytes | ApiError) -> None:
    asked.api.instead = lie
    asked.follow()
    assert {type(each) for each in asked.take()} == {ObjectAwaited}


def test_a_namesake_is_not_taken_where_the_field_selector_is_lost(watched: Bench) -> None:
    watched.api.ignores_selectors = True
    watched.put("other", "2")
    watched.api.delete(PATH)
    watched.follow()
    assert [type(each) for each in watched.take()] == [ObjectAbsent]


def test_an_object_that_was_deleted_and_made_anew_is_the_new_one(watched: Bench) -> None:
    watched.follow()
    watched.take()
    watched.api.delete(PATH)
    watched.put("mine", "2")
    watched.thread.settle()
    last = watched.take()[-1]
    assert isinstance(last, ObjectChanged)
    assert "2" in str(last.item)
