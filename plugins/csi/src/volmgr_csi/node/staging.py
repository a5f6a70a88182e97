"""Staging: a driver makes a volume ready for the node, once for all Pods, and takes it back.

Source: `behaviours.md` §4.11, which is `csi_attacher.go` and `csi_block.go` of kubelet 1.37.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from volmgr.plugin import (
    DeviceMounted,
    DeviceUnmounted,
    MountDevice,
    VolumeMode,
    taken_back,
    uncertain_if_it_fails,
)
from volmgr_csi.controller.attaching import publish_context
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.deadline import seconds
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.driver.paths import seen_by
from volmgr_csi.driver.secrets import secrets
from volmgr_csi.node import call_records, cleanup, layout, vol_data
from volmgr_csi.node.attributes import driver_object
from volmgr_csi.node.call_records import CallRecord
from volmgr_csi.node.identification import identify
from volmgr_csi.node.layout import Place
from volmgr_csi.node.mount_check import is_dead, is_there
from volmgr_csi.node.vol_data import VolData
from volmgr_csi.node.volume_spec import check_lifecycle, kubelet_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from volmgr.plugin import CSIDriver, CsiSource, Host, Mount, Objects, UnmountDevice, VolumeSpec
    from volmgr_csi.driver.drivers import Driver
    from volmgr_csi.v1 import csi_pb2 as csi

_log = logging.getLogger(__name__)


def stage(request: MountDevice[CsiSource], host: Host) -> DeviceMounted:
    """Let a driver stage a volume; of one that stages nothing there is but the directory (and the file, of BLOCK)."""
    source = request.spec.source
    driver, _ = serving(request.spec, request.objects, host)
    place = layout.staged(request.target, request.mode)
    record = call_records.of_staging(host, request.volume)
    if not driver.abilities.stage:
        _prepare(request, place, host, staging=False)
        return DeviceMounted()
    question = _question(request, driver, place, host)
    data = VolData(driver=source.driver, handle=source.volume_handle)
    done = was_done(place, record, host)

    def undo() -> None:
        if not done:
            _clear(request.mode, request, place, record, host)

    with taken_back(undo, f"staging {source.volume_handle} of csi driver {source.driver}"):
        record.put(data, done=done, mounted=record.was_mounted)
        _prepare(request, place, host, staging=True)
        _call(driver, question, request.deadline, host)
    with uncertain_if_it_fails():
        record.put(data, done=True, mounted=host.mounts.is_mount_point(place.path))
    return DeviceMounted()


def serving(spec: VolumeSpec[CsiSource], objects: Objects, host: Host) -> tuple[Driver, CSIDriver | None]:
    """Give the driver that serves a volume, and its CSIDriver; raises TransientError or SpecError where none does."""
    name, known = spec.source.driver, drivers_of(host)
    driver, csi_driver = known.making(name), driver_object(name, objects)
    check_lifecycle(spec, csi_driver)
    if csi_driver is not None:
        known.refresh_every(name, csi_driver.node_allocatable_update_period_seconds or 0)
    return driver, csi_driver


def was_done(place: Place, record: CallRecord, host: Host) -> bool:
    """Say whether a driver did its part once: by our record; without one, kubelet's file is of kubelet's own doing."""
    return record.is_done if record.is_there else vol_data.read(host, place.data) is not None


def _prepare(request: MountDevice[CsiSource], place: Place, host: Host, *, staging: bool) -> None:
    """Make the directories, and kubelet's file before the call."""
    source, spec = request.spec.source, request.spec
    if request.mode is VolumeMode.BLOCK:
        cleanup.make_directory(place.data, host)
        cleanup.make_directory(request.target, host)  # as long as it is there, the volume is known to be staged
        texts = vol_data.block_texts(source.driver, source.volume_handle, kubelet_name(spec), request.node_name)
        vol_data.write(host, place.data, texts)
    if staging or request.mode is VolumeMode.FILESYSTEM:
        cleanup.make_directory(place.path, host)
    if staging and request.mode is VolumeMode.FILESYSTEM:
        label = request.selinux_label
        vol_data.write(host, place.data, vol_data.device_texts(source.driver, source.volume_handle, label))


def _question(request: MountDevice[CsiSource], driver: Driver, place: Place, host: Host) -> csi.NodeStageVolumeRequest:
    from volmgr_csi.node import questions

    spec = request.spec
    given = questions.Given(
        context=context_of(spec, request.node_name, request.objects, host),
        secrets=secrets(spec.source.node_stage_secret_ref, request.objects, f"staging volume {spec.name}"),
    )
    use = questions.Use(label=request.selinux_label, group=request.fs_group)
    return questions.staging(spec, driver.abilities, use, seen_by(driver.name, place.path, host), given)


def context_of(spec: VolumeSpec[CsiSource], node_name: str, objects: Objects, host: Host) -> Mapping[str, str]:
    """Give what was said of a volume when it was attached; of one that need not be, nothing."""
    source = spec.source
    csi_driver = driver_object(source.driver, objects)
    if csi_driver is not None and not csi_driver.attach_required:
        return {}
    return publish_context(source.driver, source.volume_handle, node_name, objects, host)


def _call(driver: Driver, question: csi.NodeStageVolumeRequest, deadline: float, host: Host) -> None:
    from volmgr_csi.driver.methods import STAGE

    try:
        driver.connection.call(STAGE, question, seconds(host, deadline))
    except CallError as error:
        raise error.as_outcome() from error


def restage_if_dead(request: Mount[CsiSource], host: Host) -> None:
    """Stage a volume anew whose file system on the node has died (its FUSE daemon has): no Pod could be given it."""
    target = request.device_target
    if target is None or request.mode is VolumeMode.BLOCK or not is_dead(target, host):
        return
    host.mounts.unmount(target, lazy=True)  # the driver may take it for well, since it is mounted
    stage(
        MountDevice(
            spec=request.spec,
            volume=request.volume,
            device_path=request.device_path,
            target=target,
            mode=request.mode,
            fs_group=request.fs_group,
            selinux_label=request.selinux_label,
            node_name=request.node_name,
            objects=request.objects,
            deadline=request.deadline,
            cancelled=request.cancelled,
            progress=request.progress,
        ),
        host,
    )


def unstage(request: UnmountDevice, host: Host) -> DeviceUnmounted:
    """Let a driver take a volume from the node, and clear away what is left; gone is success."""
    place = layout.staged(request.target, request.mode)
    record = call_records.of_staging(host, request.volume)
    found = identify(place, record, request.volume, host)
    there = record.is_there or is_there(place.path, host) or vol_data.read(host, place.data) is not None
    if found is not None:
        driver = cleanup.driver_of(found, host, is_there=there)
        if driver is not None and (driver.abilities.stage or record.is_there):  # it may be another version by now
            if request.mode is VolumeMode.FILESYSTEM:
                cleanup.remove_link(place.path, host)
            if record.was_mounted and request.mode is VolumeMode.FILESYSTEM:
                cleanup.set_aside(place.path, host)  # nothing in it is the driver's own, who might delete it
            _unstage(driver, found, place, request.deadline, host)
    _clear(request.mode, request, place, record, host)
    return DeviceUnmounted()


def _unstage(driver: Driver, found: VolData, place: Place, deadline: float, host: Host) -> None:
    from volmgr_csi.driver.methods import UNSTAGE
    from volmgr_csi.v1 import csi_pb2 as csi

    question = csi.NodeUnstageVolumeRequest(
        volume_id=found.handle, staging_target_path=seen_by(driver.name, place.path, host)
    )
    never_stages = () if driver.abilities.stage else ("UNIMPLEMENTED",)  # its version that did was replaced
    cleanup.undo(driver, UNSTAGE, question, place.path, deadline, host, *never_stages)


def _clear(
    mode: VolumeMode, request: MountDevice[CsiSource] | UnmountDevice, place: Place, record: CallRecord, host: Host
) -> None:
    """Remove what lies on the node of a volume that is not staged; what holds data is kept and named."""
    cleanup.remove_left(place.path, host)
    if mode is VolumeMode.FILESYSTEM:
        cleanup.put_back(place.path, host)
    if host.files.info(place.path) is not None:
        _log.warning("%s is not mounted, yet there is something in it: it is kept; move it away", place.path)
    cleanup.remove_data(place.data, host)
    if mode is VolumeMode.BLOCK:
        published = layout.publications(host, place.path.name)
        for directory in (published, request.target, request.target.parent):
            host.files.remove_directory(directory)
        for directory in (published.parent, place.path.parent):
            cleanup.remove_shared(directory, host)
    else:
        cleanup.remove_shared(place.data.parent, host)
    record.remove()
