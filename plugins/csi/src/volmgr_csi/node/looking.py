"""Volumes that are there: growing one, measuring it, and saying which it is.

Source: `behaviours.md` §4.11 and §2.13, which is `expander.go` and `csi_metrics.go` of kubelet 1.37.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.plugin import (
    CSI_FIELD,
    BusyError,
    CsiSource,
    Expanded,
    Measured,
    NotOurs,
    NotReconstructible,
    OperationError,
    PluginError,
    Reconstructed,
    SpecError,
    VolumeMode,
    VolumeSpec,
)
from volmgr_csi.driver.calling import seconds, secrets
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.node import layout, traces, vol_data
from volmgr_csi.node.layout import MOUNT, Place
from volmgr_csi.node.origin import origin
from volmgr_csi.node.sight import seen_by
from volmgr_csi.settings import NAME

if TYPE_CHECKING:
    from volmgr.plugin import Expand, Found, Host, Measure
    from volmgr_csi.driver.drivers import Driver
    from volmgr_csi.v1 import csi_pb2 as csi

EXPANDS = "EXPAND_VOLUME"
"""What a controller service that grows volumes says of itself."""
_INFEASIBLE = frozenset({"INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND"})
_DIRECTORY = NAME.replace("/", "~")


def expand(request: Expand[CsiSource], host: Host) -> Expanded:
    """Let a driver have a volume use its new size; where it has nothing to do on the node, that is done."""
    source = request.spec.source
    driver = drivers_of(host).making(source.driver)
    if not driver.abilities.expand:
        if EXPANDS in driver.controller or request.known_size >= request.new_size:
            return Expanded(size=request.new_size)
        raise PluginError(f"growing {request.spec.name}: csi driver {driver.name} does not support NodeExpandVolume")
    question = _expansion(request, driver, host)
    from volmgr_csi.driver.methods import EXPAND

    try:
        answer = driver.connection.call(EXPAND, question, seconds(host, request.deadline))
    except CallError as error:
        if error.code == "FAILED_PRECONDITION":
            raise BusyError(f"{error}: the volume cannot grow while it is in use") from error
        if error.code in _INFEASIBLE:
            raise SpecError(f"{error}: it cannot have {request.new_size} bytes; ask for another size") from error
        raise error.as_outcome() from error
    return Expanded(size=answer.capacity_bytes or request.new_size)


def _expansion(request: Expand[CsiSource], driver: Driver, host: Host) -> csi.NodeExpandVolumeRequest:
    from volmgr_csi.node import questions

    spec = request.spec
    target = layout.device_target(host, driver.name, spec.source.volume_handle, spec.name, request.mode)
    staged = layout.staged(target, request.mode).path
    if request.mode is VolumeMode.BLOCK:
        path = Path(request.device_path)
    else:
        path = mount_of(request.target) if request.target is not None else staged
    paths = questions.Paths(
        target=seen_by(driver.name, path, host),
        staged=seen_by(driver.name, staged, host) if driver.abilities.stage else "",
    )
    told = secrets(spec.source.node_expand_secret_ref, request.objects, f"growing volume {spec.name}")
    return questions.expanding(spec, driver.abilities, request.new_size, paths, told)


def mount_of(path: Path) -> Path:
    """Give where a volume is mounted, by that or by its directory below its Pod's."""
    return path if path.parent.parent.name == _DIRECTORY else path / MOUNT


def measure(request: Measure, host: Host) -> Measured:
    """Ask a driver how much of a volume is used; raises OperationError for a driver that cannot say."""
    place, spec_name = _measured_place(request, host)
    found = origin(place, traces.of_publishing(host, request.pod_uid, spec_name), request.volume, host)
    if found is None:
        raise OperationError(f"nothing says of which csi driver {place.path} is")
    driver = drivers_of(host).unmaking(found.driver)
    if not driver.abilities.stats:
        raise OperationError(f"csi driver {driver.name} does not say how much its volumes use (no GET_VOLUME_STATS)")
    from volmgr_csi.driver.methods import STATS
    from volmgr_csi.v1 import csi_pb2 as csi

    question = csi.NodeGetVolumeStatsRequest(volume_id=found.handle, volume_path=seen_by(driver.name, place.path, host))
    try:
        answer = driver.connection.call(STATS, question, seconds(host, request.deadline))
    except CallError as error:
        raise OperationError(str(error)) from error
    return _measured(answer, driver.name)


def _measured_place(request: Measure, host: Host) -> tuple[Place, str]:
    if request.path.is_relative_to(host.paths.block_volumes(request.pod_uid)):
        name, mode, target = request.path.name, VolumeMode.BLOCK, request.path
    else:
        target = mount_of(request.path).parent
        name, mode = target.name, VolumeMode.FILESYSTEM
    return layout.published(host, target, request.pod_uid, name, mode), name


def _measured(answer: csi.NodeGetVolumeStatsResponse, driver: str) -> Measured:
    from volmgr_csi.v1 import csi_pb2 as csi

    by_unit = {usage.unit: usage for usage in answer.usage}
    size = by_unit.get(csi.VolumeUsage.BYTES)
    if size is None:
        raise OperationError(f"csi driver {driver} answered NodeGetVolumeStats without bytes")
    inodes = by_unit.get(csi.VolumeUsage.INODES, csi.VolumeUsage())
    return Measured(
        capacity=max(size.total, 0),
        available=max(size.available, 0),
        used=max(size.used, 0),
        inodes=max(inodes.total, 0),
        inodes_free=max(inodes.available, 0),
        inodes_used=max(inodes.used, 0),
    )


def reconstruct(found: Found, host: Host) -> Reconstructed[CsiSource]:
    """Say which volume a directory, or the link to a device, is of; raises NotReconstructible, or NotOurs."""
    place = layout.published(host, found.path, found.pod_uid, found.spec_name, found.mode)
    data = origin(place, traces.of_publishing(host, found.pod_uid, found.spec_name), "", host)
    if data is None:
        said = f"{place.data / vol_data.FILE} is damaged or missing, and nothing else says which volume {found.path} is"
        if not host.mounts.is_mount_point(place.path) and host.files.names(place.path):
            raise NotOurs(f"{said}: what is in {place.path} is kept")
        raise NotReconstructible(said)
    handle = "" if data.lifecycle == vol_data.EPHEMERAL else data.handle
    spec = VolumeSpec(
        name=found.spec_name,
        type=CSI_FIELD,
        driver=data.driver,
        source=CsiSource(driver=data.driver, volume_handle=handle),
        mode=found.mode,
    )
    return Reconstructed(spec=spec, selinux_label=data.label)
