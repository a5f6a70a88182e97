"""overlay: directories of the node, one over the other, and what a Pod writes on top of them.

What is written lies beside the Pod's volumes, on the file system of the root directory, and goes with the Pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from volmgr.plugin import (
    Handles,
    Host,
    Mount,
    Mounted,
    OperationError,
    Pod,
    SpecError,
    TransientError,
    UncertainError,
    Unmount,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
)

_NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_FORBIDDEN = frozenset(':,\\"')
"""What would end a directory's name in the options of the mount."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlaySource:
    """`overlay` of a Pod volume or PersistentVolume: directories of the node, the uppermost first."""

    lower: tuple[str, ...] = ()
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayAttributes:
    """`csi`, in which an API server lets only texts through: directories with colons between them."""

    volume_attributes: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    read_only: bool = False

    @property
    def lower(self) -> tuple[str, ...]:
        return _split(self.volume_attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayOptions:
    """`flexVolume`: as `csi`."""

    options: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    read_only: bool = False

    @property
    def lower(self) -> tuple[str, ...]:
        return _split(self.options)


AnySource = OverlaySource | OverlayAttributes | OverlayOptions


class Overlay(VolumePlugin[AnySource]):
    """Give a Pod directories of the node as one, which it may change without changing them."""

    name = "example.com/overlay"
    api_version = 1
    handles = (
        Handles("overlay", source=OverlaySource),
        Handles("csi", driver="overlay.example.com", source=OverlayAttributes),
        Handles("flexVolume", driver="example.com/overlay", source=OverlayOptions),
    )
    _device = "overlay"
    """What the mount table shows as its source."""

    def check(self, spec: VolumeSpec[AnySource], pod: Pod | None) -> None:
        del pod
        _layers(spec.source)

    def mount(self, request: Mount[AnySource], host: Host) -> Mounted:
        lower = _layers(request.spec.source)
        for path in lower:
            _must_be_there(Path(path), host)
        own = _own(request.pod.uid, request.spec.name, host)
        places = (f"lowerdir={':'.join(lower)}", f"upperdir={own / 'upper'}", f"workdir={own / 'work'}")
        # uuid: by itself, the kernel gives one to a new upper directory and none to the same one after a reboot.
        options = (*places, "uuid=on", *(("ro",) if request.read_only else ()))
        try:
            host.files.ensure_directory(own / "upper", 0o755)
            host.files.ensure_directory(own / "work", 0o700)
            host.files.ensure_directory(request.target, 0o750)
            host.mounts.ensure_mounted(request.target, "overlay", source=self._device, options=options)
        except (OperationError, TransientError) as error:
            raise UncertainError(f"{request.target} may be mounted: {error}") from error
        return Mounted()

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        host.mounts.unmount_below(request.target)
        host.files.remove_directory(request.target)
        host.files.discard(_own(request.pod_uid, request.spec_name, host))
        return Unmounted()


def _split(texts: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(path for path in texts.get("lower", "").split(":") if path)


def _layers(source: AnySource) -> tuple[str, ...]:
    if not source.lower:
        raise SpecError("lower names no directory; write at least one")
    for path in source.lower:
        if not path.startswith("/") or _FORBIDDEN.intersection(path):
            raise SpecError(f"lower: {path!r} must be an absolute path without colon, comma, quote and backslash")
    return source.lower


def _own(pod_uid: str, name: str, host: Host) -> Path:
    """Give where the type keeps what is written to one volume."""
    return host.paths.pod_plugin(pod_uid, Overlay.name, name)


def _must_be_there(path: Path, host: Host) -> None:
    info = host.files.info(path, follow=True)
    if info is None:
        raise TransientError(f"{path} does not exist on this node", waits_for=str(path))
    if info.kind != "directory":
        raise OperationError(f"{path} is a {info.kind}; an overlay needs a directory")
