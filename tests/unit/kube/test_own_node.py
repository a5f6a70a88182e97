"""The own Node: which lists of volumes in use it shows, when it is patched, and who else writes there."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from typing import Any

import pytest

from tests.unit.kube.memory_api import MemoryApi
from tests.unit.kube.turned_thread import TurnedThread
from tests.unit.kube.watched_api import WatchedApi
from volmgr.kube.errors import ApiError
from volmgr.kube.node import OwnNode
from volmgr.kube.wire import Seen, seen_of
from volmgr.messages import Message, NodeMissing, NodeStatusRead
from volmgr.model.kube import KubeSettings
from volmgr.model.objects import MANAGED

NODE, STATUS = "/api/v1/nodes/n1", "/api/v1/nodes/n1/status"
SETTINGS = KubeSettings()


class Site:
    """A server with the Node, and who watches it; everything that is told is kept."""

    def __init__(self, api: MemoryApi, *, managed: bool = True) -> None:
        self.api = api
        self.thread = TurnedThread()
        self.told: list[Message] = []
        self.own = OwnNode(self.thread, api, SETTINGS, "n1", self.told.append, controller_attach=managed)

    def put(self, *in_use: str, uid: str = "uid-n1", **annotations: str) -> Seen:
        """Let somebody write the Node, and give what a watch says of it."""
        annotations = annotations or {MANAGED: "true"}
        metadata = {"name": "n1", "uid": uid, "annotations": annotations}
        document = self.api.put(NODE, {"metadata": metadata, "status": {"volumesInUse": list(in_use)}})
        return seen_of(json.dumps(document).encode())

    def report(self, *in_use: str) -> None:
        """Tell a list, and let it be patched at once."""
        self.own.report(in_use)
        self.thread.clock.now += SETTINGS.status_debounce
        self.thread.turn()

    def take(self) -> list[tuple[tuple[str, ...], int | None] | str]:
        """Give what was told since: lists with how many are there, or why there is no Node."""
        found: list[tuple[tuple[str, ...], int | None] | str] = []
        for each in self.told:
            match each:
                case NodeStatusRead():
                    found.append((each.node.volumes_in_use, each.reports))
                case NodeMissing():
                    found.append(each.why)
                case _:
                    raise AssertionError(each)
        self.told.clear()
        return found

    @property
    def patches(self) -> list[Any]:
        """The lists that were patched."""
        return [body["status"]["volumesInUse"] for path, body in self.api.asked("PATCH") if path == STATUS]

    @property
    def in_use(self) -> list[str]:
        return list(self.api.objects[NODE]["status"]["volumesInUse"])

    @property
    def annotations(self) -> Any:  # noqa: ANN401 - as in JSON
        return self.api.objects[NODE]["metadata"].get("annotations")


@pytest.fixture
def site() -> Generator[Site]:
    """A site whose watch the test is: nothing is heard but what it says."""
    made = Site(MemoryApi())
    yield made
    made.thread.stop()


@pytest.fixture
def watched() -> Generator[Site]:
    """A site with a real watch."""
    api = WatchedApi()
    made = Site(api)
    made.own.start()
    yield made
    made.own.reflector.stop()
    made.thread.stop()
    api.cut()


# --- lists, and how many of them are shown ---


def test_a_list_that_is_shown_already_is_told_and_not_patched(site: Site) -> None:
    site.own.changed(site.put("d"))
    assert site.take() == [(("d",), 0)]
    site.report("d")
    site.thread.settle()
    assert site.take() == [(("d",), 1)]
    assert site.patches == []


def test_a_list_counts_when_its_patch_was_answered(site: Site) -> None:
    site.own.changed(site.put())
    site.report("d")
    site.thread.settle()
    assert site.take() == [((), 0), (("d",), 1)]
    assert (site.patches, site.in_use) == ([["d"]], ["d"])


def test_lists_that_come_within_the_debounce_are_one_patch(site: Site) -> None:
    site.own.changed(site.put())
    for volume in ("a", "b", "c"):
        site.own.report((volume,))
    site.thread.pass_time(1)
    assert site.patches == [["c"]]
    assert site.take()[-1] == (("c",), 3)


def test_nothing_is_patched_before_what_is_in_use_is_known(site: Site) -> None:
    site.own.changed(site.put("left over"))
    site.thread.pass_time(60)
    assert site.patches == []
    assert site.in_use == ["left over"]


def test_a_list_that_equals_what_is_shown_does_not_count_while_another_is_on_its_way(site: Site) -> None:
    site.own.changed(site.put("d"))
    site.report("d")
    site.report()
    site.own.report(("d",))
    site.own.changed(site.put("d"))
    assert site.take()[-1] == (("d",), 1)
    site.thread.pass_time(1)
    assert site.take()[-1] == (("d",), 3)


def test_an_answer_that_comes_after_a_newer_state_is_told_all_the_same(site: Site) -> None:
    site.own.changed(site.put())
    site.report("d")
    site.thread.send()
    site.own.changed(site.put("d"))
    assert site.take()[-1] == (("d",), 0)
    site.thread.hear()
    assert site.take()[-1] == (("d",), 1)


def test_a_watch_that_lags_behind_an_answer_undoes_nothing(site: Site) -> None:
    late = site.put()
    site.own.changed(late)
    site.report("d")
    site.thread.settle()
    site.take()
    site.own.changed(late)
    site.thread.pass_time(10)
    assert set(site.take()) == {(("d",), 1)}
    assert site.patches == [["d"]]


def test_a_list_without_an_answer_does_not_count_and_is_told_again_before_the_next(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.own.changed(site.put("d"))
    site.report("d")
    site.take()
    site.api.refusals.append(ApiError("no answer: time ran out"))
    site.report()
    site.own.report(("d",))
    with caplog.at_level(logging.WARNING):
        site.thread.turn()
        site.thread.send()
        site.thread.hear()
    assert "volumesInUse of node n1: no answer: time ran out; it is tried again" in caplog.text
    site.own.listed([seen_of(site.api.get(NODE))])
    assert site.take()[-1] == (("d",), 1), "the list that is empty may still arrive"
    site.thread.pass_time(1)
    assert site.patches == [[], [], ["d"]]
    assert site.take()[-1] == (("d",), 3)


def test_a_list_without_an_answer_is_no_doubt_once_the_node_has_changed(site: Site) -> None:
    site.own.changed(site.put("d"))
    site.report("d")
    site.api.refusals.append(ApiError("no answer"))
    site.report()
    site.thread.settle()
    site.own.report(("d",))
    site.own.changed(site.put("d"))
    assert site.take()[-1] == (("d",), 3)


@pytest.mark.parametrize("status", [403, 422, 429])
def test_a_list_that_was_denied_does_not_arrive_later(site: Site, status: int) -> None:
    site.own.changed(site.put("d"))
    site.report("d")
    site.api.refusals.append(ApiError("no", status=status))
    site.report()
    site.thread.settle()
    site.report("d")
    site.own.changed(seen_of(site.api.get(NODE)))
    assert site.take()[-1] == (("d",), 3)


# --- others who write ---


def test_after_a_conflict_the_node_is_read_and_then_patched(site: Site) -> None:
    site.own.changed(site.put())
    site.report("d")
    site.put("other")
    site.thread.pass_time(1)
    assert site.in_use == ["d"]
    assert site.patches == [["d"], ["d"]]
    assert [path for path, _ in site.api.asked("GET")] == [NODE]
    assert site.take()[-1] == (("d",), 1)


def test_conflicts_that_do_not_end_are_tried_ever_more_seldom(site: Site) -> None:
    site.own.changed(site.put())
    site.api.refusals += [ApiError("the object has been modified", status=409)] * 1000
    site.report("d")
    site.thread.pass_time(60)
    assert 10 < len(site.patches) < 20
    site.api.refusals.clear()
    site.thread.pass_time(SETTINGS.status_retry_max)
    assert site.in_use == ["d"]


def test_a_server_that_says_how_long_to_wait_is_obeyed(site: Site) -> None:
    site.own.changed(site.put())
    site.api.refusals.append(ApiError("slow down", status=429, retry_after=30.0))
    site.report("d")
    site.thread.pass_time(29)
    assert len(site.patches) == 1
    site.thread.pass_time(1.1)
    assert site.in_use == ["d"]


def test_a_writer_who_overwrites_each_of_our_lists_at_once_makes_us_no_faster_than_twice_a_second(
    watched: Site,
) -> None:
    api, put = watched.api, watched.put
    put()
    watched.report("d")
    watched.thread.settle()

    def overwrite() -> None:
        if watched.in_use == ["d"]:
            put()
        watched.thread.later(0.001, overwrite)

    watched.thread.later(0.001, overwrite)
    watched.thread.pass_time(5)
    assert 5 < len(watched.patches) <= 12
    assert api.objects[NODE]["status"]["volumesInUse"] in ([], ["d"])


def test_a_server_that_takes_something_else_than_what_is_patched_is_patched_ever_more_seldom(site: Site) -> None:
    site.own.changed(site.put())
    patch = site.api.patch

    def stubborn(path: str, body: Any, **how: Any) -> bytes:  # noqa: ANN401 - as MemoryApi's
        return patch(path, {"status": {"volumesInUse": []}} if path == STATUS else body, **how)

    site.api.patch = stubborn  # type: ignore[method-assign]
    site.report("d")
    site.thread.pass_time(60)
    assert 5 < len(site.patches) < 15


# --- a Node that comes and goes ---


def test_a_node_that_comes_later_is_patched_then(watched: Site) -> None:
    watched.report("d")
    watched.thread.settle()
    (why,) = watched.take()
    assert why == "https://192.0.2.1:6443 has no Node n1; register it, volmgrd never does"
    watched.put()
    watched.thread.pass_time(1)
    assert watched.in_use == ["d"]
    assert watched.take()[-1] == (("d",), 1)


def test_a_node_that_was_made_anew_gets_the_list_again(watched: Site) -> None:
    watched.put()
    watched.report("d")
    watched.thread.settle()
    watched.take()
    watched.api.delete(NODE)
    watched.thread.settle()
    watched.put(uid="anew")
    watched.thread.pass_time(1)
    said = watched.take()
    assert "has no Node n1" in str(said[0])
    assert said[1] == ((), 1)
    assert said[-1] == (("d",), 1)


def test_an_answer_of_a_node_that_was_deleted_meanwhile_brings_it_not_back(site: Site) -> None:
    seen = site.put(other="annotation")
    site.own.changed(seen)
    site.report("d")
    for _ in range(2):
        site.thread.send()
    site.own.gone(seen)
    site.take()
    site.thread.settle()
    assert site.take() == []
    assert len(site.api.requests) == 2


def test_what_hinders_reading_is_told_until_a_node_was_read(site: Site) -> None:
    site.own.troubled(ApiError("cannot reach it"))
    site.own.troubled(None)
    assert site.take() == ["cannot reach it"]
    site.own.changed(site.put())
    site.take()
    site.own.troubled(ApiError("cannot reach it"))
    assert site.take() == []


def test_a_node_that_cannot_be_read_leaves_what_was_known(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.own.changed(site.put("d"))
    site.take()
    with caplog.at_level(logging.WARNING):
        site.own.changed(Seen("", "n1", "", "9", b'{"metadata": {"name": "n1"}, "status": {"volumesInUse": 1}}'))
    assert "the Node n1 cannot be read: " in caplog.text
    assert site.take() == []


# --- who attaches ---


@pytest.mark.parametrize(
    ("managed", "before", "after"),
    [(True, {"other": "x"}, {"other": "x", MANAGED: "true"}), (False, {"other": "x", MANAGED: "true"}, {"other": "x"})],
)
def test_the_annotation_is_set_or_removed_once_and_others_stay(
    managed: bool, before: dict[str, str], after: dict[str, str]
) -> None:
    site = Site(MemoryApi(), managed=managed)
    for _ in range(2):
        site.own.changed(site.put(**before))
    site.thread.settle()
    assert site.annotations == after
    assert [path for path, _ in site.api.asked("PATCH")] == [NODE]
    site.own.changed(seen_of(site.api.get(NODE)))
    site.thread.pass_time(100)
    assert len(site.api.asked("PATCH")) == 1
    site.thread.stop()


def test_an_annotation_that_is_right_is_not_touched(site: Site) -> None:
    site.own.changed(site.put())
    site.thread.pass_time(100)
    assert site.api.asked("PATCH") == []


def test_an_annotation_that_is_refused_is_tried_again_twice_a_minute(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.api.refusals += [ApiError("no", status=403)] * 2
    with caplog.at_level(logging.WARNING):
        site.own.changed(site.put(other="x"))
        site.thread.settle()
        assert f"the annotation {MANAGED} of node n1: no" in caplog.text
        site.thread.pass_time(2 * SETTINGS.backoff_max - 1)
    assert len(site.api.asked("PATCH")) == 2
    site.thread.pass_time(1)
    assert site.annotations == {"other": "x", MANAGED: "true"}
