"""What Pods refer to, in any order of what they, the server and the network do: it is followed, and nothing else is."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.unit.kube.turned_thread import TurnedThread
from tests.unit.kube.watched_api import WatchedApi
from volmgr.kube.following import Surroundings
from volmgr.kube.intake import SOURCE, Intake, origin_of
from volmgr.kube.referred import COLLECTED, WATCHED, ReferredObjects
from volmgr.kube.resources import BY_KIND
from volmgr.manifest import NoTypes
from volmgr.model.kube import KubeSettings
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import CLUSTER_WIDE, ref_of
from volmgr.sources.changes import Change, ObjectAbsent, ObjectAwaited, ObjectChanged, ObjectLeft
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost

SETTINGS = KubeSettings(object_watches=2)
BUNDLES = ObjectRef("ClusterTrustBundle", "", "")
"""All of them: who selects among them refers to this."""
REFS = (
    *(ObjectRef("Secret", "default", name) for name in ("a", "b")),
    *(ObjectRef("ConfigMap", "default", name) for name in ("a", "b")),
    ObjectRef("PersistentVolumeClaim", "default", "a"),
    ObjectRef("PersistentVolume", "", "a"),
    *(ObjectRef("CSIDriver", "", name) for name in ("a", "b")),
    ObjectRef("ClusterTrustBundle", "", "a"),
)
LONG = 300.0
"""Seconds; more than any back-off and lifetime."""


class ReferencesMachine(RuleBasedStateMachine):
    """Pods refer and no longer do, objects come, change and go, and so does the server; requests arrive one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.api = WatchedApi()
        self.thread = TurnedThread()
        host = FakeHost()
        self.registry = Registry(host.files, host.paths, self.hear, binds_claims=False)
        self.registry.start()
        self.counted = (0, 0)
        around = Surroundings(self.thread, self.api, SETTINGS, Intake(self.registry, NoTypes()), self.registry)
        self.references = ReferredObjects(around, self.count)
        self.referred: dict[ObjectRef, None] = {}
        """In the order in which they came."""
        self.contents: dict[ObjectRef, int] = {}
        self.said: dict[ObjectRef, str] = {}
        """What was told last of each."""
        self.changes = 0

    def hear(self, change: Change) -> None:
        match change:
            case ObjectChanged():
                self.said[ref_of(change.item)] = change.item.metadata.labels["content"]
            case ObjectLeft():
                self.said[change.ref] = "left"
            case ObjectAbsent():
                self.said[change.ref] = "absent"
            case ObjectAwaited():
                self.said[change.ref] = "awaited"
            case _:
                pass

    def count(self) -> None:
        self.counted = self.references.watches, self.references.asked

    @rule(ref=st.sampled_from((*REFS, BUNDLES)))
    def refer(self, ref: ObjectRef) -> None:
        if ref not in self.referred:
            self.forget(ref)
        self.referred.setdefault(ref)
        self.references.refer([ref], [])

    def forget(self, ref: ObjectRef) -> None:
        """Let it be told anew of what is newly referred to, unless all of its kind are followed and so were told of."""
        if ref.kind not in COLLECTED or all(other.kind != ref.kind for other in self.referred):
            self.said.pop(ref, None)

    @precondition(lambda self: self.referred)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        ref = data.draw(st.sampled_from(list(self.referred)))
        del self.referred[ref]
        self.references.refer([], [ref])

    @precondition(lambda self: self.referred)
    @rule(data=st.data(), other=st.sampled_from(REFS))
    def exchange(self, data: st.DataObject, other: ObjectRef) -> None:
        """One goes when another comes: whoever waits for a watch is before who comes."""
        ref = data.draw(st.sampled_from(list(self.referred)))
        if other not in self.referred:
            del self.referred[ref]
            self.forget(other)
            self.referred[other] = None
            self.references.refer([other], [ref])

    @rule(ref=st.sampled_from(REFS))
    def put(self, ref: ObjectRef) -> None:
        self.changes += 1
        self.contents[ref] = self.changes
        self.api.put(path_of(ref), document_of(ref, self.changes))

    @precondition(lambda self: self.contents and not self.api.down)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        ref = data.draw(st.sampled_from(sorted(self.contents)))
        del self.contents[ref]
        self.api.delete(path_of(ref))

    @rule()
    def lose_contact(self) -> None:
        self.api.down = True
        self.api.cut()

    @precondition(lambda self: self.api.down)
    @rule()
    def find_contact(self) -> None:
        self.api.down = False

    @precondition(lambda self: self.thread.requests)
    @rule()
    def send(self) -> None:
        self.thread.send()

    @precondition(lambda self: self.thread.answers)
    @rule()
    def answer(self) -> None:
        self.thread.hear()

    @rule()
    def turn(self) -> None:
        self.thread.turn()

    @rule(seconds=st.sampled_from((0.02, 1.0, 70.0)))
    def pass_time(self, seconds: float) -> None:
        self.thread.pass_time(seconds)

    @invariant()
    def there_are_as_many_watches_as_may_be_and_no_follower_is_left_over(self) -> None:
        single = sum(ref.kind in WATCHED for ref in self.referred)
        kinds = len({ref.kind for ref in self.referred} & COLLECTED)
        others = sum(ref.kind not in COLLECTED | WATCHED for ref in self.referred)
        watches = min(single, SETTINGS.object_watches)
        assert (self.references.watches, self.references.asked) == (watches + kinds, single - watches + others)
        assert self.counted == (self.references.watches, self.references.asked)

    @precondition(lambda self: not self.thread.answers)  # among them may be the connection of who is stopped
    @invariant()
    def nothing_is_watched_twice_or_in_vain(self) -> None:
        watched = self.api.watched
        assert len(watched) == len(set(watched))
        wanted = {path_of(ref) for ref in self.referred if ref.kind in WATCHED}
        wanted |= {BY_KIND[ref.kind].path() for ref in self.referred if ref.kind in COLLECTED}
        assert set(watched) <= wanted

    def teardown(self) -> None:
        try:
            self.come_to_rest()
            self.end()
        finally:
            self.references.stop()
            self.thread.settle()
            self.thread.stop()
            self.api.cut()

    def come_to_rest(self) -> None:
        """Let the network be well, and whoever waits be heard: what is told is the truth, and all of it."""
        self.api.down = False
        self.thread.pass_time(LONG)
        for ref in self.referred:
            content = str(self.contents[ref]) if ref in self.contents else "absent"
            assert self.said[ref] == content, ref
        standing = self.registry.origins(SOURCE)
        kinds = {ref.kind for ref in self.referred} & COLLECTED
        assert standing == {origin(ref) for ref in self.contents if ref in self.referred or ref.kind in kinds}
        first = [path_of(ref) for ref in self.referred if ref.kind in WATCHED][: SETTINGS.object_watches]
        assert [name for name in self.api.watched if "/default/" in name] == sorted(first)

    def end(self) -> None:
        """Refer to nothing any more: nobody asks, nothing stands."""
        before = len(self.api.requests)
        self.references.refer([], self.referred)
        self.thread.pass_time(LONG)
        assert (len(self.api.requests), self.api.watched) == (before, [])
        assert self.registry.origins(SOURCE) == frozenset()


def path_of(ref: ObjectRef) -> str:
    return BY_KIND[ref.kind].path(ref.namespace, ref.name)


def origin(ref: ObjectRef) -> str:
    return origin_of(BY_KIND[ref.kind], ref.namespace, ref.name)


def document_of(ref: ObjectRef, content: int) -> dict[str, Any]:
    metadata = {"name": ref.name, "uid": f"uid-{content}", "labels": {"content": str(content)}}
    document: dict[str, Any] = {"metadata": metadata}
    if ref.kind not in CLUSTER_WIDE:
        metadata["namespace"] = ref.namespace
    match ref.kind:
        case "PersistentVolumeClaim":
            document["spec"] = {"accessModes": ["ReadWriteOnce"], "volumeName": "a"}
            document["status"] = {"phase": "Bound"}
        case "PersistentVolume":
            document["spec"] = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "csi": {"driver": "a", "volumeHandle": "a"},
            }
        case "CSIDriver":
            document["spec"] = {}
        case "ClusterTrustBundle":
            document["spec"] = {"trustBundle": "none"}
        case _:
            pass
    return document


TestReferences = ReferencesMachine.TestCase
TestReferences.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_who_waits_for_a_watch_is_before_who_comes_when_one_goes() -> None:
    machine = ReferencesMachine()
    first, second, third, fourth = (ref for ref in REFS if ref.kind in WATCHED)
    machine.references.refer([first, second], [])
    machine.references.refer([third], [])
    machine.thread.settle()
    machine.references.refer([fourth], [first])
    machine.thread.settle()
    assert machine.api.watched == sorted(map(path_of, (second, third)))
    machine.referred = dict.fromkeys((second, third, fourth))
    machine.teardown()
