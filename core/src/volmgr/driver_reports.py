"""Drivers that come and go: what a package says of its own, passed on to the reconciler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from volmgr.messages import (
    DriverAppeared,
    DriverDeclared,
    DriversSearched,
    DriverVanished,
    DriverWithdrawn,
    Message,
)
from volmgr.plugin import DriverInfo, Searched, VolumePlugin
from volmgr.volume_type import Origin


class DriverReports:
    """Implements `volmgr.plugin.Drivers` for one package."""

    def __init__(self, post: Callable[[Message], None], origin: Origin) -> None:
        self._post = post
        self._origin = origin

    def register(self, plugin: VolumePlugin[Any]) -> None:
        """Add a driver, or replace the one of that name."""
        self._post(DriverAppeared(plugin, self._origin))

    def retire(self, name: str) -> None:
        """Say that a driver has vanished."""
        self._post(DriverVanished(name))

    def declare(self, info: DriverInfo) -> None:
        """Say that a driver is there."""
        self._post(DriverDeclared(info))

    def withdraw(self, name: str) -> None:
        """Say that a driver has vanished."""
        self._post(DriverWithdrawn(name))

    def report(self, searched: Searched) -> None:
        """Say where drivers are looked for."""
        self._post(DriversSearched(searched))
