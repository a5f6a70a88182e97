"""VolumeAttachments: read when a volume has been attached, whatever was read of an earlier one of that name."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.unit.kube.memory_api import MemoryApi
from tests.unit.kube.turned_thread import TurnedThread
from volmgr.kube.following import Surroundings
from volmgr.kube.intake import Intake
from volmgr.kube.node import OwnNode
from volmgr.kube.referred import ReferredObjects
from volmgr.kube.resources import ATTACHMENTS, NODES
from volmgr.kube.wire import Seen, seen_of
from volmgr.messages import Message, NodeStatusRead
from volmgr.model.kube import KubeSettings
from volmgr.model.meta import ObjectRef
from volmgr.model.names import attachment_of
from volmgr.model.objects import VolumeAttachment
from volmgr.plugins import Plugins
from volmgr.sources.changes import Change, ObjectAwaited, ObjectChanged, ObjectLeft
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost

DISK, OTHER = "kubernetes.io/csi/disk.example.com^d1", "kubernetes.io/csi/disk.example.com^d2"
ATTACHMENT = ObjectRef("VolumeAttachment", "", attachment_of(DISK, "n1"))
SETTINGS = KubeSettings()


class Site:
    """A server, what follows objects on it, and what was told of them."""

    def __init__(self) -> None:
        self.api = MemoryApi()
        self.thread = TurnedThread()
        self.told: list[str] = []
        host = FakeHost()
        registry = Registry(host.files, host.paths, self.hear, binds_claims=False)
        intake = Intake(registry, Plugins())
        around = Surroundings(self.thread, self.api, SETTINGS, intake, registry, jitter=lambda: 1.0)
        self.references = ReferredObjects(around, lambda: None)

    def hear(self, change: Change) -> None:
        match change:
            case ObjectChanged(item=VolumeAttachment() as item):
                self.told.append(f"attached: {item.attached} {item.attachment_metadata.get('device', '')}".strip())
            case ObjectLeft():
                self.told.append("left")
            case ObjectAwaited():
                self.told.append("awaited")
            case _:
                raise AssertionError(change)

    def put(self, *, attached: bool, device: str = "") -> None:
        """Let there be the attachment."""
        status = {"attached": attached, "attachmentMetadata": {"device": device} if device else {}}
        spec = {"attacher": "disk.example.com", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}}
        document = {"metadata": {"name": ATTACHMENT.name, "uid": "u"}, "spec": spec, "status": status}
        self.api.put(ATTACHMENTS.path(name=ATTACHMENT.name), document)

    def renew(self) -> None:
        self.references.renew([ATTACHMENT, ObjectRef("VolumeAttachment", "", "nobody's")])


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    made.put(attached=False)
    made.references.refer([ATTACHMENT], [])
    yield made
    made.references.stop()
    made.thread.stop()


def test_one_that_was_made_anew_is_asked_for_at_once_and_the_old_one_counts_no_more(site: Site) -> None:
    site.put(attached=True, device="xvdb")
    site.thread.settle()
    site.put(attached=True, device="xvdc")
    site.renew()
    assert site.told == ["attached: True xvdb", "left"]
    site.thread.settle()
    assert site.told[2:] == ["attached: True xvdc"]


def test_what_was_asked_before_it_was_made_anew_is_not_heard(site: Site) -> None:
    site.thread.send()
    site.put(attached=True, device="xvdb")
    site.renew()
    site.thread.hear()
    assert site.told == []
    site.thread.settle()
    assert site.told == ["attached: True xvdb"]
    asked = len(site.api.requests)
    site.thread.pass_time(SETTINGS.object_lifetime + 1)
    assert len(site.api.requests) == asked + 1, "of two answers, one asks again"


def test_a_pause_is_not_waited_for(site: Site) -> None:
    site.thread.settle()
    site.thread.pass_time(SETTINGS.await_max)
    site.put(attached=True)
    site.renew()
    site.thread.settle()
    assert site.told[-1] == "attached: True"


def node(version: int, *attached: str, path: str = "") -> Seen:
    volumes = [{"name": name, "devicePath": path} for name in attached]
    metadata = {"name": "n1", "uid": "u", "resourceVersion": str(version)}
    document = {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": metadata}
    return seen_of(json.dumps(document | {"status": {"volumesAttached": volumes}}).encode())


def test_what_a_status_lists_anew_is_told_before_that_status() -> None:
    thread, told = TurnedThread(), list[str]()

    def post(message: Message) -> None:
        assert isinstance(message, NodeStatusRead)
        told.append(f"status with {len(message.node.volumes_attached)}")

    own = OwnNode(
        thread,
        MemoryApi(),
        SETTINGS,
        "n1",
        post,
        attached=lambda volumes: told.append(" ".join(volumes)),
        controller_attach=True,
    )
    for seen in (node(1, DISK), node(2, DISK, OTHER), node(3, DISK, OTHER), node(4, OTHER), node(5, DISK, OTHER)):
        own.changed(seen)
    own.changed(node(6, DISK, path="/dev/xvdb"))
    own.changed(node(5, DISK, OTHER))  # a watch that lags behind
    thread.stop()
    anew = [OTHER, "status with 2", "status with 2", "status with 1", DISK, "status with 2", DISK, "status with 1"]
    assert told == ["status with 1", *anew, "status with 1"]
