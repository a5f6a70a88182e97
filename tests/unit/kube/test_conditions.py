"""The condition Mounted of Pods: said when it changes and not more often, over failures and restarts."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import Any

import pytest

from tests.unit.kube.memory_api import MemoryApi
from tests.unit.kube.turned_thread import TurnedThread
from volmgr.kube.conditions import TYPE, MountedCondition, PodConditions, condition_in
from volmgr.kube.errors import ApiError
from volmgr.kube.event_texts import NOTE_LIMIT, Regarding
from volmgr.model.kube import KubeSettings
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_secret.plugin import SecretVolume

START = 1_700_000_000.0
WEB = Regarding("Pod", "shop", "web", "uid-web")
PATH = "/api/v1/namespaces/shop/pods/web"
MOUNTED = MountedCondition(is_mounted=True)


def waits(why: str = "Secret shop/login is missing") -> MountedCondition:
    return MountedCondition(is_mounted=False, message=why)


class Site:
    """A server with one Pod, and who says its condition."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        ready = {"type": "Ready", "status": "False"}
        self.api.put(PATH, {"metadata": {"name": "web", "uid": "uid-web"}, "status": {"conditions": [ready]}})
        self.thread = TurnedThread(START)
        self.conditions = self.restarted()

    def restarted(self) -> PodConditions:
        return PodConditions(self.thread, self.api, KubeSettings(), wall=self.thread.clock)

    def say(self, condition: MountedCondition, seconds: float = 0.25) -> None:
        self.conditions.say(WEB, condition)
        self.thread.pass_time(seconds)

    @property
    def patches(self) -> list[dict[str, Any]]:
        return [body["status"]["conditions"][0] for _, body in self.api.asked("PATCH")]

    def shown(self) -> list[dict[str, Any]]:
        return list(self.api.objects[PATH]["status"]["conditions"])


@pytest.fixture
def site() -> Generator[Site]:
    made = Site()
    yield made
    made.thread.stop()


def test_a_condition_says_why_and_since_when_beside_those_of_others(site: Site) -> None:
    site.say(waits())
    assert site.shown() == [
        {"type": "Ready", "status": "False"},
        {
            "type": TYPE,
            "status": "False",
            "reason": "VolumesNotMounted",
            "message": "Secret shop/login is missing",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
        },
    ]
    ((path, body),) = site.api.asked("PATCH")
    assert path == f"{PATH}/status"
    assert body["metadata"] == {"uid": "uid-web"}


def test_what_has_not_changed_is_not_said_again(site: Site) -> None:
    for _ in range(5):
        site.say(waits(), 60)
    assert len(site.patches) == 1


def test_many_changes_at_once_are_one(site: Site) -> None:
    for number in range(20):
        site.conditions.say(WEB, waits(str(number)))
    site.conditions.say(WEB, MOUNTED)
    site.thread.pass_time(1)
    assert [patch["status"] for patch in site.patches] == ["True"]


def test_words_that_change_with_each_try_are_said_twice_a_minute_and_the_turn_at_once(site: Site) -> None:
    for number in range(30):
        site.say(waits(f"try {number}"), 1)
    assert [patch["message"] for patch in site.patches] == ["try 0"]
    site.thread.pass_time(1)
    assert [patch["message"] for patch in site.patches] == ["try 0", "try 29"]
    site.say(waits("try 30"), 1)
    since = site.patches[-1]["lastTransitionTime"]
    assert since == site.patches[0]["lastTransitionTime"]
    site.say(MOUNTED)
    assert [patch["status"] for patch in site.patches] == ["False", "False", "True"]
    assert site.patches[-1]["lastTransitionTime"] > since
    assert (site.patches[-1]["reason"], site.patches[-1]["message"]) == ("VolumesMounted", "")


def test_a_restart_says_nothing_that_the_server_has_and_keeps_since_when_it_is_so(site: Site) -> None:
    site.say(MOUNTED)
    site.thread.pass_time(100)
    site.conditions = site.restarted()
    site.say(MOUNTED)
    assert len(site.patches) == 1
    site.conditions = site.restarted()
    site.say(waits())
    site.conditions = site.restarted()
    site.thread.pass_time(100)
    site.say(waits("another reason"))
    assert len(site.patches) == 3
    assert site.patches[2]["lastTransitionTime"] == site.patches[1]["lastTransitionTime"]


def test_a_server_that_is_away_hears_the_last_word_when_it_is_back(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.api.down = True
    with caplog.at_level(logging.WARNING):
        site.say(waits(), 60)
    assert caplog.text.count("of pod shop/web: cannot reach") == 1
    asked = len(site.api.requests)
    site.say(MOUNTED, 120)
    assert 3 <= len(site.api.requests) - asked <= 8
    site.api.down = False
    site.thread.pass_time(31)
    assert [patch["status"] for patch in site.patches[-1:]] == ["True"]
    assert site.shown()[1]["status"] == "True"


def test_of_a_pod_that_the_server_does_not_have_any_more_nothing_is_said(site: Site) -> None:
    del site.api.objects[PATH]
    site.say(waits(), 120)
    assert len(site.api.requests) == 1


def test_another_pod_of_that_name_keeps_its_own_condition(site: Site) -> None:
    site.api.put(PATH, {"metadata": {"name": "web", "uid": "uid-anew"}, "status": {"conditions": []}})
    site.say(waits(), 120)
    assert site.shown() == []
    assert len(site.patches) == 1


def test_a_pod_that_is_gone_is_forgotten(site: Site) -> None:
    site.conditions.say(WEB, waits())
    site.conditions.forget("uid-web")
    site.thread.pass_time(10)
    assert site.api.requests == []


def test_a_refusal_delays_only_its_own_pod(site: Site) -> None:
    other = Regarding("Pod", "shop", "other", "uid-other")
    site.api.put("/api/v1/namespaces/shop/pods/other", {"metadata": {"name": "other", "uid": "uid-other"}})
    site.api.refusals.append(ApiError("429 slow down", status=429, retry_after=20))
    site.conditions.say(WEB, waits())
    site.conditions.say(other, waits())
    site.thread.pass_time(10)
    assert len(site.patches) == 2
    assert len(site.shown()) == 1
    site.thread.pass_time(11)
    assert len(site.shown()) == 2


def test_the_condition_of_a_pod_is_what_why_says(site: Site) -> None:
    del site
    node = TestNode(FakeHost(), plugins_of(SecretVolume()), sources=("directory", "api"))
    node.sources_ready()
    volume = {"name": "v", "secret": {"secretName": "login"}}
    node.apply(pod("web", volume, uid="uid-web", metadata={"namespace": "shop"}))
    found = condition_in(node.world, "uid-web")
    assert found is not None
    regarding, condition = found
    assert regarding == WEB
    assert not condition.is_mounted
    assert "Secret shop/login" in condition.message
    node.put_file(
        "login.json", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "shop"}}
    )
    assert condition_in(node.world, "uid-web") == (WEB, MOUNTED)
    assert condition_in(node.world, "uid-other") is None


def test_a_long_reason_is_cut(site: Site) -> None:
    del site
    node = TestNode(FakeHost(), plugins_of(SecretVolume()))
    volumes = [{"name": f"v{number}", "secret": {"secretName": f"s{number}"}} for number in range(60)]
    node.apply(pod("web", *volumes, uid="uid-web", metadata={"namespace": "shop"}))
    found = condition_in(node.world, "uid-web")
    assert found is not None
    assert len(found[1].message.encode()) <= NOTE_LIMIT
    assert found[1].message.endswith("...")
