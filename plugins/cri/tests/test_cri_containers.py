"""Which containers keep a Pod's volumes, and which events are about an end."""

from __future__ import annotations

import pytest

from volmgr_cri.containers import POD_UID_LABEL, is_of, pod_that_ended, who_runs
from volmgr_cri.v1 import api_pb2 as cri


def container(name: str, state: cri.ContainerState, number: int = 0) -> cri.Container:
    return cri.Container(id=f"{name}-{number}", metadata=cri.ContainerMetadata(name=name), state=state)


def test_nobody_runs_a_pod_without_containers_or_with_such_that_have_ended() -> None:
    assert who_runs("containerd", []) is None
    assert who_runs("containerd", [container("web", cri.CONTAINER_EXITED)]) is None


def test_each_container_that_may_use_a_volume_is_named_with_its_state() -> None:
    said = who_runs(
        "cri-o",
        [
            container("web", cri.CONTAINER_RUNNING),
            container("web", cri.CONTAINER_EXITED, 1),
            container("late", cri.CONTAINER_CREATED),
            container("lost", cri.CONTAINER_UNKNOWN),
        ],
    )
    assert said == ("cri-o says that late is created and may start, lost is in a state that it does not know, web runs")


def test_a_container_that_is_listed_twice_or_has_no_name_is_said_once() -> None:
    twice = container("web", cri.CONTAINER_RUNNING)
    nameless = cri.Container(id="c1", state=cri.CONTAINER_RUNNING)
    assert who_runs("containerd", [twice, twice, nameless]) == "containerd says that c1 runs, web runs"


def test_a_sandbox_is_known_by_its_metadata_or_its_label() -> None:
    assert is_of(cri.PodSandbox(metadata=cri.PodSandboxMetadata(uid="u1")), "u1")
    assert is_of(cri.PodSandbox(labels={POD_UID_LABEL: "u1"}), "u1")
    assert not is_of(cri.PodSandbox(labels={"uid": "u1"}), "u1")


@pytest.mark.parametrize(
    ("kind", "ended"),
    [
        (cri.CONTAINER_STOPPED_EVENT, True),
        (cri.CONTAINER_DELETED_EVENT, True),
        (cri.CONTAINER_CREATED_EVENT, False),
        (cri.CONTAINER_STARTED_EVENT, False),
    ],
)
def test_an_end_names_its_pod_by_metadata_or_label_or_not_at_all(kind: cri.ContainerEventType, *, ended: bool) -> None:
    event = cri.ContainerEventResponse(container_id="c", container_event_type=kind)
    assert pod_that_ended(event) == ("" if ended else None)
    event.pod_sandbox_status.labels[POD_UID_LABEL] = "u1"
    assert pod_that_ended(event) == ("u1" if ended else None)
    event.pod_sandbox_status.metadata.uid = "u2"
    assert pod_that_ended(event) == ("u2" if ended else None)
