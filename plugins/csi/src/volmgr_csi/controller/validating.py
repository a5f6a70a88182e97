"""Asking a driver whether a volume can be used as its PersistentVolume says: for who wants to know why it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.deadline import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from volmgr.plugin import CsiSource, Host
    from volmgr_csi.driver.drivers import Driver
    from volmgr_csi.v1 import csi_pb2 as csi


def objection(
    driver: Driver,
    source: CsiSource,
    capability: csi.VolumeCapability,
    secrets: Mapping[str, str],
    host: Host,
    deadline: float,
) -> str:
    """Say what a driver has against the use of a volume; empty when it has nothing, or does not say.

    Not asked before it is used: drivers that answer this wrongly, or not at all, serve their volumes all the same.
    """
    from volmgr_csi.driver.methods import VALIDATE
    from volmgr_csi.v1 import csi_pb2 as csi

    question = csi.ValidateVolumeCapabilitiesRequest(
        volume_id=source.volume_handle,
        volume_context=source.volume_attributes,
        volume_capabilities=[capability],
        secrets=secrets,
    )
    try:
        answer = driver.connection.call(VALIDATE, question, seconds(host, deadline))
    except CallError:
        return ""
    if answer.HasField("confirmed"):
        return ""
    why = answer.message or "it does not say why"
    return f"; asked by ValidateVolumeCapabilities, the driver refuses access modes, volume mode or attributes: {why}"
