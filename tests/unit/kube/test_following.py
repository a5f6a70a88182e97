"""Following what Pods refer to: what is told of each object, when it is asked for again, and who gets a watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Queue

import pytest

from tests.eventually import eventually
from tests.unit.kube.memory_api import MemoryApi
from tests.unit.kube.recording import QUICK, Clock, Kubeconfigs, done, pass_time
from tests.unit.kube.scripted_server import Exchange, ScriptedServer, list_of
from volmgr.kube.api import Api, configured
from volmgr.kube.errors import ApiError
from volmgr.kube.following import Surroundings
from volmgr.kube.intake import Intake
from volmgr.kube.referred import ReferredObjects
from volmgr.kube.resources import CLAIMS, CONFIG_MAPS
from volmgr.kube.thread import KubeThread
from volmgr.model.kube import KubeSettings
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import ref_of
from volmgr.plugins import Plugins
from volmgr.sources.changes import Change, ObjectAbsent, ObjectAwaited, ObjectChanged, ObjectLeft
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost

CLAIM = ObjectRef("PersistentVolumeClaim", "default", "disk")
ASKING = KubeSettings(await_initial=1.0, await_max=4.0, object_lifetime=60.0)


def settings_map(name: str) -> ObjectRef:
    return ObjectRef("ConfigMap", "default", name)


class Told:
    """What the registry passed on, as words."""

    def __init__(self) -> None:
        self.words: Queue[str] = Queue()
        self.reasons: list[str] = []

    def __call__(self, change: Change) -> None:
        match change:
            case ObjectChanged():
                self.words.put(f"{ref_of(change.item).name} is there")
            case ObjectLeft():
                self.words.put(f"{change.ref.name} left")
            case ObjectAbsent():
                self.words.put(f"{change.ref.name} is absent")
            case ObjectAwaited():
                self.reasons.append(change.why)
                self.words.put(f"{change.ref.name} is awaited")
            case _:
                pass

    def next(self) -> str:
        return self.words.get(timeout=30)


@pytest.fixture
def told() -> Told:
    return Told()


Make = Callable[..., ReferredObjects]


@pytest.fixture
def counted() -> list[tuple[int, int]]:
    return []


@pytest.fixture
def follow(thread: KubeThread, clocked: KubeThread, told: Told, counted: list[tuple[int, int]]) -> Iterator[Make]:
    """What follows objects on one of the two threads, which end after it."""
    made: list[tuple[KubeThread, ReferredObjects]] = []

    def make(on: KubeThread, api: Api, settings: KubeSettings = QUICK) -> ReferredObjects:
        assert on in {thread, clocked}
        host = FakeHost()
        registry = Registry(host.files, host.paths, told, binds_claims=False)
        around = Surroundings(on, api, settings, Intake(registry, Plugins()), registry, jitter=lambda: 1.0)
        references = ReferredObjects(around, lambda: counted.append((references.watches, references.asked)))
        made.append((on, references))
        return references

    yield make
    for on, references in made:
        done(on, references.stop)


def refer(
    thread: KubeThread, references: ReferredObjects, *added: ObjectRef, removed: tuple[ObjectRef, ...] = ()
) -> None:
    done(thread, lambda: references.refer(added, removed))


def config_map(name: str, version: int) -> dict[str, object]:
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "data": {"a": "1"}}


def claim(volume: str = "", phase: str = "Pending") -> dict[str, object]:
    metadata = {"namespace": "default", "name": "disk", "uid": "uid-disk"}
    spec = {"volumeName": volume} if volume else {}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def test_what_the_server_has_not_is_absent_also_while_it_does_not_answer(
    follow: Make, thread: KubeThread, server: ScriptedServer, kubeconfigs: Kubeconfigs, told: Told
) -> None:
    references = follow(thread, configured(kubeconfigs.write(server.address), QUICK))
    refer(thread, references, settings_map("late"))
    server.next().answer(list_of(version=5, kind="ConfigMap"))
    assert told.next() == "late is absent"
    watch = server.next()
    watch.begin()
    watch.cut()
    again = server.next()
    assert again.query["resourceVersion"] == "5"
    again.begin()
    again.event("ADDED", config_map("late", 6))

    assert told.next() == "late is there"


def test_an_object_that_was_never_read_is_awaited(
    follow: Make, thread: KubeThread, server: ScriptedServer, kubeconfigs: Kubeconfigs, told: Told
) -> None:
    references = follow(thread, configured(kubeconfigs.write(server.address), QUICK))
    refer(thread, references, settings_map("settings"))
    server.next().refuse(403, "Forbidden", "no relationship found")
    assert told.next() == "settings is awaited"
    assert "no relationship found" in told.reasons[0]
    server.next().answer(list_of(config_map("settings", 4), version=5, kind="ConfigMap"))

    assert told.next() == "settings is there"


def test_watches_go_to_those_that_came_first_and_then_to_who_has_waited_longest(
    follow: Make,
    thread: KubeThread,
    server: ScriptedServer,
    kubeconfigs: Kubeconfigs,
    counted: list[tuple[int, int]],
) -> None:
    settings = KubeSettings(object_watches=1)
    references = follow(thread, configured(kubeconfigs.write(server.address), settings), settings)
    for name in ("a", "b", "c"):
        refer(thread, references, settings_map(name))
    asked = {request_key(server.next()) for _ in range(3)}
    assert asked == {"metadata.name=a", CONFIG_MAPS.path("default", "b"), CONFIG_MAPS.path("default", "c")}
    assert counted == [(1, 0), (1, 1), (1, 2)]

    refer(thread, references, removed=(settings_map("a"),))

    assert request_key(server.next()) == "metadata.name=b"
    assert counted[-1] == (1, 1)


def request_key(exchange: Exchange) -> str:
    return exchange.query.get("fieldSelector", exchange.path)


def test_behind_a_proxy_everything_is_asked_for(
    follow: Make, thread: KubeThread, told: Told, counted: list[tuple[int, int]]
) -> None:
    api = MemoryApi()
    api.put(CONFIG_MAPS.path("default", "a"), config_map("a", 1))
    references = follow(thread, api)
    refer(thread, references, settings_map("a"))
    assert told.next() == "a is there"
    assert counted == [(0, 1)]


def asked(api: MemoryApi) -> int:
    return len(api.asked("GET"))


def test_a_claim_is_asked_for_soon_again_until_it_is_bound_and_seldom_after(
    follow: Make, clocked: KubeThread, clock: Clock, told: Told
) -> None:
    api = MemoryApi()
    references = follow(clocked, api, ASKING)
    refer(clocked, references, CLAIM)
    assert told.next() == "disk is absent"
    api.put(CLAIMS.path("default", "disk"), claim())
    pass_time(clocked, clock, 1.0)
    assert told.next() == "disk is there"
    api.put(CLAIMS.path("default", "disk"), claim("pv", "Bound"))
    pass_time(clocked, clock, 1.9)
    assert asked(api) == 2
    pass_time(clocked, clock, 0.2)
    assert told.next() == "disk is there"
    done(clocked)
    pass_time(clocked, clock, 59)
    assert asked(api) == 3
    api.put(CLAIMS.path("default", "disk"), claim("other", "Bound"))
    pass_time(clocked, clock, 1.1)
    assert told.next() == "disk is there"


def test_only_what_somebody_waits_for_is_asked_of_the_server_s_storage(
    follow: Make, clocked: KubeThread, clock: Clock, told: Told
) -> None:
    api = MemoryApi()
    api.put(CLAIMS.path("default", "disk"), claim())
    references = follow(clocked, api, ASKING)
    refer(clocked, references, CLAIM)
    assert told.next() == "disk is there"
    done(clocked)
    api.put(CLAIMS.path("default", "disk"), claim("pv", "Bound"))
    pass_time(clocked, clock, 1.1)
    assert told.next() == "disk is there"
    done(clocked)
    pass_time(clocked, clock, 60.1)
    assert told.next() == "disk is there"
    done(clocked)
    api.refuse(ApiError("Too large resource version", status=504, reason="Timeout"))
    pass_time(clocked, clock, 60.1)
    eventually(lambda: asked(api) == 4)
    api.refuse(None)
    while asked(api) < 5:  # the refusal may be still on its way
        pass_time(clocked, clock, 1.1)
    assert told.next() == "disk is there"
    assert [query for _, query in api.asked("GET")] == [{}, {}, {"resourceVersion": "2"}, {"resourceVersion": "2"}, {}]


def test_what_is_no_object_is_said_and_asked_for_again(
    follow: Make, clocked: KubeThread, clock: Clock, server: ScriptedServer, kubeconfigs: Kubeconfigs, told: Told
) -> None:
    references = follow(clocked, configured(kubeconfigs.write(server.address), ASKING), ASKING)
    refer(clocked, references, CLAIM)
    server.next().answer(b"<html>")
    assert told.next() == "disk is awaited"
    assert "the server sent what is no PersistentVolumeClaim" in told.reasons[0]
    done(clocked)
    pass_time(clocked, clock, 1.1)
    server.next().answer(claim("pv", "Bound"))
    assert told.next() == "disk is there"


def test_a_server_that_says_how_long_to_wait_is_obeyed(
    follow: Make, clocked: KubeThread, clock: Clock, told: Told
) -> None:
    api = MemoryApi()
    api.refusal = ApiError("slow down", status=429, retry_after=30.0)
    references = follow(clocked, api, ASKING)
    refer(clocked, references, CLAIM)
    assert told.next() == "disk is awaited"
    done(clocked)
    pass_time(clocked, clock, 29)
    assert asked(api) == 1
    api.refusal = None
    pass_time(clocked, clock, 1.1)
    assert told.next() == "disk is absent"


def test_nothing_is_told_of_what_nobody_refers_to_any_more(
    follow: Make, thread: KubeThread, server: ScriptedServer, kubeconfigs: Kubeconfigs, told: Told
) -> None:
    references = follow(thread, configured(kubeconfigs.write(server.address), ASKING), ASKING)
    refer(thread, references, CLAIM)
    late = server.next()
    refer(thread, references, removed=(CLAIM,))
    late.answer(claim("pv", "Bound"))
    refer(thread, references, settings_map("a"))
    server.next().answer(list_of(config_map("a", 4), version=5, kind="ConfigMap"))

    assert told.next() == "a is there"
