"""What claims say of the growth of their volumes: as kubelet would, of that claim, and nothing over a later word."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from typing import Any

import msgspec
import pytest

from tests.unit.kube.memory_api import MemoryApi
from tests.unit.kube.turned_thread import TurnedThread
from volmgr.kube.claim_growth import ClaimGrowths, Status, change
from volmgr.kube.errors import ApiError
from volmgr.model.growth import Growth, GrowthStep
from volmgr.model.kube import KubeSettings
from volmgr.model.meta import ObjectRef

START = 1_700_000_000.0
NOW = "2023-11-14T22:13:20Z"
PATH = "/api/v1/namespaces/shop/persistentvolumeclaims/orders"
GIB = 1 << 30
RESIZING = {"type": "FileSystemResizePending", "status": "True"}
OTHER = {"type": "VolumeModifyError", "status": "True"}
FAILURE = {
    "type": "NodeResizeError",
    "status": "True",
    "lastTransitionTime": NOW,
    "message": "failed to expand pvc with no room",
}


def growth(step: GrowthStep, size: int = 2 * GIB, error: str = "") -> Growth:
    ref = ObjectRef("PersistentVolumeClaim", "shop", "orders")
    return Growth(claim=ref, uid="uid-orders", size=size, step=step, error=error)


def pending(status: str = "NodeResizePending", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Give the status of a claim whose volume a controller has grown to 2 GiB."""
    sizes = {"capacity": {"storage": "1Gi"}, "allocatedResources": {"storage": "2Gi"}}
    return {**sizes, "allocatedResourceStatuses": {"storage": status}, "conditions": [RESIZING, OTHER], **more}


FAILED = growth(GrowthStep.FAILED, error="no room")
INFEASIBLE = growth(GrowthStep.INFEASIBLE, error="no room")
FURTHER: dict[str, Any] = {"allocatedResources": {"storage": "3Gi"}}
IN_PROGRESS = {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}


@pytest.mark.parametrize(
    ("status", "told", "changed"),
    [
        (pending(), growth(GrowthStep.BEGUN), IN_PROGRESS),
        (pending("NodeResizeInProgress"), growth(GrowthStep.BEGUN), {}),
        (pending("ControllerResizeInProgress", **FURTHER), growth(GrowthStep.BEGUN), {}),
        (
            pending("NodeResizeInProgress", conditions=[RESIZING, OTHER, FAILURE]),
            growth(GrowthStep.DONE),
            {"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": None}, "conditions": [OTHER]},
        ),
        (pending(**FURTHER), growth(GrowthStep.DONE), {"capacity": {"storage": "2Gi"}}),
        ({"capacity": {"storage": "2Gi"}, "conditions": [OTHER]}, growth(GrowthStep.DONE), {}),
        ({"capacity": {"storage": "3Gi"}}, growth(GrowthStep.DONE), {}),
        (pending(), FAILED, {"conditions": [RESIZING, OTHER, FAILURE]}),
        (pending(conditions=[FAILURE]), FAILED, {}),
        (
            pending(conditions=[{**FAILURE, "lastTransitionTime": "earlier", "message": "another"}]),
            FAILED,
            {"conditions": [{**FAILURE, "lastTransitionTime": "earlier"}]},
        ),
        (
            pending("NodeResizeInProgress", conditions=[]),
            INFEASIBLE,
            {"allocatedResourceStatuses": {"storage": "NodeResizeInfeasible"}, "conditions": [FAILURE]},
        ),
        (pending("NodeResizeInfeasible", conditions=[FAILURE]), INFEASIBLE, {}),
        (pending("ControllerResizeInProgress", **FURTHER), INFEASIBLE, {}),
    ],
)
def test_a_status_is_changed_as_far_as_it_says_something_else(
    status: Mapping[str, Any], told: Growth, changed: Mapping[str, Any]
) -> None:
    assert change(msgspec.convert(status, Status), told, NOW) == changed


class Site:
    """A server with a claim, and who says what it says."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.api.put(PATH, {"metadata": {"name": "orders", "uid": "uid-orders"}, "status": pending()})
        self.thread = TurnedThread(START)
        self.growths = ClaimGrowths(self.thread, self.api, KubeSettings(), wall=self.thread.clock)

    def say(self, *told: Growth) -> None:
        for each in told:
            self.growths.say(each)
        self.thread.settle()

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.api.objects[PATH]["status"])


@pytest.fixture
def site() -> Generator[Site]:
    made = Site()
    yield made
    made.thread.stop()


def test_a_claim_has_its_new_capacity_and_nothing_more_to_be_done(site: Site) -> None:
    site.say(growth(GrowthStep.BEGUN))
    assert site.status["allocatedResourceStatuses"] == {"storage": "NodeResizeInProgress"}
    site.say(growth(GrowthStep.DONE))
    assert site.status["capacity"] == {"storage": "2Gi"}
    assert site.status["allocatedResourceStatuses"] == {}
    assert site.status["conditions"] == [OTHER]
    assert {path for path, _ in site.api.asked("PATCH")} == {f"{PATH}/status"}


def test_of_many_words_the_last_one_counts(site: Site) -> None:
    site.say(growth(GrowthStep.BEGUN), FAILED, growth(GrowthStep.DONE), growth(GrowthStep.DONE))
    assert site.status["capacity"] == {"storage": "2Gi"}
    assert site.status["conditions"] == [OTHER]
    assert len(site.api.asked("GET")) == 2


def test_another_claim_of_that_name_is_left_alone(site: Site) -> None:
    site.api.put(PATH, {"metadata": {"name": "orders", "uid": "uid-new"}, "status": pending()})
    site.say(growth(GrowthStep.DONE))
    assert site.api.asked("PATCH") == []


def test_a_claim_that_is_gone_is_told_nothing(site: Site) -> None:
    del site.api.objects[PATH]
    site.say(growth(GrowthStep.DONE))
    site.thread.pass_time(3600)
    assert len(site.api.asked("GET")) == 1


def test_what_another_wrote_meanwhile_is_read_again(site: Site) -> None:
    def write(_path: str) -> None:
        site.api.after_get = None
        site.api.put(PATH, {**site.api.objects[PATH], "status": pending(**FURTHER)})

    site.api.after_get = write
    site.say(growth(GrowthStep.DONE))
    site.thread.pass_time(10)
    assert site.status == pending(**FURTHER, capacity={"storage": "2Gi"})


def test_it_is_told_once_the_server_lets_it(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    site.api.refuse(ApiError("persistentvolumeclaims/status is forbidden", status=403, reason="Forbidden"))
    site.say(growth(GrowthStep.DONE))
    site.thread.pass_time(600)
    assert len(caplog.messages) == 1
    assert "the status of claim shop/orders" in caplog.messages[0]
    site.api.refuse(None)
    site.thread.pass_time(600)
    assert site.status["capacity"] == {"storage": "2Gi"}
