"""What stands, given what every place offers; on a host in memory."""

import gc
import json
from collections.abc import Iterator, Mapping
from typing import TypeVar

import pytest

from volmgr import records
from volmgr.errors import OperationError
from volmgr.manifest import Item, Parsed, parse
from volmgr.model.meta import ObjectRef
from volmgr.model.names import default_uid
from volmgr.sources.changes import (
    Change,
    Complaints,
    ObjectAbsent,
    ObjectAwaited,
    ObjectChanged,
    ObjectLeft,
    PodAccepted,
    PodLeft,
    RecordDamaged,
    SourceState,
    VolumeUnfinished,
)
from volmgr.sources.offers import ConflictError, Place
from volmgr.sources.registry import Registry
from volmgr.testing.fake_host import FakeHost

T = TypeVar("T")
SECRET = "c3dvcmRmaXNo"


class Bench:
    """A registry on a host, and what it told."""

    def __init__(self, host: FakeHost | None = None) -> None:
        self.host = host or FakeHost()
        self.told: list[Change] = []
        self.registry = Registry(self.host.files, self.host.paths, self.hear)
        self.registry.start()

    def hear(self, change: Change) -> None:
        """Hold every change to the promise that its record is on disk already."""
        if isinstance(change, PodAccepted):
            assert self.record(change.pod.uid)["origin"] == change.origin
        if isinstance(change, PodLeft):
            assert self.record(change.uid)["standing"] == "leaving"
        self.told.append(change)

    def record(self, uid: str) -> Mapping[str, object]:
        return records.read(self.host.files, self.host.paths.state / "pods" / f"{uid}.json", "pod") or {}

    def offer(self, file: str, *documents: object, identity: str = "1") -> bool:
        return self.registry.offer("dir", file, identity, parsed(file, *documents))

    def take(self) -> list[Change]:
        told = self.told[:]
        self.told.clear()
        return told

    def short(self) -> list[str]:
        """Give what was told since the last time, one word a change."""
        return [short(change) for change in self.take()]

    def restart(self) -> "Bench":
        return Bench(self.host)

    def complaints(self) -> Iterator[str]:
        for change in self.take():
            if isinstance(change, Complaints):
                yield from map(str, change.errors)


def short(change: Change) -> str:
    match change:
        case PodAccepted():
            return f"+{change.pod.key}@{change.origin}"
        case PodLeft():
            return f"-{change.uid[:8]}"
        case ObjectChanged():
            return f"+{change.item.metadata.name}={change.revision}"
        case ObjectLeft():
            return f"-{change.ref.name}"
        case SourceState():
            return f"{change.source} {change.ready}"
        case RecordDamaged():
            return f"?{change.uid[:8]}"
        case Complaints():
            return f"!{change.origin}{len(change.errors)}"
        case ObjectAwaited(ref=ref) | ObjectAbsent(ref=ref) | VolumeUnfinished(claim=ref):
            return f"?{ref}"


def parsed(file: str, *documents: object) -> Parsed:
    return parse("\n".join(map(json.dumps, documents)).encode(), file)


def pod(
    name: str = "web", *, uid: str = "", volume: str = "a", labels: Mapping[str, str] | None = None
) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}, **({"uid": uid} if uid else {})},
        "spec": {
            "containers": [{"name": "main", "volumeMounts": [{"name": volume, "mountPath": "/a"}]}],
            "volumes": [{"name": volume, "emptyDir": {}}],
        },
    }


def config(name: str = "c", **data: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def item(document: object) -> Item:
    (found,) = parsed("api", document).items
    return found


WEB = default_uid("default", "web")


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_pod_is_recorded_before_it_is_told(bench: Bench) -> None:
    assert bench.offer("a", pod())
    assert bench.short() == ["+default/web@a"]
    assert bench.record(WEB)["standing"] == "present"


def test_an_unchanged_file_tells_nothing(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.take()
    bench.offer("a", pod(), identity="2")
    bench.offer("a", config(), pod(), identity="3")
    assert bench.short() == ["+c=3#1"]


def test_a_deleted_file_lets_its_pods_leave_and_the_last_mount_frees_the_record(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.take()
    assert bench.registry.withdraw("dir", "a")
    assert bench.short() == [f"-{WEB[:8]}"]
    assert bench.registry.forget(WEB)
    assert bench.record(WEB) == {}
    assert not bench.registry.forget(WEB)


def test_files_that_came_and_went_leave_nothing_in_memory(bench: Bench) -> None:
    for number in range(10):
        bench.offer(f"a-{number}", pod(), config())
        bench.registry.withdraw("dir", f"a-{number}")
        bench.registry.forget(WEB)
    bench.take()
    gc.collect()
    assert [each for each in gc.get_objects() if isinstance(each, Place) and each.source == "dir"] == []


def test_a_pod_missing_from_a_stable_read_leaves(bench: Bench) -> None:
    bench.offer("a", pod("one"), pod("two"))
    bench.take()
    bench.offer("a", pod("two"))
    assert bench.short() == [f"-{default_uid('default', 'one')[:8]}"]


def test_a_pod_whose_document_is_wrong_now_stays(bench: Bench) -> None:
    bench.offer("a", pod("one"), pod("two"))
    bench.take()
    bench.offer("a", pod("one", volume="A"))
    assert bench.short() == [f"-{default_uid('default', 'two')[:8]}", "!a1"]


def test_no_pod_leaves_a_file_with_a_document_that_cannot_be_read(bench: Bench) -> None:
    bench.offer("a", pod("one"), pod("two"))
    bench.take()
    assert bench.registry.offer("dir", "a", "2", parse(b"kind: [", "a"))
    assert bench.short() == ["!a1"]
    assert bench.offer("a", pod("one"), pod("two"))
    assert bench.short() == ["!a0"]


def test_an_unreadable_file_is_a_complaint_and_its_pods_stay(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.take()
    bench.registry.complain("dir", "a", parse(b"[", "a").errors)
    assert bench.short() == ["!a1"]


def test_labels_may_change_and_volumes_may_not(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.offer("a", pod(labels={"x": "y"}))
    changed = bench.take()[-1]
    assert isinstance(changed, PodAccepted)
    assert changed.pod.metadata.labels == {"x": "y"}
    bench.offer("a", pod(labels={"x": "z"}, volume="b"))
    (complaint,) = bench.complaints()
    assert complaint == (
        "a: document 1: spec.volumes: what must stay of the living Pod default/web was changed;"
        " undo the change, or let a Pod with another UID replace this one"
    )
    assert '"x": "y"' in json.dumps(bench.record(WEB))


def test_another_uid_of_the_same_name_replaces_the_pod_of_its_file(bench: Bench) -> None:
    bench.offer("a", pod(uid="first"))
    bench.take()
    bench.offer("a", pod(uid="second", volume="b"))
    assert bench.short() == ["-first", "+default/web@a"]


def test_one_pod_in_two_places_stays_where_it_came_from_and_moves_without_teardown(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.take()
    bench.offer("b", pod())
    assert list(bench.complaints()) == [
        "b: document 1: the Pod default/web is also in a, which came first; remove it from one of them"
    ]
    bench.registry.withdraw("dir", "a")
    assert bench.short() == ["+default/web@b", "!b0"]


def test_a_moved_file_changes_nothing_but_the_place(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.take()
    bench.registry.absent("dir", "a")
    assert bench.short() == []
    bench.offer("b", pod())
    assert bench.short() == ["+default/web@b"]
    bench.registry.withdraw("dir", "a")
    assert bench.short() == []


def test_a_missing_file_that_returns_changes_nothing(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.take()
    bench.registry.absent("dir", "a")
    bench.offer("a", pod())
    bench.offer("b", pod())
    assert bench.short() == ["!b1"]


def test_two_pods_with_one_uid_are_refused_naming_both(bench: Bench) -> None:
    bench.offer("a", pod("one", uid="same"))
    bench.offer("b", pod("two", uid="same"))
    (complaint,) = bench.complaints()
    assert "default/two has the UID same of default/one in a, which came first" in complaint
    bench.offer("c", pod("three", uid="u"), pod("four", uid="u"))
    (complaint,) = bench.complaints()
    assert "c: document 2: metadata.uid: default/four has the UID u of default/three" in complaint


def test_a_renamed_pod_of_a_living_uid_is_refused(bench: Bench) -> None:
    bench.offer("a", pod("one", uid="same"))
    bench.offer("a", pod("two", uid="same"))
    assert any("the UID same is that of the living Pod default/one" in each for each in bench.complaints())


def test_one_name_with_two_uids_is_refused_until_the_first_leaves(bench: Bench) -> None:
    bench.offer("a", pod(uid="first"))
    bench.offer("b", pod(uid="second"))
    assert any("the name default/web is taken by the Pod with UID first in a" in each for each in bench.complaints())
    bench.registry.withdraw("dir", "a")
    assert bench.short() == ["-first", "+default/web@b", "!b0"]


def test_a_pod_that_returns_while_leaving_is_accepted_again(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.registry.withdraw("dir", "a")
    bench.take()
    bench.offer("b", pod())
    assert bench.short() == ["+default/web@b"]
    assert not bench.registry.forget(WEB)


def test_a_pod_that_returns_with_other_volumes_is_back_at_once(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.registry.withdraw("dir", "a")
    bench.take()
    bench.offer("a", pod(volume="b"))
    assert bench.short() == ["+default/web@a"]
    assert not bench.registry.forget(WEB)


def test_a_pod_with_the_uid_of_a_leaving_one_of_another_name_waits_for_the_teardown(bench: Bench) -> None:
    bench.offer("a", pod(uid="u"))
    bench.registry.withdraw("dir", "a")
    bench.take()
    bench.offer("a", pod("other", uid="u"))
    assert any("is still being taken down" in each for each in bench.complaints())
    assert bench.registry.forget("u")
    assert bench.short() == ["+default/other@a", "!a0"]


def test_everything_survives_a_restart_without_its_source(bench: Bench) -> None:
    bench.offer("a", pod("one"), pod("two"))
    bench.registry.apply(item(pod("three")))
    bench.offer("a", pod("one"))
    again = bench.restart()
    two = default_uid("default", "two")
    assert sorted(again.short()) == sorted(["+default/one@a", "+default/two@a", f"-{two[:8]}", "+default/three@api"])
    assert again.registry.origins("dir") == {"a"}
    again.registry.withdraw("dir", "a")
    assert again.short() == [f"-{default_uid('default', 'one')[:8]}"]


def test_a_damaged_record_is_named_and_harms_no_other(bench: Bench) -> None:
    bench.offer("a", pod("one"), pod("two"))
    one = default_uid("default", "one")
    path = bench.host.paths.state / "pods" / f"{one}.json"
    bench.host.put(path, b"{")
    again = bench.restart()
    assert sorted(again.short()) == sorted([f"!{path}1", f"?{one[:8]}", "+default/two@a"])
    again.offer("a", pod("one"), pod("two"))
    assert again.short() == ["+default/one@a", f"!{path}0"]


def test_a_full_disk_refuses_the_offer_and_harms_nothing_else(bench: Bench) -> None:
    bench.offer("a", pod("one"))
    bench.take()
    bench.host.disk_full = True
    assert not bench.offer("b", pod("two"))
    assert any("the Pod default/two cannot be recorded" in each for each in bench.complaints())
    assert not bench.registry.retry()
    bench.host.disk_full = False
    bench.take()
    assert bench.registry.retry()
    assert bench.short() == ["+default/two@b", "!b0"]


def test_a_pod_whose_leaving_cannot_be_recorded_stays_until_it_can(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.take()
    bench.host.read_only = True
    assert not bench.registry.withdraw("dir", "a")
    assert any("that the Pod default/web left cannot be recorded" in each for each in bench.complaints())
    assert not bench.registry.retry()
    bench.host.read_only = False
    bench.take()
    assert bench.registry.retry()
    assert bench.short() == [f"-{WEB[:8]}", "!a0"]


def test_the_api_creates_changes_and_deletes(bench: Bench) -> None:
    assert bench.registry.apply(item(pod())).action == "created"
    assert bench.registry.apply(item(pod())).action == "unchanged"
    assert bench.registry.apply(item(pod(labels={"x": "y"}))).action == "changed"
    assert bench.registry.apply(item(pod("other"))).action == "created"
    bench.take()
    assert bench.registry.delete(WEB)
    assert bench.short() == [f"-{WEB[:8]}"]
    assert bench.registry.delete(WEB)
    assert not bench.registry.delete("nobody")
    assert bench.registry.apply(item(pod())).action == "created"


def test_the_api_replaces_a_pod_by_another_uid(bench: Bench) -> None:
    bench.registry.apply(item(pod(uid="first")))
    bench.take()
    assert bench.registry.apply(item(pod(uid="second"))).action == "created"
    assert bench.short() == ["-first", "+default/web@api"]
    assert bench.registry.knows("second")
    assert bench.registry.knows("first")  # it leaves, until its last volume is gone


def test_the_api_refuses_what_stands_against_a_file_and_forgets_it(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.take()
    with pytest.raises(ConflictError, match="the Pod default/web is also in a, which came first"):
        bench.registry.apply(item(pod()))
    with pytest.raises(ConflictError, match="the name default/web is taken"):
        bench.registry.apply(item(pod(uid="other")))
    with pytest.raises(ConflictError, match="the Pod default/web comes from a"):
        bench.registry.delete(WEB)
    bench.registry.withdraw("dir", "a")
    assert bench.short() == [f"-{WEB[:8]}"]


def test_the_api_refuses_changed_volumes_and_keeps_the_old(bench: Bench) -> None:
    bench.registry.apply(item(pod()))
    with pytest.raises(ConflictError, match="of the living Pod default/web was changed"):
        bench.registry.apply(item(pod(volume="b")))
    assert bench.registry.apply(item(pod())).action == "unchanged"


def test_a_pending_pod_of_the_api_survives_a_restart(bench: Bench) -> None:
    bench.registry.apply(item(pod(uid="u")))
    bench.registry.delete("u")
    assert bench.registry.apply(item(pod("other", uid="u"))).action == "pending"
    again = bench.restart()
    again.take()
    again.registry.forget("u")
    (accepted,) = again.take()
    assert isinstance(accepted, PodAccepted)
    assert accepted.pod.metadata.name == "other"


def test_the_api_says_that_the_disk_is_full_and_forgets_the_pod(bench: Bench) -> None:
    bench.host.disk_full = True
    with pytest.raises(OperationError):
        bench.registry.apply(item(pod()))
    bench.host.disk_full = False
    assert bench.registry.retry()
    assert bench.short() == []
    assert bench.registry.apply(item(pod())).action == "created"
    bench.host.disk_full = True
    with pytest.raises(OperationError):
        bench.registry.delete(WEB)
    bench.host.disk_full = False
    assert bench.registry.retry()
    assert bench.short() == ["+default/web@api"]


def test_the_api_takes_pods_only(bench: Bench) -> None:
    with pytest.raises(ConflictError, match="the API takes Pods, not a ConfigMap"):
        bench.registry.apply(item(config()))


def test_objects_come_change_and_go_before_their_pods(bench: Bench) -> None:
    bench.offer("a", pod(), config(a="b"), identity="1")
    assert bench.short() == ["+c=1#2", "+default/web@a"]
    bench.offer("a", pod(), config(a="b"), identity="2")
    assert bench.short() == ["+c=2#2"]
    bench.offer("b", config(a="x"), identity="3")
    assert list(bench.complaints()) == [
        "b: document 1: the ConfigMap c is also in a, which came first; remove it from one of them"
    ]
    bench.registry.withdraw("dir", "a")
    assert bench.short() == [f"-{WEB[:8]}", "+c=3#1", "!b0"]
    bench.registry.withdraw("dir", "b")
    assert bench.short() == ["-c"]


def test_a_resource_version_is_the_revision(bench: Bench) -> None:
    document = config()
    document["metadata"] = {"name": "c", "resourceVersion": "77"}
    bench.offer("a", document)
    assert bench.short() == ["+c=77"]


def test_objects_in_use_survive_a_restart_and_others_do_not(bench: Bench) -> None:
    bench.offer("a", config("kept", a="b"), config("other"), secret())
    bench.registry.retain([ObjectRef("ConfigMap", "default", "kept"), ObjectRef("Secret", "default", "s")])
    bench.offer("a", config("kept", a="c"), secret(), identity="2")
    again = bench.restart()
    (kept,) = again.take()
    assert isinstance(kept, ObjectChanged)
    assert (kept.revision, kept.item.metadata.name, kept.origin) == ("2#1", "kept", "a")
    again.registry.withdraw("dir", "a")
    assert again.short() == ["-kept"]
    assert again.restart().short() == []


def test_what_is_no_longer_used_is_removed_from_disk(bench: Bench) -> None:
    bench.offer("a", config("kept"))
    bench.registry.retain([ObjectRef("ConfigMap", "default", "kept")])
    bench.registry.retain([])
    assert bench.restart().short() == []


def test_no_secret_reaches_the_disk(bench: Bench) -> None:
    bench.offer("a", secret(), pod())
    bench.registry.retain([ObjectRef("Secret", "default", "s")])
    for path, kind in bench.host.tree(bench.host.paths.state).items():
        if kind.startswith("file"):
            assert SECRET.encode() not in bench.host.content(path)
            assert b"swordfish" not in bench.host.content(path)


def secret() -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": SECRET}}


def test_states_are_passed_on_in_order(bench: Bench) -> None:
    bench.offer("a", pod())
    bench.registry.state("dir", ready=True)
    assert bench.short() == ["+default/web@a", "dir True"]


def test_a_pod_that_is_brought_back_while_another_leaves_stays_present(bench: Bench) -> None:
    bench.offer("c", pod("db", uid="u1", volume="b"))
    bench.offer("c", pod(uid="u2"), pod("db", uid="u1"))
    bench.offer("a", pod("db", uid="u1"), pod("db", uid="u2"))
    bench.take()
    bench.offer("c")
    assert "+default/db@a" in bench.short()
    assert bench.record("u1")["standing"] == "present"
    assert bench.record("u2")["standing"] == "leaving"


def test_a_replacement_of_long_ago_is_recorded_anew_when_it_returns(bench: Bench) -> None:
    bench.registry.apply(item(pod(uid="first")))
    bench.registry.apply(item(pod(uid="second")))
    bench.registry.delete("second")
    assert bench.registry.forget("first")
    assert bench.registry.forget("second")
    bench.registry.apply(item(pod(uid="second")))
    assert bench.record("second")["standing"] == "present"
