"""Events on an API server: which are told, in whose words, how often; and that nobody ever waits for them."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from typing import Any

import pytest

from tests.unit.kube.memory_api import MemoryApi
from tests.unit.kube.turned_thread import TurnedThread
from volmgr.kube.errors import ApiError
from volmgr.kube.event_texts import About, Regarding, about_in
from volmgr.kube.events import QUEUE, STALE, EventSink
from volmgr.model.kube import EventsApi, KubeSettings
from volmgr.report.events import Event, EventLog, Severity
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_emptydir.plugin import EmptyDir

START = 1_700_000_000.25
WEB = Regarding("Pod", "shop", "web", "uid-web")
NEW = "/apis/events.k8s.io/v1/namespaces/shop/events"


class Site:
    """A log of events, a sink that hears of them, and the server."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - fields of KubeSettings
        self.api = MemoryApi()
        self.about = About((WEB,), "data")
        self.thread = TurnedThread(START)
        self.log = EventLog(self.thread.clock, 100)
        self.sink = EventSink(self.thread, self.api, KubeSettings(**settings), "n1", lambda _event: self.about)
        self.log.listen(self.sink.hear)

    def happen(self, reason: str, message: str, severity: Severity = Severity.WARNING) -> Event:
        return self.log.record(severity, reason, message, pod="shop/web", pod_uid="uid-web", volume="t/uid-web-data")

    def events(self) -> list[dict[str, Any]]:
        """Let all be told that can be told now, and give what the server has."""
        self.thread.settle()
        return [each for path, each in sorted(self.api.objects.items()) if "/events/" in path]


@pytest.fixture
def site() -> Generator[Site]:
    made = Site()
    yield made
    made.thread.stop()


def test_a_failed_mount_is_told_of_its_pod_in_kubelet_s_words(site: Site) -> None:
    site.happen("FailedMount", "mount: Secret shop/login is missing")
    (event,) = site.events()
    name = event["metadata"].pop("name")
    assert re.fullmatch(r"web\.[0-9a-f]{16}", name)
    assert event["metadata"].pop("resourceVersion")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "eventTime": "2023-11-14T22:13:20.250000Z",
        "reportingController": "volmgr",
        "reportingInstance": "n1",
        "action": "MountVolume",
        "reason": "FailedMount",
        "regarding": {"kind": "Pod", "apiVersion": "v1", "namespace": "shop", "name": "web", "uid": "uid-web"},
        "note": 'MountVolume.SetUp failed for volume "data" : Secret shop/login is missing',
        "type": "Warning",
    }


def test_what_repeats_becomes_a_series_of_one_event(site: Site) -> None:
    for _ in range(4):
        site.happen("FailedMount", "mount: no")
        site.thread.pass_time(1)
    (event,) = site.events()
    assert event["series"] == {"count": 4, "lastObservedTime": "2023-11-14T22:13:23.250000Z"}
    assert event["eventTime"] == "2023-11-14T22:13:20.250000Z"
    assert [path for path, _ in site.api.asked("POST")] == [NEW]


def test_the_core_group_has_a_count_and_two_times() -> None:
    site = Site(events=EventsApi.CORE)
    site.happen("FailedMount", "mount: no")
    site.thread.settle()
    site.thread.pass_time(5)
    site.happen("FailedMount", "mount: no")
    (event,) = site.events()
    site.thread.stop()
    assert site.api.asked("POST")[0][0] == "/api/v1/namespaces/shop/events"
    assert event["involvedObject"]["uid"] == "uid-web"
    assert (event["count"], event["firstTimestamp"], event["lastTimestamp"]) == (
        2,
        "2023-11-14T22:13:20Z",
        "2023-11-14T22:13:25Z",
    )
    assert event["source"] == {"component": "volmgr", "host": "n1"}
    assert event["message"] == 'MountVolume.SetUp failed for volume "data" : no'


def test_none_tells_nothing() -> None:
    site = Site(events=EventsApi.NONE)
    site.happen("FailedMount", "mount: no")
    assert site.events() == []
    site.thread.stop()


@pytest.mark.parametrize(
    ("reason", "message", "is_block", "note"),
    [
        ("FailedMapVolume", "mount: no", True, 'MapVolume.MapPodDevice failed for volume "data" : no'),
        ("FailedMapVolume", "mount_device: no", True, 'MapVolume.SetUpDevice failed for volume "data" : no'),
        ("FailedMount", "mount_device: a: b", False, 'MountVolume.MountDevice failed for volume "data" : a: b'),
        ("FailedAttachVolume", "attach: no", False, 'AttachVolume.Attach failed for volume "data" : no'),
        ("SuccessfulAttachVolume", "attach: done", False, 'AttachVolume.Attach succeeded for volume "data"'),
        ("SuccessfulMountVolume", "mount: done", True, 'MapVolume.MapPodDevice succeeded for volume "data"'),
        ("FailedMount", "its claim is pending", False, "its claim is pending"),
        ("VolumePermissionChangeInProgress", "7 files", False, "7 files"),
        ("AlreadyMountedVolume", "of another group", False, "of another group"),
    ],
)
def test_each_reason_has_kubelet_s_text(site: Site, reason: str, message: str, is_block: bool, note: str) -> None:
    site.about = About((WEB,), "data", is_block=is_block)
    severity = Severity.NORMAL if reason.startswith("Successful") else Severity.WARNING
    site.happen(reason, message, severity)
    assert [(event["reason"], event["note"], event["type"]) for event in site.events()] == [
        (reason, note, severity.value)
    ]


@pytest.mark.parametrize(
    "reason",
    [
        "SuccessfulMountVolume",
        "SuccessfulUnmountVolume",
        "FailedUnmount",
        "SourceNotReady",
        "InvalidManifest",
        "PodGone",
    ],
)
def test_what_kubelet_does_not_say_and_what_is_of_local_use_is_not_told(site: Site, reason: str) -> None:
    site.happen(reason, "mount: done")
    assert site.events() == []


def test_what_concerns_a_volume_as_a_whole_is_told_each_of_its_pods(site: Site) -> None:
    site.about = About((WEB, Regarding("Pod", "bank", "teller", "uid-teller")), "data")
    site.happen("FailedMount", "mount_device: no")
    assert [event["regarding"]["name"] for event in site.events()] == ["teller", "web"]


def test_that_a_volume_has_grown_is_told_its_claim_too(site: Site) -> None:
    site.about = About((WEB,), "data", claim=Regarding("PersistentVolumeClaim", "shop", "orders", "uid-orders"))
    site.happen("FileSystemResizeSuccessful", "expand: done", Severity.NORMAL)
    site.happen("VolumeResizeFailed", "expand: no room")
    said = sorted((event["reason"], event["regarding"]["kind"], event["note"]) for event in site.events())
    done = 'MountVolume.NodeExpandVolume succeeded for volume "data"'
    assert said == [
        ("FileSystemResizeSuccessful", "PersistentVolumeClaim", done),
        ("FileSystemResizeSuccessful", "Pod", done),
        ("VolumeResizeFailed", "Pod", 'MountVolume.NodeExpandVolume failed for volume "data" : no room'),
    ]


def test_what_concerns_the_node_is_told_of_the_node(site: Site) -> None:
    site.happen("PossibleMemoryBackedVolumesOnDisk", "swap is on")
    (event,) = site.events()
    assert event["regarding"] == {"kind": "Node", "apiVersion": "v1", "name": "n1", "uid": "n1"}
    assert event["metadata"]["namespace"] == "default"


def test_a_long_text_is_cut_at_the_server_s_limit(site: Site) -> None:
    site.happen("FailedMount", "mount: " + "ü" * 2000)
    (event,) = site.events()
    assert 1020 < len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ü...")


def test_a_pod_has_25_events_at_once_and_one_in_five_minutes_then(site: Site) -> None:
    for number in range(100):
        site.happen("FailedMount", f"mount: {number}")
    assert len(site.events()) == 25
    site.thread.pass_time(299)
    site.happen("FailedMount", "mount: a")
    assert len(site.events()) == 25
    site.thread.pass_time(1)
    site.happen("FailedMount", "mount: b")
    site.happen("FailedMount", "mount: c")
    assert len(site.events()) == 26
    site.about = About((Regarding("Pod", "shop", "other", "uid-other"),), "data")
    site.happen("FailedMount", "mount: d")
    assert len(site.events()) == 27


def test_what_was_not_told_for_lack_of_budget_is_counted_when_it_is_told_next() -> None:
    site = Site(event_burst=1)
    for _ in range(5):
        site.happen("FailedMount", "mount: no")
        site.thread.settle()
    site.thread.pass_time(300)
    site.happen("FailedMount", "mount: no")
    (event,) = site.events()
    site.thread.stop()
    assert event["series"]["count"] == 6


def test_an_event_that_the_server_has_forgotten_is_made_anew(site: Site) -> None:
    site.happen("FailedMount", "mount: no")
    (first,) = site.events()
    site.api.objects.clear()
    site.thread.pass_time(4000)
    site.happen("FailedMount", "mount: no")
    (second,) = site.events()
    assert second["metadata"]["name"] != "" != first["metadata"]["name"]
    assert second["series"]["count"] == 2


def test_events_wait_for_a_server_that_is_away_and_are_told_when_it_is_back(site: Site) -> None:
    site.api.down = True
    for number in range(3):
        site.happen("FailedMount", f"mount: {number}")
    site.thread.settle()
    site.api.down = False
    site.thread.pass_time(30)
    assert [event["note"][-1] for event in site.events()] == ["0", "1", "2"]


def test_never_more_than_a_bound_wait_and_the_oldest_go_first(site: Site) -> None:
    site.api.down = True
    for number in range(QUEUE + 500):
        site.about = About((Regarding("Pod", "shop", f"p{number}", f"uid-{number}"),), "data")
        site.happen("FailedMount", "mount: no")
        if number % 100 == 0:
            site.thread.settle()
    site.thread.settle()
    site.api.down = False
    site.thread.pass_time(30)
    told = {event["regarding"]["name"] for event in site.events()}
    assert told == {f"p{number}" for number in range(500, QUEUE + 500)}


def test_what_happened_long_before_the_server_came_back_is_dropped(site: Site) -> None:
    site.api.down = True
    site.happen("FailedMount", "mount: old")
    site.thread.pass_time(STALE - 60)
    site.happen("FailedMount", "mount: new")
    site.thread.pass_time(60)
    site.api.down = False
    site.thread.pass_time(30)
    assert [event["note"][-3:] for event in site.events()] == ["new"]


def test_a_refusal_is_logged_once_and_keeps_no_other_event(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.api.refusal = ApiError("403 Forbidden; grant it", status=403)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            site.happen("FailedMount", f"mount: {number}")
        site.thread.settle()
    assert caplog.text.count("an event is not told: 403 Forbidden; grant it") == 1
    site.api.refusal = None
    site.happen("FailedMount", "mount: 3")
    assert len(site.events()) == 1


def test_recording_never_waits_for_the_server(site: Site) -> None:
    """The thread of Kubernetes mode stands still meanwhile: nothing that is recorded needs it."""
    for number in range(5000):
        site.happen("FailedMount", f"mount: {number}")
    assert site.log.last_number == 5000
    assert len(site.events()) == 25


def test_the_world_says_what_an_event_is_about() -> None:
    node = TestNode(FakeHost(), plugins_of(EmptyDir()))
    about = about_in(node.world)
    node.world.events.listen(lambda event: seen.append((event.reason, about(event))))
    seen: list[tuple[str, About]] = []
    document = pod("web", {"name": "v", "emptyDir": {}}, uid="uid-web", metadata={"namespace": "shop"})
    node.apply(document)
    assert ("SuccessfulMountVolume", About((WEB,), "v")) in seen
