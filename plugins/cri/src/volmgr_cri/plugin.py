"""CRI: what the core calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from volmgr.plugin import Host, Service, hookimpl
from volmgr_cri.holders import Holders
from volmgr_cri.settings import NAME, CriSettings


@hookimpl
def volmgr_settings() -> Mapping[str, type[Any]]:
    """Say what the configuration may say."""
    return {NAME: CriSettings}


@hookimpl
def volmgr_hold_watchers(recheck: Callable[[str], None], host: Host) -> Iterable[Service]:
    """Answer who runs a Pod, and notice when that changes."""
    return (Holders(recheck, host.settings_of(CriSettings)),)
