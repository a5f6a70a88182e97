"""What the configuration says: where drivers of `flexVolume` are."""

from __future__ import annotations

from dataclasses import dataclass, field

NAME = "kubernetes.io/flexvolume"
"""kubelet's name for all drivers: the directory of their device mounts, and our settings in the configuration."""

FLEX_DIR = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
"""kubelet's --volume-plugin-dir."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlexVolumeSettings:
    """What the configuration says below `plugins`, `kubernetes.io/flexvolume`."""

    flex_dir: str = field(default=FLEX_DIR, metadata={"name": "flex_dir"})
    """Where drivers are installed, as `vendor~driver/driver`."""
    init_deadline: float = field(default=30.0, metadata={"name": "init_deadline"})
    """Seconds that a driver's `init` may take; kubelet waits for ever."""
    watch_retry: float = field(default=30.0, metadata={"name": "watch_retry"})
    """Seconds until the directory is watched again after inotify could not be had."""
