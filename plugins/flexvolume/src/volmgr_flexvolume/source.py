"""What a manifest and the configuration say: `flexVolume` of a Pod or PersistentVolume, and where its drivers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

FIELD = "flexVolume"
"""The field of a Pod volume or PersistentVolume."""

NAME = "kubernetes.io/flexvolume"
"""kubelet's name for all drivers: the directory of their device mounts, and our settings in the configuration."""

FLEX_DIR = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
"""kubelet's --volume-plugin-dir."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """The Secret whose keys a driver is given; of a Pod's volume it is in the Pod's namespace."""

    name: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlexVolumeSource:
    """`flexVolume`: a driver's name, and what only the driver understands."""

    driver: str
    fs_type: str = ""
    secret_ref: SecretRef | None = None
    read_only: bool = False
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlexVolumeSettings:
    """What the configuration says below `plugins`, `kubernetes.io/flexvolume`."""

    flex_dir: str = field(default=FLEX_DIR, metadata={"name": "flex_dir"})
    """Where drivers are installed, as `vendor~driver/driver`."""
    init_deadline: float = field(default=30.0, metadata={"name": "init_deadline"})
    """Seconds that a driver's `init` may take; kubelet waits for ever."""
    watch_retry: float = field(default=30.0, metadata={"name": "watch_retry"})
    """Seconds until the directory is watched again after inotify could not be had."""
