"""The node service: it stages, publishes and grows volumes on the kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import grpc

from tests.csi.fault_driver import kernel
from tests.csi.fault_driver.controller import checked
from tests.csi.fault_driver.profile import ATTACH, MOUNT_GROUP, STAGE, Profile
from tests.csi.fault_driver.volumes import MIB, RefusalError, Volume, Volumes, invalid, not_found
from volmgr_csi.v1 import csi_pb2 as csi

EPHEMERAL = "csi.storage.k8s.io/ephemeral"
INLINE_ID = re.compile("csi-[0-9a-f]{64}")
EXCLUSIVE = csi.VolumeCapability.AccessMode.SINGLE_NODE_SINGLE_WRITER


class Node:
    """It works on the mount namespace of its process."""

    def __init__(self, profile: Profile, volumes: Volumes) -> None:
        self._profile = profile
        self._volumes = volumes

    def info(self, _request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        profile = self._profile
        topology = csi.Topology(segments=profile.topology) if profile.topology else None
        return csi.NodeGetInfoResponse(
            node_id=profile.node_id, max_volumes_per_node=profile.max_volumes, accessible_topology=topology
        )

    def capabilities(self, _request: csi.NodeGetCapabilitiesRequest) -> csi.NodeGetCapabilitiesResponse:
        rpc = csi.NodeServiceCapability.RPC
        return csi.NodeGetCapabilitiesResponse(
            capabilities=[csi.NodeServiceCapability(rpc=rpc(type=name)) for name in self._profile.node]
        )

    def stage(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        if not request.volume_id or not request.staging_target_path:
            raise invalid("the volume id or the staging path is missing")
        checked(request.volume_capability)
        volume = self._attached(request.volume_id)
        if volume.block:
            kernel.attach_loop(self._volumes.image(volume))
        else:
            self._mount(volume, request.staging_target_path, request.volume_capability)
        volume.staged = sorted({*volume.staged, request.staging_target_path})
        self._volumes.keep(volume)
        return csi.NodeStageVolumeResponse()

    def unstage(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        if not request.volume_id or not request.staging_target_path:
            raise invalid("the volume id or the staging path is missing")
        volume = self._volumes.find(request.volume_id)
        if volume is not None and volume.published:
            raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, f"{volume.id} is published")
        if kernel.is_mounted(request.staging_target_path):
            kernel.unmount(request.staging_target_path)
        if volume is not None:
            kernel.detach_loop(self._volumes.image(volume))
            volume.staged = [each for each in volume.staged if each != request.staging_target_path]
            self._volumes.keep(volume)
        return csi.NodeUnstageVolumeResponse()

    def publish(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        if not request.volume_id or not request.target_path:
            raise invalid("the volume id or the target path is missing")
        checked(request.volume_capability)
        if _is_inline(request):
            self._publish_inline(request)
            return csi.NodePublishVolumeResponse()
        volume = self._attached(request.volume_id)
        if STAGE in self._profile.node and request.staging_target_path not in volume.staged:
            raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, f"{volume.id} is not staged there")
        others = set(volume.published) - {request.target_path}
        if others and request.volume_capability.access_mode.mode == EXCLUSIVE:
            raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, f"{volume.id} is published elsewhere")
        volume.published[request.target_path] = request.readonly
        self._volumes.keep(volume)
        self._publish(volume, request)
        return csi.NodePublishVolumeResponse()

    def unpublish(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        if not request.volume_id or not request.target_path:
            raise invalid("the volume id or the target path is missing")
        target = Path(request.target_path)
        while kernel.is_mounted(request.target_path):
            kernel.unmount(request.target_path)
        volume = self._volumes.find(request.volume_id)
        if volume is not None:
            volume.published.pop(request.target_path, None)
            self._volumes.keep(volume)
            if STAGE not in self._profile.node and not volume.published:
                kernel.detach_loop(self._volumes.image(volume))
        if target.is_dir():
            (target / "inline").unlink(missing_ok=True)
            target.rmdir()
        else:
            target.unlink(missing_ok=True)
        return csi.NodeUnpublishVolumeResponse()

    def stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        volume, path = self._at(request.volume_id, request.volume_path)
        usage = csi.VolumeUsage
        if volume.block:
            return csi.NodeGetVolumeStatsResponse(usage=[usage(unit=usage.BYTES, total=_size_on_node(volume))])
        now = os.statvfs(path)
        total = now.f_blocks * now.f_frsize if volume.medium else _size_on_node(volume)
        used = (now.f_blocks - now.f_bfree) * now.f_frsize if volume.medium else _bytes_below(path)
        files, free = now.f_files, now.f_ffree
        return csi.NodeGetVolumeStatsResponse(
            usage=[
                usage(unit=usage.BYTES, total=total, used=used, available=max(total - used, 0)),
                usage(unit=usage.INODES, total=files, used=files - free, available=free),
            ]
        )

    def expand(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        volume, path = self._at(request.volume_id, request.volume_path)
        volume.node_size = max(volume.size, request.capacity_range.required_bytes)
        if volume.block:
            kernel.grow_loop(kernel.attach_loop(self._volumes.image(volume)))
        elif volume.medium:
            kernel.resize_tmpfs(str(path), volume.node_size)
        self._volumes.keep(volume)
        return csi.NodeExpandVolumeResponse(capacity_bytes=volume.node_size)

    def _attached(self, handle: str) -> Volume:
        volume = self._volumes.get(handle)
        if ATTACH in self._profile.controller and self._profile.node_id not in volume.nodes:
            raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, f"{handle} is not attached to this machine")
        return volume

    def _at(self, handle: str, path: str) -> tuple[Volume, Path]:
        if not handle or not path:
            raise invalid("the volume id or the volume path is missing")
        volume = self._volumes.get(handle)
        if not Path(path).exists():
            raise not_found(path)
        return volume, Path(path)

    def _mount(self, volume: Volume, target: str, capability: csi.VolumeCapability) -> None:
        if not kernel.is_mounted(target):
            Path(target).mkdir(parents=True, exist_ok=True)
            if volume.medium:
                kernel.mount_tmpfs(target, volume.size)
            else:
                kernel.bind(str(self._volumes.directory(volume)), target)
        group = capability.mount.volume_mount_group
        if group and MOUNT_GROUP in self._profile.node:
            os.chown(target, -1, int(group))

    def _publish(self, volume: Volume, request: csi.NodePublishVolumeRequest) -> None:
        target = request.target_path
        if volume.block:
            device = kernel.attach_loop(self._volumes.image(volume))
            self._once(target, lambda: kernel.bind(device, target), Path.touch)
        elif STAGE in self._profile.node:
            source = request.staging_target_path
            self._once(target, lambda: kernel.bind(source, target, read_only=request.readonly), Path.mkdir)
        else:
            self._once(target, lambda: self._mount(volume, target, request.volume_capability), Path.mkdir)

    def _publish_inline(self, request: csi.NodePublishVolumeRequest) -> None:
        target = request.target_path
        if self._profile.inline == "files":
            Path(target).mkdir(parents=True, exist_ok=True)
            (Path(target) / "inline").write_text(request.volume_id)
        else:
            size = int(request.volume_context.get("size", MIB))
            self._once(target, lambda: kernel.mount_tmpfs(target, size), Path.mkdir)

    def _once(self, target: str, mount: Callable[[], None], make: Callable[[Path], None]) -> None:
        if kernel.is_mounted(target) and not self._profile.stacks:
            return
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(target):
            make(Path(target))
        mount()


def _is_inline(request: csi.NodePublishVolumeRequest) -> bool:
    """Tell whether a volume is a Pod's own; to a driver whose CSIDriver has no podInfoOnMount only its id says so."""
    told = request.volume_context.get(EPHEMERAL)
    return told == "true" or (told is None and INLINE_ID.fullmatch(request.volume_id) is not None)


def _size_on_node(volume: Volume) -> int:
    return volume.node_size or volume.size


def _bytes_below(top: Path) -> int:
    return sum(path.lstat().st_size for path in top.rglob("*") if path.is_file())
