"""What the contract suite tries csi with: drivers behind a real socket, which work on the very host that is tested."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc

from volmgr.plugin import CSIDriver, CsiSource, DriverInfo, Host, ObjectMeta, PersistentVolume, VolmgrError, VolumeMode
from volmgr.testing import Sample
from volmgr_csi.driver import methods
from volmgr_csi.driver.connection import Connection
from volmgr_csi.driver.drivers import Abilities, Driver, KnownDrivers, drivers_of
from volmgr_csi.v1 import csi_pb2 as csi

STAGING, DIRECT = "staging.example.com", "direct.example.com"
DIRECTORY, IMAGE = "directory", "image"
"""What a volume is made of: attributes that say where it lies."""
_SIZE = 1 << 20
_CALLS_AT_ONCE = 4

_hosts: dict[Path, Host] = {}
_drivers: dict[Path, KnownDrivers] = {}
_images: dict[tuple[Path, str], Path] = {}


def samples(top: Path) -> Iterator[Sample]:
    """Give a volume that is staged, one that is not, one of a Pod, and a block volume."""
    yield _persistent("staged", STAGING, {DIRECTORY: f"{top}/volume"})
    yield _persistent("not staged", DIRECT, {DIRECTORY: f"{top}/volume"})
    inline = CsiSource(driver=DIRECT, fs_type="tmpfs")
    yield _Sample(title="inline", source=inline, objects=(_driver_object(DIRECT, "Ephemeral"),), arrange=_arrange)
    yield _persistent("block", STAGING, {IMAGE: f"{top}/disk.img"}, mode=VolumeMode.BLOCK)


@dataclass(frozen=True, kw_only=True)
class _Sample(Sample):
    title: str

    def __str__(self) -> str:
        return self.title


def _persistent(title: str, driver: str, made_of: dict[str, str], mode: VolumeMode = VolumeMode.FILESYSTEM) -> Sample:
    source = CsiSource(driver=driver, volume_handle=f"{mode} volume", fs_type="ext4", volume_attributes=made_of)
    modes = ("ReadWriteOnce",)
    pv = PersistentVolume(metadata=ObjectMeta(name="data"), type="csi", access_modes=modes, volume_mode=mode)
    return _Sample(
        title=title,
        source=source,
        objects=(_driver_object(driver, "Persistent"),),
        spec={"pv": pv, "access_modes": modes, "mode": mode},
        arrange=partial(_arrange, made_of=made_of),
    )


def _driver_object(driver: str, mode: str) -> CSIDriver:
    return CSIDriver(metadata=ObjectMeta(name=driver), attach_required=False, volume_lifecycle_modes=(mode,))


def _arrange(host: Host, made_of: Mapping[str, str] = MappingProxyType({})) -> None:
    """Let both drivers be registered on a host, and a volume be there."""
    if DIRECTORY in made_of:
        host.files.ensure_directory(Path(made_of[DIRECTORY]), 0o755)
    if IMAGE in made_of:
        host.files.write(Path(made_of[IMAGE]), bytes(_SIZE))
    root = host.paths.root
    _hosts[root] = host
    known = _drivers[root] = drivers_of(host)
    for name in (STAGING, DIRECT):
        info = DriverInfo(name=name, node_id="node-1")
        abilities = Abilities(stage=name == STAGING, expand=True, stats=True)
        known.put(Driver(info=info, abilities=abilities, connection=Connection(name, _socket())))


@cache
def _socket() -> str:
    """Serve from the first use on: threads have the mount namespace of who starts them."""
    top = tempfile.TemporaryDirectory()
    served = f"{top.name}/csi.sock"
    server = grpc.server(ThreadPoolExecutor(_CALLS_AT_ONCE))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("csi.v1.Node", _handlers()),))
    server.add_insecure_port(f"unix:{served}")
    server.start()
    atexit.register(top.cleanup)
    atexit.register(lambda: server.stop(None).wait())
    return served


def _handlers() -> dict[str, Any]:
    return {
        method.name: grpc.unary_unary_rpc_method_handler(
            _Answer(work), request_deserializer=method.question.FromString, response_serializer=_bytes_of
        )
        for method, work in works().items()
    }


def works() -> Mapping[methods.Method[Any, Any], Callable[[Any, Host], Any]]:
    """Give what a driver does on a host, by method."""
    return {
        methods.STAGE: _stage,
        methods.UNSTAGE: _unstage,
        methods.PUBLISH: _publish,
        methods.UNPUBLISH: _unpublish,
        methods.STATS: _stats,
        methods.EXPAND: _expand,
    }


def _bytes_of(message: Any) -> bytes:  # noqa: ANN401 - any message
    text: bytes = message.SerializeToString()
    return text


@dataclass(frozen=True)
class _Answer:
    """Does the work of one call on the host whose path it names."""

    work: Callable[[Any, Host], Any]

    def __call__(self, question: Any, context: grpc.ServicerContext) -> Any:  # noqa: ANN401 - any messages
        fields = ("staging_target_path", "target_path", "volume_path")
        path = next(Path(said) for field in fields if (said := getattr(question, field, "")))
        host = next(_hosts[root] for root in path.parents if root in _hosts)
        try:
            return self.work(question, host)
        except VolmgrError as error:
            context.abort(grpc.StatusCode.INTERNAL, str(error))


def _stage(question: csi.NodeStageVolumeRequest, host: Host) -> csi.NodeStageVolumeResponse:
    _make(question.volume_id, question.volume_context, Path(question.staging_target_path), host)
    return csi.NodeStageVolumeResponse()


def _make(handle: str, made_of: Any, target: Path, host: Host) -> None:  # noqa: ANN401 - protobuf's map
    if IMAGE in made_of:
        image = _images[(host.paths.root, handle)] = Path(made_of[IMAGE])
        host.block.attach_loop(image)
    elif DIRECTORY in made_of:
        host.mounts.ensure_bound(Path(made_of[DIRECTORY]), target)
    else:
        host.mounts.ensure_mounted(target, "tmpfs", source=handle, options=(f"size={_SIZE}", "mode=0755"))


def _unstage(question: csi.NodeUnstageVolumeRequest, host: Host) -> csi.NodeUnstageVolumeResponse:
    host.mounts.unmount(Path(question.staging_target_path))
    image = _images.get((host.paths.root, question.volume_id))
    for loop in host.block.find_loops(image) if image else ():
        host.block.detach_loop(loop)
    return csi.NodeUnstageVolumeResponse()


def _publish(question: csi.NodePublishVolumeRequest, host: Host) -> csi.NodePublishVolumeResponse:
    target, options = Path(question.target_path), ("ro",) if question.readonly else ()
    if question.volume_capability.HasField("block"):
        if not host.mounts.is_mount_point(target):
            host.files.ensure_file(target)
        host.mounts.ensure_bound(host.block.attach_loop(_images[(host.paths.root, question.volume_id)]), target)
        return csi.NodePublishVolumeResponse()
    host.files.ensure_directory(target, 0o750)
    if question.staging_target_path:
        host.mounts.ensure_bound(Path(question.staging_target_path), target, options=options)
    else:
        _make(question.volume_id, question.volume_context, target, host)
    return csi.NodePublishVolumeResponse()


def _unpublish(question: csi.NodeUnpublishVolumeRequest, host: Host) -> csi.NodeUnpublishVolumeResponse:
    target = Path(question.target_path)
    host.mounts.unmount(target)
    info = host.files.info(target)
    if info is not None and info.kind == "directory":
        host.files.remove_directory(target)
    else:
        host.files.remove_file(target)
    return csi.NodeUnpublishVolumeResponse()


def _stats(question: csi.NodeGetVolumeStatsRequest, host: Host) -> csi.NodeGetVolumeStatsResponse:
    unit, image = csi.VolumeUsage, _images.get((host.paths.root, question.volume_id))
    if image is not None:
        size = host.block.size(host.block.attach_loop(image))
        return csi.NodeGetVolumeStatsResponse(usage=[unit(unit=unit.BYTES, total=size)])
    now = host.filesystems.measure(Path(question.volume_path))
    return csi.NodeGetVolumeStatsResponse(
        usage=[
            unit(unit=unit.BYTES, total=now.capacity, available=now.available, used=now.used),
            unit(unit=unit.INODES, total=now.inodes, available=now.inodes_free, used=now.inodes_used),
        ]
    )


def _expand(question: csi.NodeExpandVolumeRequest, _host: Host) -> csi.NodeExpandVolumeResponse:
    return csi.NodeExpandVolumeResponse(capacity_bytes=question.capacity_range.required_bytes)
