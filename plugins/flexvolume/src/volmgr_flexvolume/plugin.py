"""flexVolume: what the core calls. Each driver is a volume type of its own, which the prober finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from volmgr.plugin import Drivers, Host, Service, hookimpl
from volmgr_flexvolume.prober import Prober
from volmgr_flexvolume.source import NAME, FlexVolumeSettings


@hookimpl
def volmgr_settings() -> Mapping[str, type[Any]]:
    """Say what the configuration may say."""
    return {NAME: FlexVolumeSettings}


@hookimpl
def volmgr_driver_watchers(drivers: Drivers, host: Host) -> Iterable[Service]:
    """Watch the directory of drivers."""
    return (Prober(drivers, host, host.settings_of(FlexVolumeSettings)),)
