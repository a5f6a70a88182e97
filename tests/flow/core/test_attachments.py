"""A pip-installed driver of `csi` whose volumes a controller attaches: names, VolumeAttachments, and who waits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.flow.core.probes import DISK_FACETS, Disk, Script, claim_of, storage
from volmgr.config import Config
from volmgr.errors import UncertainError
from volmgr.messages import NodeStatusRead
from volmgr.model.meta import ObjectMeta, ObjectRef
from volmgr.model.names import attachment_of
from volmgr.model.objects import MANAGED, AttachedVolume, Node, VolumeAttachment
from volmgr.plugin import (
    Attached,
    Handles,
    Host,
    Objects,
    Pod,
    Reference,
    VolumeSpec,
    WaitForAttach,
    Where,
    attachment_name,
    csi_volume_name,
    hookimpl,
)
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

DRIVER, HANDLE, NODE = "disk.example.com", "d1", "n1"
DISK = "kubernetes.io/csi/disk.example.com^d1"
ATTACHMENT = ObjectRef("VolumeAttachment", "", attachment_name(DRIVER, HANDLE, NODE))
FOUND = "/dev/loop7"
"""What the type finds attached; the node's status says nothing of it, as ever with `csi`."""
WEB = pod("web", claim_of("data", "d1"), uid="u-web")
SECRET = ObjectRef("Secret", "default", "to-attach")
KINDS = ("PersistentVolumeClaim", "PersistentVolume", "VolumeAttachment", "Secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiSource:
    """What the type reads of `csi`."""

    volume_handle: str


class CsiDisk(Disk):
    """A driver: its volumes have a VolumeAttachment where a controller attaches them."""

    name = "example.com/disk"
    handles = (Handles("csi", driver=DRIVER, where=Where.PV, source=CsiSource),)

    def volume_name(self, spec: VolumeSpec[Any]) -> str:
        return csi_volume_name(DRIVER, spec.source.volume_handle)

    def references(self, spec: VolumeSpec[Any], pod: Pod) -> tuple[Reference, ...]:
        del pod
        return (Reference(replace(ATTACHMENT, name=attachment_name(DRIVER, spec.source.volume_handle, NODE))),)

    def wait_for_attach(self, request: WaitForAttach[Any], host: Host) -> Attached:
        super().wait_for_attach(request, host)
        return Attached(device_path=FOUND)

    def device_target(self, spec: VolumeSpec[Any], host: Host) -> Path:
        return host.paths.plugin(self.name) / str(spec.source.volume_handle)


class Misnamed(CsiDisk):
    """Knows its volumes by a name of its own."""

    def volume_name(self, spec: VolumeSpec[Any]) -> str:
        return str(spec.source.volume_handle)


def served(host: FakeHost, disk: Disk, config: Config) -> TestNode:
    """Give a node of a cluster that has a Pod, its claim and its volume."""
    node = TestNode(host, plugins_of(disk), config, fetched_kinds=KINDS)
    node.sources_ready()
    volume, claim = storage("d1", source={"csi": {"driver": DRIVER, "volumeHandle": HANDLE}})
    node.serve(volume, claim, WEB)
    return node


@pytest.fixture
def node(host: FakeHost, disk_script: Script) -> TestNode:
    return served(host, CsiDisk(disk_script), Config(controller_attach=True, node_name=NODE))


def hear(node: TestNode, *attached: str) -> None:
    """Let the node's status say that the disk is in use, and that these are attached."""
    said = Node(
        metadata=ObjectMeta(name=NODE, annotations={MANAGED: "true"}),
        volumes_attached=tuple(AttachedVolume(name=name) for name in attached),
        volumes_in_use=(DISK,),
    )
    node.reconciler.post(NodeStatusRead(said))
    node.settle()


def attachment(**status: object) -> dict[str, Any]:
    """Give the VolumeAttachment, with a status."""
    source = {"persistentVolumeName": "pv-d1"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": ATTACHMENT.name},
        "spec": {"attacher": DRIVER, "nodeName": NODE, "source": source},
        "status": status,
    }


def text_of(node: TestNode) -> str:
    (report,) = why(node.world, "web")
    return report.text


def test_names_are_those_that_kubelet_and_controllers_give(node: TestNode) -> None:
    assert ATTACHMENT.name == f"csi-{sha256(b'd1disk.example.comn1').hexdigest()}"
    assert attachment_of(DISK, NODE) == ATTACHMENT.name
    assert attachment_of("kubernetes.io/nfs/a^b", NODE) == ""
    assert attachment_of("kubernetes.io/csi/unnamed", NODE) == ""
    hear(node)
    assert node.in_use == [(DISK,)]
    assert ATTACHMENT in node.referred


class SecretDisk(CsiDisk):
    """Needs a Secret by which it is attached."""

    def references(self, spec: VolumeSpec[Any], pod: Pod) -> tuple[Reference, ...]:
        return (*super().references(spec, pod), Reference(SECRET, attaching=True))


def test_what_only_attaching_needs_is_nobody_s_where_a_controller_attaches(host: FakeHost, disk_script: Script) -> None:
    node = served(host, SecretDisk(disk_script), Config(controller_attach=True, node_name=NODE))
    hear(node, DISK)
    node.serve(attachment(attached=True))
    assert node.is_mounted("web"), text_of(node)
    assert SECRET not in node.referred


def test_what_only_attaching_needs_is_waited_for_where_the_node_attaches(host: FakeHost, disk_script: Script) -> None:
    node = served(host, SecretDisk(disk_script), Config(controller_attach=False, node_name=NODE))
    assert (node.is_mounted("web"), disk_script.calls) == (False, [])
    assert SECRET in node.referred
    node.serve({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET.name}})
    assert node.is_mounted("web"), text_of(node)
    assert SECRET in disk_script.last("attach").objects


def test_a_volume_is_mounted_when_its_attachment_was_read_too_and_is_handed_it(
    node: TestNode, disk_script: Script
) -> None:
    hear(node, DISK)
    assert disk_script.calls == []
    assert "it is being read from the API server" in text_of(node)
    node.serve(attachment(attached=False))
    assert disk_script.calls == []
    assert f"{DRIVER} has not attached it to {NODE} yet" in text_of(node)
    node.serve(attachment(attached=True, attachmentMetadata={"device": "xvdb"}))
    assert node.is_mounted("web")
    handed: Objects = disk_script.last("mount_device").objects
    found = handed[ATTACHMENT]
    assert isinstance(found, VolumeAttachment)
    assert found.attachment_metadata == {"device": "xvdb"}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"message": "no such disk"}, f"{DRIVER} failed to attach it: no such disk"),
        ({"message": "16 of 16", "errorCode": 8}, "VolumeAttachLimitExceeded: the node has as many volumes of"),
    ],
)
def test_what_kept_a_controller_from_attaching_is_said_beside_that_it_has_not(
    node: TestNode, error: dict[str, object], text: str
) -> None:
    hear(node)
    node.serve(attachment(attached=False, attachError=error))
    assert text in text_of(node)
    assert f"volume {DISK} is not yet in node's status" in text_of(node)
    assert str(error["message"]) in text_of(node)


class Audience:
    """A package that hears of drivers for whose volumes the node has no room."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl
    def volmgr_attach_limit_reached(self, driver: str) -> None:
        self.heard.append(driver)


def test_packages_hear_that_the_node_has_less_room_than_its_driver_said(node: TestNode) -> None:
    audience = Audience()
    node.plugins.registration.register(audience)
    hear(node)
    node.serve(attachment(attached=False, attachError={"message": "no such disk", "errorCode": 5}))
    assert audience.heard == []
    for message in ("16 of 16", "still 16 of 16"):
        node.serve(attachment(attached=False, attachError={"message": message, "errorCode": 8}))
    assert audience.heard == [DRIVER, DRIVER]


def test_a_mounted_volume_stays_when_its_attachment_goes(node: TestNode, disk_script: Script) -> None:
    hear(node, DISK)
    node.serve(attachment(attached=True))
    disk_script.forget()
    node.serve_no_more(attachment())
    node.serve(attachment(attached=False))
    assert disk_script.calls == []
    assert node.is_mounted("web")


def test_where_nobody_else_attaches_no_attachment_is_asked_for(host: FakeHost, disk_script: Script) -> None:
    node = served(host, CsiDisk(disk_script), Config(controller_attach=False, node_name=NODE))
    assert disk_script.calls[0] == "attach"
    assert node.is_mounted("web")
    assert ATTACHMENT not in node.referred


def test_a_volume_that_its_driver_does_not_attach_needs_none(host: FakeHost, disk_script: Script) -> None:
    disk_script.facets = replace(DISK_FACETS, attach=False)
    node = served(host, CsiDisk(disk_script), Config(controller_attach=True, node_name=NODE))
    hear(node)
    assert node.is_mounted("web")
    assert ATTACHMENT not in node.referred


def test_a_driver_that_names_its_volumes_otherwise_than_controllers_is_told_how(
    host: FakeHost, disk_script: Script
) -> None:
    node = served(host, Misnamed(disk_script), Config(controller_attach=True, node_name=NODE))
    assert "gave 'd1', but a controller knows the volume as 'disk.example.com^d1'" in text_of(node)
    assert disk_script.calls == []


def test_the_device_that_a_type_found_is_known_after_a_restart_though_no_status_says_it(
    node: TestNode, disk_script: Script
) -> None:
    hear(node, DISK)
    disk_script.fail("mount_device", UncertainError("it hangs"))
    node.serve(attachment(attached=True))
    assert disk_script.last("mount_device").device_path == FOUND
    node.start()
    node.serve_no_more(WEB)
    node.sources_ready()
    hear(node, DISK)
    assert disk_script.last("unmount_device").device_path == FOUND
