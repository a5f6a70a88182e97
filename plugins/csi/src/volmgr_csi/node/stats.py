"""How much of a published volume is used, as its driver says.

Source: `behaviours.md` §4.11, which is `csi_metrics.go` of kubelet 1.37.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.plugin import Measured, OperationError, VolumeMode
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.deadline import seconds
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.driver.paths import seen_by
from volmgr_csi.node import call_records, layout, vol_data
from volmgr_csi.node.identification import identify

if TYPE_CHECKING:
    from volmgr.plugin import Host, Measure
    from volmgr_csi.node.layout import Place
    from volmgr_csi.v1 import csi_pb2 as csi


def measure(request: Measure, host: Host) -> Measured:
    """Ask a driver how much of a volume is used; raises OperationError for a driver that cannot say."""
    place, spec_name = _measured_place(request, host)
    found = identify(place, call_records.of_publishing(host, request.pod_uid, spec_name), request.volume, host)
    if found is None:
        raise OperationError(
            f"measuring {place.path}: nothing says of which csi driver it is ({place.data}/{vol_data.FILE})"
        )
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
        target = layout.mount_of(request.path).parent
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
