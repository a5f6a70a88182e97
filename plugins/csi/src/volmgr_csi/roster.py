"""Who is registered, and by which socket: what handshakes add to and take from, each on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from volmgr.plugin import Drivers
from volmgr_csi.connection import Connection
from volmgr_csi.drivers import Driver, KnownDrivers
from volmgr_csi.registrar_rules import RefusedError, Version


@dataclass(frozen=True, slots=True)
class Entry:
    """One driver that is registered: by which socket, and for which version of CSI."""

    socket: str
    version: Version
    driver: Driver


@dataclass(slots=True)
class Roster:
    """The drivers that are registered; what is retired is known to `known` alone."""

    known: KnownDrivers
    drivers: Drivers
    connect: Callable[[str, str], Connection]
    """Gives the way to a driver of a name that serves a socket."""
    _entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def entries(self) -> dict[str, Entry]:
        """Give all that are registered, by name."""
        with self._lock:
            return dict(self._entries)

    def name_at(self, socket: str) -> str:
        """Give the driver that a socket registered, or nothing."""
        return next((name for name, entry in self.entries().items() if entry.socket == socket), "")

    def check(self, name: str, version: Version, socket: str) -> None:
        """Refuse a driver whose name another socket has registered; raises RefusedError.

        As kubelet does, unless it is for a higher version of CSI. One of the configuration yields to a registrar.
        """
        found = self.entries().get(name)
        if found is None or found.socket == socket or found.version < version:
            return
        raise RefusedError(f"another csi driver of the name {name} is registered already, by {found.socket}")

    def connection(self, name: str, endpoint: str) -> Connection:
        """Give the way to a driver: that which there is, where it leads to the same socket."""
        found = self.known.find(name)
        if found is not None and found.connection.socket == endpoint:
            return found.connection
        return self.connect(name, endpoint)

    def install(self, entry: Entry, is_wanted: Callable[[], bool]) -> bool:
        """Let a driver be there, unless what it registered by has gone meanwhile; False then."""
        driver = entry.driver
        with self._lock:
            if not is_wanted():
                return False
            before = self.known.find(driver.name)
            self._entries[driver.name] = entry
            self.known.put(driver)
            self.drivers.declare(driver.info)
        if before is not None and before.connection is not driver.connection:
            before.connection.close()
        return True

    def renew(self, driver: Driver) -> bool:
        """Replace what is known of a driver that is registered, by the same connection; False when it is not."""
        with self._lock:
            entry = self._entries.get(driver.name)
            if entry is None or entry.driver.connection is not driver.connection:
                return False
            self._entries[driver.name] = replace(entry, driver=driver)
            self.known.put(driver)
            self.drivers.declare(driver.info)
        return True

    def leave(self, socket: str) -> str:
        """Retire the driver that a socket registered; give its name, or nothing.

        What is mounted is still unmounted by it, as long as it answers.
        """
        with self._lock:
            name = next((name for name, entry in self._entries.items() if entry.socket == socket), "")
            if not name:
                return ""
            entry = self._entries.pop(name)
            self.known.put(replace(entry.driver, retired=True))
            self.drivers.withdraw(name)
        return name
