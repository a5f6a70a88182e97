"""What the configuration says below `plugins`, `kubernetes.io/csi`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

NAME = "kubernetes.io/csi"
"""kubelet's name for all drivers: directories, unique names, and our settings in the configuration."""


def _seconds(name: str, default: float) -> float:
    option: float = field(default=default, metadata={"name": name})
    return option


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiSettings:
    """All options; durations are seconds."""

    drivers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Drivers without a registrar: the socket of each, by its name; it is asked for its name, and must say the same."""
    call_timeout: float = _seconds("call_timeout", 120.0)
    """What one call of a driver may take; kubelet's csiTimeout, 2 min."""
    dial_timeout: float = _seconds("dial_timeout", 10.0)
    """What connecting to a registration socket may take; kubelet's dialTimeoutDuration, 10 s."""
    info_timeout: float = _seconds("info_timeout", 1.0)
    """What a registration socket may take to say what it registers; kubelet's 1 s."""
    notify_timeout: float = _seconds("notify_timeout", 5.0)
    """What a registration socket may take to hear whether it is registered; kubelet's notifyTimeoutDuration, 5 s."""
    channel_idle: float = _seconds("channel_idle", 3.0)
    """After how long without a call the channel to a driver is closed: an open one wakes 10 times a second."""
    republish_interval: float = _seconds("republish_interval", 60.0)
    """How often volumes are published again whose CSIDriver says requiresRepublish; about kubelet's sync of a Pod."""
    watch_retry: float = _seconds("watch_retry", 60.0)
    """How long to wait before the directory of registration sockets is watched again where inotify is not to be had."""
    extra_create_metadata: bool = field(default=False, metadata={"name": "extra_create_metadata"})
    """Whether drivers are told the names of a claim and its volume when they make it; external-provisioner's option."""
    paths: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    """For drivers that see the node's directories elsewhere, by name: directories here, and what each is there."""
