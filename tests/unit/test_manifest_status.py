"""What `status` says: it counts when an API server keeps the object, and is nobody's word in a file."""

from collections.abc import Mapping
from typing import Any

import pytest

from volmgr.manifest import parse, read_object, recall
from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import Node, VolumeAttachment
from volmgr.model.pod import Pod
from volmgr.model.schema import SchemaError, Unknown

ATTACHMENT: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "VolumeAttachment",
    "metadata": {"name": "csi-1"},
    "spec": {"attacher": "csi.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "pv1"}},
    "status": {
        "attached": True,
        "attachmentMetadata": {"device": "/dev/sdx"},
        "attachError": {"time": "2026-01-01T00:00:00Z", "message": "no such disk", "errorCode": 5},
        "detachError": {"message": "busy"},
    },
}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED = {"terminated": {"exitCode": 0}}


def pod(status: object) -> dict[str, Any]:
    """Give a Pod with this status."""
    containers = [{"name": "web", "image": "web"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}} | {
        "status": status
    }


def running(document: Mapping[str, object], *, status: bool = True) -> tuple[str, ...]:
    """Give the containers that run, as an object of an API server says, or as a file does."""
    found = read_object(document, unknown=Unknown.ALLOW, status=status)
    assert isinstance(found, Pod)
    return found.status.running


def test_an_attachment_of_an_api_server_says_whether_it_is_made_and_what_went_wrong() -> None:
    assert read_object(ATTACHMENT, status=True) == VolumeAttachment(
        metadata=ObjectMeta(name="csi-1", namespace="default"),
        attacher="csi.example.com",
        node_name="n1",
        pv_name="pv1",
        attached=True,
        attachment_metadata={"device": "/dev/sdx"},
        attach_error="no such disk",
        error_code=5,
    )


def test_a_file_s_word_for_an_attachment_does_not_count() -> None:
    found = read_object(ATTACHMENT)
    assert isinstance(found, VolumeAttachment)
    assert (found.attacher, found.attached, dict(found.attachment_metadata), found.error_code) == (
        "csi.example.com",
        False,
        {},
        None,
    )


def test_an_attachment_names_who_attaches_and_where() -> None:
    with pytest.raises(SchemaError, match=r"spec\.attacher"):
        read_object({**ATTACHMENT, "spec": {"nodeName": "n1", "source": {}}})


def test_running_containers_are_named_whatever_kind_they_are_of() -> None:
    status: dict[str, Any] = {
        "phase": "Running",
        "initContainerStatuses": [{"name": "setup", "state": ENDED}, {"name": "proxy", "state": RUNNING}],
        "containerStatuses": [{"name": "web", "state": RUNNING}, {"name": "job", "state": {"waiting": {}}}],
        "ephemeralContainerStatuses": [{"name": "debugger", "state": RUNNING}],
    }
    assert running(pod(status)) == ("proxy", "web", "debugger")
    assert running(pod(status), status=False) == ()


NONE_RUNS: list[dict[str, Any]] = [
    {},
    {"containerStatuses": None},
    {"containerStatuses": "web"},
    {"containerStatuses": ["web", {"name": "web"}, {"name": "web", "state": None}]},
    {"containerStatuses": [{"name": "web", "state": {"running": None, "terminated": {}}}]},
]


@pytest.mark.parametrize("status", NONE_RUNS)
def test_a_status_that_names_no_running_container_has_none(status: object) -> None:
    assert running(pod(status)) == ()


def test_a_file_names_running_containers_in_vain() -> None:
    parsed = parse(
        b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name":'
        b' "web"}]}, "status": {"containerStatuses": [{"name": "web", "state": {"running": {}}}]}}',
        "p.json",
    )
    (item,) = parsed.items
    assert isinstance(item.value, Pod)
    assert item.value.status.running == ()


def test_what_a_node_s_status_says_is_recalled_from_the_record_of_a_server_s_object_alone() -> None:
    raw = (
        b'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"volumesInUse": ["a"],'
        b' "volumesAttached": [{"name": "a", "devicePath": "/dev/sda"}]}}'
    )
    kept, other = recall(raw, status=True), recall(raw)
    assert isinstance(kept, Node)
    assert isinstance(other, Node)
    assert (kept.volumes_in_use, kept.volumes_attached[0].device_path) == (("a",), "/dev/sda")
    assert (other.volumes_in_use, other.volumes_attached) == ((), ())
