"""Drivers that come and go while the daemon runs: those of a type of their own each, and those that a type serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from volmgr.errors import PluginError
from volmgr.messages import (
    Ask,
    DriverAppeared,
    DriverDeclared,
    DriversSearched,
    DriverVanished,
    DriverWithdrawn,
    Message,
)
from volmgr.model.driver_info import driver_awaited
from volmgr.model.driver_sources import CSI_FIELD
from volmgr.report.events import Severity

if TYPE_CHECKING:
    from volmgr.desk import Desk
    from volmgr.tenancy import Tenancy


class RegisteredDrivers:
    """Hears of them on the reconciler's thread; `changed` lets everything be looked at again."""

    def __init__(self, desk: Desk, tenancy: Tenancy, changed: Callable[[], None]) -> None:
        self._desk = desk
        self._world = desk.world
        self._tenancy = tenancy
        self._changed = changed

    # --- each of them a type: they change what is installed ---

    def register(self, message: DriverAppeared) -> None:
        try:
            self._world.plugins.replace_driver(message.plugin, message.origin)
        except PluginError as error:
            self._desk.event(Severity.WARNING, "DriverRefused", str(error))
        else:
            self._desk.event(Severity.NORMAL, "DriverRegistered", f"{message.plugin.name} of {message.origin}")
            self._desk.appeared(message.plugin.name)
        self._changed()

    def retire(self, message: DriverVanished) -> None:
        self._world.plugins.retire(message.name)
        self._desk.event(Severity.WARNING, "DriverVanished", f"{message.name}: unmounts are still served")
        self._changed()

    def note_search(self, message: DriversSearched) -> None:
        searched = message.searched
        before = self._world.plugins.searched.get(searched.field)
        self._world.plugins.searched[searched.field] = searched
        if searched.problem and (before is None or before.problem != searched.problem):
            self._desk.event(Severity.WARNING, "DriversNotWatched", f"{searched.field}: {searched.problem}")
        if before is not None and before.looking and not searched.looking:
            self._look_again(searched.field)
            self._desk.run_until_done("telling claims that drivers were looked for", self._tell_claims)
        else:
            self._reconsider()  # one of their errors may say where a driver was looked for

    def _tell_claims(self) -> Message:
        """Let what is said of claims be of the drivers that there are, on a worker."""
        if self._desk.outside.provisions is not None:
            self._desk.outside.provisions.look_again()
        return Ask(self._reconsider)

    def _look_again(self, field: str, driver: str = "") -> None:
        """Look at volumes that waited until drivers were looked for, of one driver or all."""
        for volume in (*self._world.desired, *self._world.actual):
            spec = volume.spec
            if spec is not None and spec.type == field and driver in {"", spec.driver}:
                self._desk.dirty[volume.name] = None

    # --- all of them served by one type ---

    def declare(self, message: DriverDeclared) -> None:
        info = message.info
        owner = self._world.plugins.drivers_of(CSI_FIELD).get(info.name)
        if owner is not None:
            text = f"{info.name} at {info.endpoint} is not used: {owner.origin}, which is installed, serves that driver"
            text = f"{text}; uninstall one of them"
            self._desk.event(Severity.WARNING, "DriverRefused", text)
            return
        old = self._world.drivers.get(info.name)
        if old == info:
            return
        self._world.drivers[info.name] = info
        self._world.drivers_gone.pop(info.name, None)
        self._desk.outside.declared(info)
        if old is None or old.since != info.since:
            text = f"{info.name}, for which the node is {info.node_id}"
            self._desk.event(Severity.NORMAL, "DriverRegistered", text)
        self._desk.appeared(driver_awaited(info.name))
        if self._world.is_looking_for_drivers(CSI_FIELD):
            self._look_again(CSI_FIELD, info.name)
        if info.topology and (old is None or old.topology != info.topology):
            self._reconsider()

    def _reconsider(self) -> None:
        """Look again at Pods with a volume that could not be resolved: it may be reachable from where the node is."""
        for uid, entry in tuple(self._world.pods.items()):
            if entry.errors or entry.awaited:
                self._tenancy.populate(uid)

    def withdraw(self, message: DriverWithdrawn) -> None:
        if self._world.drivers.pop(message.name, None) is not None:
            self._world.drivers_gone[message.name] = self._world.clock
            self._desk.outside.withdrawn(message.name)
            self._desk.event(Severity.WARNING, "DriverVanished", f"{message.name} is not registered any more")
