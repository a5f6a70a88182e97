"""The controller service: volumes are made, attached, grown and deleted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import grpc

from tests.csi.fault_driver.profile import PUBLISHED_NODES, READ_ONLY, Profile
from tests.csi.fault_driver.volumes import MIB, RefusalError, Volume, Volumes, invalid, not_found
from volmgr_csi.v1 import csi_pb2 as csi

POOL = 1 << 40
"""Bytes that the storage claims to have."""


def checked(*capabilities: csi.VolumeCapability) -> None:
    """Insist on volume capabilities that say how a volume is used."""
    if not capabilities or any(each.WhichOneof("access_type") is None for each in capabilities):
        raise invalid("the volume capability is missing")


class Controller:
    """It makes volumes on this machine, and attaches them to it."""

    def __init__(self, profile: Profile, volumes: Volumes) -> None:
        self._profile = profile
        self._volumes = volumes

    def capabilities(self, _request: csi.ControllerGetCapabilitiesRequest) -> csi.ControllerGetCapabilitiesResponse:
        rpc = csi.ControllerServiceCapability.RPC
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[csi.ControllerServiceCapability(rpc=rpc(type=name)) for name in self._profile.controller]
        )

    def create(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        if not request.name:
            raise invalid("the name is missing")
        checked(*request.volume_capabilities)
        if request.HasField("volume_content_source"):
            raise invalid("volumes are made empty here")
        wanted, limit = request.capacity_range.required_bytes, request.capacity_range.limit_bytes
        size = wanted or min(16 * MIB, limit or POOL)
        if size > POOL or (limit and size > limit):
            raise RefusalError(grpc.StatusCode.OUT_OF_RANGE, f"there are no volumes of {size} bytes here")
        is_block = any(each.WhichOneof("access_type") == "block" for each in request.volume_capabilities)
        found = self._volumes.find(f"vol-{hashlib.sha256(request.name.encode()).hexdigest()[:24]}")
        if found is not None and (found.size < wanted or (limit and found.size > limit) or found.block != is_block):
            raise RefusalError(grpc.StatusCode.ALREADY_EXISTS, f"{request.name} is another volume already")
        made = found or self._volumes.add(
            Volume(
                id=f"vol-{hashlib.sha256(request.name.encode()).hexdigest()[:24]}",
                name=request.name,
                size=size,
                block=is_block,
                medium=request.parameters.get("medium", ""),
                context=dict(request.parameters),
            )
        )
        return csi.CreateVolumeResponse(volume=self._described(made))

    def delete(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        found = self._volumes.find(request.volume_id)
        if found is not None:
            if found.nodes or found.staged or found.published:
                raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, f"{found.id} is in use")
            self._volumes.drop(found)
        return csi.DeleteVolumeResponse()

    def attach(self, request: csi.ControllerPublishVolumeRequest) -> csi.ControllerPublishVolumeResponse:
        if not request.volume_id or not request.node_id:
            raise invalid("the volume id or the node id is missing")
        checked(request.volume_capability)
        volume = self._volumes.get(request.volume_id)
        if request.node_id != self._profile.node_id:
            raise not_found(f"node {request.node_id}")
        if request.readonly and READ_ONLY not in self._profile.controller:
            raise invalid("nothing is attached read-only here")
        if volume.nodes.get(request.node_id, request.readonly) != request.readonly:
            raise RefusalError(grpc.StatusCode.ALREADY_EXISTS, f"{volume.id} is attached differently")
        volume.nodes[request.node_id] = request.readonly
        self._volumes.keep(volume)
        return csi.ControllerPublishVolumeResponse(publish_context={"lun": volume.id})

    def detach(self, request: csi.ControllerUnpublishVolumeRequest) -> csi.ControllerUnpublishVolumeResponse:
        volume = self._volumes.find(request.volume_id)
        if volume is not None:
            if volume.staged or volume.published:
                raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, f"{volume.id} is in use on its node")
            volume.nodes = {node: how for node, how in volume.nodes.items() if request.node_id not in ("", node)}
            self._volumes.keep(volume)
        return csi.ControllerUnpublishVolumeResponse()

    def validate(self, request: csi.ValidateVolumeCapabilitiesRequest) -> csi.ValidateVolumeCapabilitiesResponse:
        if not request.volume_id:
            raise invalid("the volume id is missing")
        checked(*request.volume_capabilities)
        volume = self._volumes.get(request.volume_id)
        if any((each.WhichOneof("access_type") == "block") != volume.block for each in request.volume_capabilities):
            return csi.ValidateVolumeCapabilitiesResponse(message=f"{volume.id} is of the other volume mode")
        confirmed = csi.ValidateVolumeCapabilitiesResponse.Confirmed(
            volume_context=request.volume_context,
            volume_capabilities=request.volume_capabilities,
            parameters=request.parameters,
        )
        return csi.ValidateVolumeCapabilitiesResponse(confirmed=confirmed)

    def grow(self, request: csi.ControllerExpandVolumeRequest) -> csi.ControllerExpandVolumeResponse:
        if not request.volume_id or not request.HasField("capacity_range"):
            raise invalid("the volume id or the capacity range is missing")
        volume = self._volumes.get(request.volume_id)
        if request.capacity_range.required_bytes > volume.size:
            volume.node_size = volume.node_size or volume.size
            volume.size = request.capacity_range.required_bytes
            self._volumes.add(volume)
        return csi.ControllerExpandVolumeResponse(
            capacity_bytes=volume.size, node_expansion_required=self._profile.node_expansion
        )

    def list(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        found, token = self._volumes.all(), request.starting_token
        if token and (not token.isdecimal() or int(token) > len(found)):
            raise RefusalError(grpc.StatusCode.ABORTED, f"{token} is no token of ours")
        start = int(token or 0)
        end = start + request.max_entries if request.max_entries else len(found)
        kind = csi.ListVolumesResponse
        return kind(
            entries=[
                kind.Entry(
                    volume=self._described(each),
                    status=kind.VolumeStatus(published_node_ids=self._nodes_told(each)),
                )
                for each in found[start:end]
            ],
            next_token=str(end) if end < len(found) else "",
        )

    def get(self, request: csi.ControllerGetVolumeRequest) -> csi.ControllerGetVolumeResponse:
        volume = self._volumes.get(request.volume_id)
        kind = csi.ControllerGetVolumeResponse
        return kind(
            volume=self._described(volume), status=kind.VolumeStatus(published_node_ids=self._nodes_told(volume))
        )

    def capacity(self, _request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        return csi.GetCapacityResponse(available_capacity=POOL - sum(each.size for each in self._volumes.all()))

    def _nodes_told(self, volume: Volume) -> Iterable[str]:
        return volume.nodes if PUBLISHED_NODES in self._profile.controller else ()

    def _described(self, volume: Volume) -> csi.Volume:
        topology = [csi.Topology(segments=self._profile.topology)] if self._profile.topology else []
        return csi.Volume(
            volume_id=volume.id,
            capacity_bytes=volume.size,
            volume_context=volume.context,
            accessible_topology=topology,
        )
