"""Publishing: a driver makes a volume ready for one Pod, and takes it back.

Source: `behaviours.md` §4.11, which is `csi_mounter.go` and `csi_block.go` of kubelet 1.37.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from volmgr.plugin import (
    DeviceLostError,
    Mounted,
    OperationError,
    Unmounted,
    VolumeMode,
    taken_back,
    uncertain_if_it_fails,
)
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.deadline import seconds
from volmgr_csi.driver.paths import seen_by
from volmgr_csi.driver.secrets import secrets_of
from volmgr_csi.node import attributes, call_records, cleanup, layout, mount_check, vol_data
from volmgr_csi.node.attributes import Told
from volmgr_csi.node.identification import identify
from volmgr_csi.node.layout import Place
from volmgr_csi.node.mount_check import is_there
from volmgr_csi.node.staging import context_of, restage_if_dead, serving, was_done
from volmgr_csi.node.vol_data import EPHEMERAL, PERSISTENT, VolData
from volmgr_csi.node.volume_spec import gives_to_group, is_inline, kubelet_name, publish_secret
from volmgr_csi.settings import CsiSettings

if TYPE_CHECKING:
    from volmgr.plugin import CSIDriver, CsiSource, Host, Mount, Notice, Unmount
    from volmgr_csi.driver.drivers import Driver
    from volmgr_csi.node.call_records import CallRecord
    from volmgr_csi.v1 import csi_pb2 as csi

_log = logging.getLogger(__name__)
_NOT_STAGED = frozenset({"FAILED_PRECONDITION", "NOT_FOUND"})
"""What a driver says of a staged volume that it does not know to be staged (any more)."""


def publish(request: Mount[CsiSource], host: Host, now: float) -> Mounted:
    """Let a driver publish a volume for a Pod; `now` is Unix time in seconds."""
    spec, uid = request.spec, request.pod.uid
    driver, csi_driver = serving(spec, request.objects, host)
    told = _told(request, csi_driver, host)
    place = layout.published(host, request.target, uid, spec.name, request.mode)
    record = call_records.of_publishing(host, uid, spec.name)
    data = _data(request)
    question = _question(request, driver, place, data.handle, told, host)
    if driver.abilities.stage:
        restage_if_dead(request, host)
    done = request.mode is VolumeMode.FILESYSTEM and was_done(place, record, host)
    kept = request.remount or request.reconstructed or done or record.is_done

    def undo() -> None:
        if not kept:
            _clear(request.mode, place, record, host)

    with taken_back(undo, f"publishing {data.handle} of csi driver {driver.name}"):
        record.put(data, done=done or record.is_done, mounted=record.was_mounted)
        _prepare(request, place, data, host)
        _call(driver, question, request.deadline, host)
    with uncertain_if_it_fails():
        record.put(data, done=True, mounted=host.mounts.is_mount_point(place.path))
        if request.mode is VolumeMode.BLOCK:
            return Mounted(device_path=str(place.path))
        notices = _notices(request, driver, place, host)
        _give_to_group(request, driver, csi_driver, place, host)
    return Mounted(path=place.path, notices=notices, due_at=_due_at(csi_driver, told, host, now))


def _data(request: Mount[CsiSource]) -> VolData:
    """Say which volume it is, as kubelet's file does; an inline one has a handle of its Pod."""
    spec, source = request.spec, request.spec.source
    return VolData(
        driver=source.driver,
        handle=source.volume_handle or layout.ephemeral_handle(request.pod.uid, spec.name),
        lifecycle=EPHEMERAL if is_inline(spec) else PERSISTENT,
        label=request.selinux_label,
    )


def _notices(request: Mount[CsiSource], driver: Driver, place: Place, host: Host) -> tuple[Notice, ...]:
    """Say what the Pod's owner should know; that nothing is mounted, once. Raises as `check_mount` does."""
    said = {mount_check.NOTHING_MOUNTED} if request.remount else frozenset[str]()
    seen = mount_check.check_mount(driver, place.path, host)
    return tuple(notice for notice in seen if notice.reason not in said)


def _told(request: Mount[CsiSource], csi_driver: CSIDriver | None, host: Host) -> Told:
    """Collect what the driver is told of the Pod, and its secrets; raises TransientError for a missing one."""
    texts: dict[str, str] = {}
    kept_back: dict[str, str] = {}
    due_at: float | None = None
    if request.spec.source.node_publish_secret_ref is not None:
        ref = publish_secret(request.spec, request.pod)
        kept_back |= secrets_of(ref, request.objects, f"publishing volume {request.spec.name}")
    if csi_driver is not None and csi_driver.pod_info_on_mount:
        texts |= attributes.pod_info(request.pod, ephemeral=is_inline(request.spec))
    if csi_driver is not None and request.mode is VolumeMode.FILESYSTEM:
        issued = attributes.tokens(request, csi_driver, host)
        texts |= issued.attributes
        kept_back |= issued.secrets
        due_at = issued.due_at
    return Told(attributes=texts, secrets=kept_back, due_at=due_at)


def _question(
    request: Mount[CsiSource], driver: Driver, place: Place, handle: str, told: Told, host: Host
) -> csi.NodePublishVolumeRequest:
    from volmgr_csi.node import questions

    spec = request.spec
    context: Mapping[str, str] = {}
    if not is_inline(spec):
        context = context_of(spec, request.node_name, request.objects, host)
    paths = questions.Paths(target=seen_by(driver.name, place.path, host), staged=_staged_path(request, driver, host))
    return questions.publishing(
        handle,
        spec,
        driver.abilities,
        questions.Use(label=request.selinux_label, group=request.fs_group),
        paths,
        questions.Given(context=context, attributes=told.attributes, secrets=told.secrets),
    )


def _staged_path(request: Mount[CsiSource], driver: Driver, host: Host) -> str:
    """Give where the driver finds the staged volume; a block volume has the path whether it stages or not."""
    spec, block = request.spec, request.mode is VolumeMode.BLOCK
    if is_inline(spec) or not (block or driver.abilities.stage):
        return ""
    target = layout.device_target(host, driver.name, spec.source.volume_handle, spec.name, request.mode)
    return seen_by(driver.name, layout.staged(target, request.mode).path, host)


def _prepare(request: Mount[CsiSource], place: Place, data: VolData, host: Host) -> None:
    """Make the directory in which the driver makes the target, and kubelet's file before the call."""
    cleanup.make_directory(place.path.parent, host)
    name, node = kubelet_name(request.spec), request.node_name
    if request.mode is VolumeMode.BLOCK:
        cleanup.make_directory(place.data, host)
        vol_data.write(host, place.data, vol_data.block_texts(data.driver, data.handle, name, node))
    else:
        cleanup.remove_link(place.path, host)
        vol_data.write(host, place.data, vol_data.pod_texts(data, name, node))


def _call(driver: Driver, question: csi.NodePublishVolumeRequest, deadline: float, host: Host) -> None:
    from volmgr_csi.driver.methods import PUBLISH

    try:
        driver.connection.call(PUBLISH, question, seconds(host, deadline))
    except CallError as error:
        if error.code in _NOT_STAGED and driver.abilities.stage and question.staging_target_path:
            raise DeviceLostError(f"{error}; it is staged again before the next try") from error
        raise error.as_outcome() from error


def _give_to_group(
    request: Mount[CsiSource], driver: Driver, csi_driver: CSIDriver | None, place: Place, host: Host
) -> None:
    """Give the files to the Pod's group, unless the driver was told to."""
    if request.fs_group is None or driver.abilities.mount_group or not gives_to_group(request.spec, csi_driver):
        return
    host.ownership.apply(
        place.path,
        request.fs_group,
        policy=request.fs_group_policy,
        cancelled=request.cancelled,
        progress=request.progress,
    )


def _due_at(csi_driver: CSIDriver | None, told: Told, host: Host, now: float) -> float | None:
    """Say when a volume is to be published again: after the interval, or when its first token is due."""
    if csi_driver is None or not csi_driver.requires_republish:
        return None
    again = now + host.settings_of(CsiSettings).republish_interval
    return again if told.due_at is None else min(again, told.due_at)


def unpublish(request: Unmount, host: Host) -> Unmounted:
    """Let a driver take a volume from a Pod, and clear away what is left; gone is success."""
    place = layout.published(host, request.target, request.pod_uid, request.spec_name, request.mode)
    record = call_records.of_publishing(host, request.pod_uid, request.spec_name)
    found = identify(place, record, request.volume, host)
    if found is None and host.mounts.is_mount_point(place.path):
        raise OperationError(
            f"nothing says which csi driver mounted {place.path} ({place.data / vol_data.FILE} is damaged or missing);"
            " unmount it by hand"
        )
    if found is not None:
        there = record.is_there or is_there(place.path.parent, host)
        driver = cleanup.driver_of(found, host, is_there=there)
        if driver is not None:
            cleanup.unmount_others(place.path, host)
            if record.was_mounted:  # else the driver may have made the link
                cleanup.remove_link(place.path, host)
            aside = request.mode is VolumeMode.FILESYSTEM and _is_of_others(found, place, record, host)
            _unpublish(driver, found, place, request.deadline, host, aside=aside)
    _clear(request.mode, place, record, host)
    return Unmounted()


def _is_of_others(found: VolData, place: Place, record: CallRecord, host: Host) -> bool:
    """Say whether what lies in the target was not written by the driver: that was mounted there, and is no more."""
    is_ours = record.was_mounted is False or (record.was_mounted is None and found.lifecycle == EPHEMERAL)
    return cleanup.is_set_aside(place.path, host) or (not is_ours and cleanup.is_in_the_way(place.path, host))


def _unpublish(driver: Driver, found: VolData, place: Place, deadline: float, host: Host, *, aside: bool) -> None:
    """Let a driver take a volume away, which with `aside` does not see what others wrote: it might delete that."""
    from volmgr_csi.driver.methods import UNPUBLISH
    from volmgr_csi.v1 import csi_pb2 as csi

    question = csi.NodeUnpublishVolumeRequest(
        volume_id=found.handle, target_path=seen_by(driver.name, place.path, host)
    )
    if aside:
        cleanup.set_aside(place.path, host)
    try:
        cleanup.undo(driver, UNPUBLISH, question, place.path, deadline, host)
    except OperationError as refusal:
        if not aside:
            raise
        _log.warning("%s is not mounted, and what is in it is kept: %s", place.path, refusal)


def _clear(mode: VolumeMode, place: Place, record: CallRecord, host: Host) -> None:
    """Remove what lies on the node of a volume that is not published; what holds data is kept: it is an orphan."""
    cleanup.remove_left(place.path, host)
    if mode is VolumeMode.BLOCK:
        host.files.remove_directory(place.path.parent)
        cleanup.remove_shared(place.path.parent.parent, host)
    else:
        cleanup.put_back(place.path, host)
        cleanup.remove_data(place.data, host)
    record.remove()
