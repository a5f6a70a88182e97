"""What a driver is asked, from what a record says. Pure; imports protobuf."""

from __future__ import annotations

from collections.abc import Mapping

from volmgr.plugin import VolumeMode
from volmgr_csi.cli.records import Record, Target, Wish
from volmgr_csi.driver.volume_capability import capability
from volmgr_csi.v1 import csi_pb2 as csi

EPHEMERAL = "csi.storage.k8s.io/ephemeral"
"""The attribute by which kubelet tells a driver that a volume is an inline one."""


def capability_of(wish: Wish) -> csi.VolumeCapability:
    """Say how a volume is to be used."""
    mode = VolumeMode.BLOCK if wish.block else VolumeMode.FILESYSTEM
    return capability(mode, wish.access_mode, fs_type=wish.fs_type, flags=wish.mount_flags, group=wish.mount_group)


def creation(record: Record, secrets: Mapping[str, str], topology: Mapping[str, str] | None) -> csi.CreateVolumeRequest:
    """Ask for a volume of the record's name; `topology`: the segments where it has to be reachable."""
    question = csi.CreateVolumeRequest(
        name=record.volume,
        capacity_range=csi.CapacityRange(required_bytes=record.wish.size),
        volume_capabilities=[capability_of(record.wish)],
        parameters=record.wish.parameters,
        secrets=secrets,
    )
    if topology:
        here = csi.Topology(segments=topology)
        where = csi.TopologyRequirement(requisite=[here], preferred=[here])
        question.accessibility_requirements.CopyFrom(where)
    return question


def attachment(record: Record, secrets: Mapping[str, str], *, read_only: bool) -> csi.ControllerPublishVolumeRequest:
    """Ask for a volume to be attached to the record's node."""
    return csi.ControllerPublishVolumeRequest(
        volume_id=record.volume_id,
        node_id=record.node_id,
        volume_capability=capability_of(record.wish),
        readonly=read_only,
        secrets=secrets,
        volume_context=_context(record),
    )


def staging(record: Record, secrets: Mapping[str, str]) -> csi.NodeStageVolumeRequest:
    """Ask for a volume to be staged."""
    return csi.NodeStageVolumeRequest(
        volume_id=record.volume_id,
        publish_context=_publish_context(record),
        staging_target_path=record.staging,
        volume_capability=capability_of(record.wish),
        secrets=secrets,
        volume_context=_context(record),
    )


def publication(record: Record, target: Target, secrets: Mapping[str, str]) -> csi.NodePublishVolumeRequest:
    """Ask for a volume to be published at a target."""
    return csi.NodePublishVolumeRequest(
        volume_id=record.volume_id,
        publish_context=_publish_context(record),
        staging_target_path=record.staging,
        target_path=target.path,
        volume_capability=capability_of(record.wish),
        readonly=target.read_only,
        secrets=secrets,
        volume_context=_context(record),
    )


def _context(record: Record) -> Mapping[str, str]:
    inline = {EPHEMERAL: "true"} if record.wish.ephemeral else {}
    return {**record.wish.attributes, **inline, **record.volume_context}


def _publish_context(record: Record) -> Mapping[str, str]:
    return {**record.wish.publish_context, **record.publish_context}
