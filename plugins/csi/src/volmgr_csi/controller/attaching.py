"""Attaching where no controller does: the driver's own controller service is asked, and a record goes ahead.

Source: external-attacher, which does this in a cluster. Behaviour of errors: `behaviours.md` §4.11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from volmgr.plugin import Attached, Detached, ObjectRef, OperationError, VolumeAttachment, attachment_name
from volmgr_csi import checkpoints
from volmgr_csi.checkpoints import Checkpoints
from volmgr_csi.controller.validating import objection
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.deadline import seconds
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.driver.secrets import secrets, secrets_left
from volmgr_csi.driver.service_capabilities import PUBLISH_READONLY, PUBLISH_UNPUBLISH_VOLUME, SINGLE_NODE_MULTI_WRITER
from volmgr_csi.settings import NAME

if TYPE_CHECKING:
    from pathlib import Path

    from volmgr.plugin import Attach, CsiSource, Detach, Host, Objects, VolmgrError
    from volmgr_csi.driver.drivers import Driver
    from volmgr_csi.v1 import csi_pb2 as csi

_OF_THE_MANIFEST = frozenset({"INVALID_ARGUMENT", "FAILED_PRECONDITION", "ALREADY_EXISTS", "INTERNAL", "UNKNOWN"})
"""Codes of an attach by which a driver may say that a volume cannot be used so."""
ATTACHING, ATTACHED, DETACHING = "attaching", "attached", "detaching"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A volume that is, or may be, attached to the node by its driver's name for it; never a secret."""

    driver: str
    handle: str
    node_id: str
    state: str
    publish_context: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What the driver wants to be told when the volume is staged and published."""
    secret_namespace: str = ""
    secret_name: str = ""
    """Which Secret it was attached with."""


class Attachments:
    """The records, by the name that a cluster's VolumeAttachment would have."""

    def __init__(self, host: Host) -> None:
        """Use the host's files."""
        self._checkpoints = Checkpoints(host, "attachments")

    def find(self, name: str) -> Attachment | None:
        """Give a record; None when it is missing or damaged."""
        body = self._checkpoints.read(name)
        if body is None or not (checkpoints.text(body, "driver") and checkpoints.text(body, "handle")):
            return None
        return Attachment(
            driver=checkpoints.text(body, "driver"),
            handle=checkpoints.text(body, "handle"),
            node_id=checkpoints.text(body, "node_id"),
            state=checkpoints.text(body, "state"),
            publish_context=checkpoints.texts(body, "publish_context"),
            secret_namespace=checkpoints.text(body, "secret_namespace"),
            secret_name=checkpoints.text(body, "secret_name"),
        )

    def is_damaged(self, name: str) -> bool:
        """Say whether there is a record that cannot be read."""
        return self._checkpoints.has(name) and self.find(name) is None

    def damaged(self) -> tuple[Path, ...]:
        """Name the records that cannot be read: of which volume they are, nobody knows."""
        return tuple(self._checkpoints.path(name) for name in self._checkpoints.names() if self.is_damaged(name))

    def of(self, driver: str, handle: str) -> tuple[Attachment, ...]:
        """Give the attachments of a volume."""
        every = map(self.find, self._checkpoints.names())
        return tuple(each for each in every if each is not None and (each.driver, each.handle) == (driver, handle))

    def put(self, name: str, attachment: Attachment) -> None:
        """Write a record; raises OperationError."""
        self._checkpoints.write(
            name,
            {
                "driver": attachment.driver,
                "handle": attachment.handle,
                "node_id": attachment.node_id,
                "state": attachment.state,
                "publish_context": dict(attachment.publish_context),
                "secret_namespace": attachment.secret_namespace,
                "secret_name": attachment.secret_name,
            },
        )

    def remove(self, name: str) -> None:
        """Remove a record; raises OperationError."""
        self._checkpoints.remove(name)


def attach(request: Attach[CsiSource], host: Host, driver: Driver) -> Attached:
    """Let a driver attach a volume to this node; nothing is to be done where its controller service cannot, or is none.

    Raises TransientError for a missing Secret, and what `CallError.as_outcome` gives.
    """
    if PUBLISH_UNPUBLISH_VOLUME not in driver.controller:
        return Attached()
    source = request.spec.source
    name = attachment_name(source.driver, source.volume_handle, request.node_name)
    reference = source.controller_publish_secret_ref
    told = secrets(reference, request.objects, f"attaching the volume {source.volume_handle} of {source.driver}")
    question = _question(request, driver, told)
    records = Attachments(host)
    before = records.find(name)
    if before is not None and before.node_id != driver.info.node_id:  # it was another machine to the driver then
        _leave(before, host, driver, told, request.deadline)
        before = None
    now = Attachment(
        driver=source.driver,
        handle=source.volume_handle,
        node_id=driver.info.node_id,
        state=ATTACHING,
        publish_context=before.publish_context if before else {},
        secret_namespace=reference.namespace if reference else "",
        secret_name=reference.name if reference else "",
    )
    if before is None or before.state != ATTACHED:
        records.put(name, now)
    try:
        context = _publish(question, host, driver, request.deadline)
    except CallError as error:
        if error.code == "RESOURCE_EXHAUSTED":  # what it said of its limit does not hold any more
            drivers_of(host).refresh(driver.name)
        if error.is_final and before is None:
            records.remove(name)
        raise _explained(error, question, request, host, driver) from error
    after = replace(now, state=ATTACHED, publish_context=context)
    if after != before:
        records.put(name, after)
    return Attached()


def detach(request: Detach, host: Host) -> Detached:
    """Let a driver detach a volume from this node; one that it does not know any more is detached.

    Without the Secret that it was attached with, the driver is asked without. Raises TransientError while the driver is
    not there, and what `CallError.as_outcome` gives.
    """
    driver_name, _, handle = request.volume.removeprefix(f"{NAME}/").partition("^")
    name = attachment_name(driver_name, handle, request.node_name)
    records = Attachments(host)
    record = records.find(name)
    known = drivers_of(host)
    if record is None:
        driver = known.unmaking(driver_name) if records.is_damaged(name) else known.find(driver_name)
        if driver is None or PUBLISH_UNPUBLISH_VOLUME not in driver.controller:
            records.remove(name)
            return Detached()  # each attachment of ours has a record ahead of it
        record = Attachment(driver=driver_name, handle=handle, node_id=driver.info.node_id, state=ATTACHED)
    driver = known.unmaking(record.driver)
    records.put(name, replace(record, state=DETACHING))
    secret = ObjectRef("Secret", record.secret_namespace, record.secret_name)
    told = secrets_left(secret, request.objects)
    _leave(record, host, driver, told, request.deadline)
    records.remove(name)
    return Detached()


def check_detached(volume: str, driver: Driver, handle: str, host: Host) -> None:
    """Raise OperationError for a volume that is, or may be, attached to this node."""
    attachments = Attachments(host)
    attached = attachments.of(driver.name, handle)
    if attached:
        where = f"{attached[0].node_id}; it is deleted once that is detached"
        raise OperationError(f"PersistentVolume {volume} is still attached to {where}")
    damaged = attachments.damaged() if PUBLISH_UNPUBLISH_VOLUME in driver.controller else ()
    if damaged:
        remedy = "restore it, or remove it once the driver's side says that the volume is attached nowhere"
        raise OperationError(f"PersistentVolume {volume} may still be attached: {damaged[0]} cannot be read; {remedy}")


def publish_context(driver: str, handle: str, node_name: str, objects: Objects, host: Host) -> Mapping[str, str]:
    """Give what the driver wants to be told of an attachment: by a cluster's VolumeAttachment, else by our record."""
    name = attachment_name(driver, handle, node_name)
    attachment = objects.get(ObjectRef("VolumeAttachment", "", name))
    if isinstance(attachment, VolumeAttachment):
        return attachment.attachment_metadata
    record = Attachments(host).find(name)
    return record.publish_context if record else {}


def _question(
    request: Attach[CsiSource], driver: Driver, told: Mapping[str, str]
) -> csi.ControllerPublishVolumeRequest:
    from volmgr_csi.driver.volume_capability import access_of, capability
    from volmgr_csi.v1 import csi_pb2 as csi

    spec, source = request.spec, request.spec.source
    access = access_of(spec.access_modes, multi_writer=SINGLE_NODE_MULTI_WRITER in driver.controller)
    return csi.ControllerPublishVolumeRequest(
        volume_id=source.volume_handle,
        node_id=driver.info.node_id,
        volume_capability=capability(spec.mode, access, fs_type=source.fs_type, flags=spec.mount_options),
        readonly=source.read_only and PUBLISH_READONLY in driver.controller,  # else CSI forbids to ask for it
        secrets=told,
        volume_context=source.volume_attributes,
    )


def _explained(
    error: CallError,
    question: csi.ControllerPublishVolumeRequest,
    request: Attach[CsiSource],
    host: Host,
    driver: Driver,
) -> VolmgrError:
    """Give the error of an attach, with what the driver has against the volume, where that may be why."""
    if error.code not in _OF_THE_MANIFEST:
        return error.as_outcome()
    capability, told = question.volume_capability, question.secrets
    why = objection(driver, request.spec.source, capability, told, host, request.deadline)
    return OperationError(f"{error}{why}")


def _publish(
    question: csi.ControllerPublishVolumeRequest, host: Host, driver: Driver, deadline: float
) -> Mapping[str, str]:
    from volmgr_csi.driver.methods import ATTACH

    answer = driver.connection.call(ATTACH, question, seconds(host, deadline))
    return dict(answer.publish_context)


def _leave(attachment: Attachment, host: Host, driver: Driver, told: Mapping[str, str], deadline: float) -> None:
    from volmgr_csi.driver.methods import DETACH
    from volmgr_csi.v1 import csi_pb2 as csi

    question = csi.ControllerUnpublishVolumeRequest(
        volume_id=attachment.handle, node_id=attachment.node_id, secrets=told
    )
    try:
        driver.connection.call(DETACH, question, seconds(host, deadline))
    except CallError as error:
        if error.code != "NOT_FOUND":
            raise error.as_outcome() from error
