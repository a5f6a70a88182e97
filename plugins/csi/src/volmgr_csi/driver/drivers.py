"""The drivers that are there: how each is reached, and what it can do. Shared by the volume type and who registers.

Volumes are nobody's concern here; what is known of a driver is asked of it anew when it registers again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from volmgr.plugin import DriverInfo, Host, TransientError, driver_awaited

if TYPE_CHECKING:
    from volmgr_csi.driver.connection import Connection


START = "start it, and its registrar"
"""What to do for a driver of which nothing else is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What the node service of a driver can do (`NodeGetCapabilities`)."""

    stage: bool = False
    expand: bool = False
    stats: bool = False
    mount_group: bool = False
    single_node_multi_writer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver that can be called."""

    info: DriverInfo
    abilities: Abilities
    connection: Connection
    controller: frozenset[str] = frozenset()
    """What its controller service can do, by CSI's names (`CREATE_DELETE_VOLUME`); empty: it has none here."""
    retired: bool = False
    """It is not registered any more: what is there is still unmounted by it, as long as it answers."""

    @property
    def name(self) -> str:
        """Its name, such as `hostpath.csi.k8s.io`."""
        return self.info.name


class KnownDrivers:
    """The drivers of one root directory; may be asked, and told, on any thread."""

    def __init__(self) -> None:
        self.refreshed: Callable[[str], None] = _nobody_hears
        """Hears which driver is to be asked anew: who registers puts itself here, and below."""
        self.unreached: Callable[[str], None] = _nobody_hears
        """Hears which driver somebody waits for now, because nobody listens at its socket."""
        self.absences: Mapping[str, str] = MappingProxyType({})
        """Why a driver is not there, and what to do, by its name, as who registers knows it."""
        self._lock = threading.Lock()
        self._drivers: dict[str, Driver] = {}
        self._periods: dict[str, float] = {}

    def put(self, driver: Driver) -> None:
        """Let there be a driver, in place of the one of that name."""
        with self._lock:
            self._drivers[driver.name] = driver

    def drop(self, name: str) -> None:
        """Let there be no such driver any more."""
        with self._lock:
            self._drivers.pop(name, None)

    def all(self) -> tuple[Driver, ...]:
        """Give every driver, retired ones too."""
        with self._lock:
            return tuple(self._drivers.values())

    def find(self, name: str) -> Driver | None:
        """Give a driver, retired or not, or None."""
        with self._lock:
            return self._drivers.get(name)

    def making(self, name: str) -> Driver:
        """Give a driver that makes something; raises TransientError, which waits until it registers, or answers."""
        found = self.find(name)
        if found is None or found.retired:
            raise self._absent(name)
        if found.connection.is_replaced:
            text = f"csi driver {name} has started again, and is being asked what it can do"
            raise self._awaited(name, text)
        return self._reached(found)

    def unmaking(self, name: str) -> Driver:
        """Give a driver that takes something away, be it retired; raises TransientError."""
        found = self.find(name)
        if found is None or (found.retired and not found.connection.is_answering()):
            raise self._absent(name)
        return self._reached(found)

    def refresh(self, name: str) -> None:
        """Have a driver asked anew what it is for this node: what it said of its limit does not hold any more."""
        self.refreshed(name)

    def refresh_every(self, name: str, period: float) -> None:
        """Have a driver asked anew each so many seconds, as its CSIDriver wishes; 0: never."""
        with self._lock:
            if self._periods.get(name, 0.0) == period:
                return
            self._periods[name] = period
        self.refreshed("")

    def period(self, name: str) -> float:
        """Give how often a driver is asked anew, in seconds; 0: never."""
        with self._lock:
            return self._periods.get(name, 0.0)

    def _reached(self, driver: Driver) -> Driver:
        """Give a driver if somebody listens at its socket: nothing has happened yet if nobody does."""
        if driver.connection.is_answering():
            return driver
        text = f"nobody listens at {driver.connection.socket}, the socket of csi driver {driver.name}; start it again"
        raise self._awaited(driver.name, text)

    def _awaited(self, name: str, text: str) -> TransientError:
        self.unreached(name)
        return TransientError(text, waits_for=driver_awaited(name))

    def _absent(self, name: str) -> TransientError:
        why = self.absences.get(name, f"it was never seen on this node; {START}")
        text = f"driver name {name} not found in the list of registered CSI drivers: {why}"
        return TransientError(text, waits_for=driver_awaited(name))


def _nobody_hears(_name: str) -> None:
    """Tell nobody."""


_by_root: WeakValueDictionary[Path, KnownDrivers] = WeakValueDictionary()
_by_root_lock = threading.Lock()


def drivers_of(host: Host) -> KnownDrivers:
    """Give the drivers of a root directory: one object for the volume type and who registers, which has no other way.

    Whoever registers keeps it alive.
    """
    with _by_root_lock:
        known = _by_root.get(host.paths.root)
        if known is None:
            known = _by_root[host.paths.root] = KnownDrivers()
        return known
