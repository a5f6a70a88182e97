"""Growing a volume on the node: a driver lets its file system, or its device, use the new size.

Source: `behaviours.md` §4.11 and §2.13, which is `expander.go` of kubelet 1.37.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.plugin import BusyError, Expanded, PluginError, SpecError, VolumeMode
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.deadline import seconds
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.driver.paths import seen_by
from volmgr_csi.driver.secrets import secrets
from volmgr_csi.driver.service_capabilities import EXPAND_VOLUME
from volmgr_csi.node import layout

if TYPE_CHECKING:
    from volmgr.plugin import CsiSource, Expand, Host
    from volmgr_csi.driver.drivers import Driver
    from volmgr_csi.v1 import csi_pb2 as csi

_INFEASIBLE = frozenset({"INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND"})


def expand(request: Expand[CsiSource], host: Host) -> Expanded:
    """Let a driver have a volume use its new size; where it has nothing to do on the node, that is done."""
    source = request.spec.source
    driver = drivers_of(host).making(source.driver)
    if not driver.abilities.expand:
        if EXPAND_VOLUME in driver.controller or request.known_size >= request.new_size:
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
        path = layout.mount_of(request.target) if request.target is not None else staged
    paths = questions.Paths(
        target=seen_by(driver.name, path, host),
        staged=seen_by(driver.name, staged, host) if driver.abilities.stage else "",
    )
    told = secrets(spec.source.node_expand_secret_ref, request.objects, f"growing volume {spec.name}")
    return questions.expanding(spec, driver.abilities, request.new_size, paths, told)
