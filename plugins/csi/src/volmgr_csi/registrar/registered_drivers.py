"""Who is registered, and by which socket: what handshakes add to and take from, each on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from volmgr.plugin import Drivers
from volmgr_csi.driver.connection import UNAVAILABLE, CallError, Connection
from volmgr_csi.driver.drivers import Driver, KnownDrivers
from volmgr_csi.driver.sockets import Stamp
from volmgr_csi.registrar.rules import RefusedError, Version


class TakenError(RefusedError):
    """Another socket has registered a driver of that name."""


@dataclass(frozen=True, slots=True)
class Registration:
    """One driver that is registered: by which socket, and for which version of CSI."""

    socket: str
    version: Version
    driver: Driver
    served: Stamp | None
    """The socket that it served when it was asked what it can do."""
    is_complete: bool = True
    """It has said all that it was asked."""


@dataclass(slots=True)
class RegisteredDrivers:
    """The drivers that are registered; what is retired is known to `known` alone."""

    known: KnownDrivers
    drivers: Drivers
    connect: Callable[[str, str], Connection]
    """Gives the way to a driver of a name that serves a socket."""
    _entries: dict[str, Registration] = field(default_factory=dict[str, Registration])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def entries(self) -> dict[str, Registration]:
        """Give all that are registered, by name."""
        with self._lock:
            return dict(self._entries)

    def check(self, name: str, version: Version, socket: str) -> None:
        """Refuse a driver whose name another socket has registered; raises TakenError.

        As kubelet does, unless it is for a higher version of CSI. One of the configuration yields to a registrar.
        """
        with self._lock:
            self._check(name, version, socket)

    def is_taken(self, name: str, version: Version, socket: str) -> bool:
        """Say whether `check` refuses a driver."""
        with self._lock:
            return self._holder(name, version, socket) is not None

    def connection(self, name: str, endpoint: str) -> tuple[Connection, bool]:
        """Give the way to a driver, that which there is where it leads to the same socket, and whether it is new."""
        found = self.known.find(name)
        if found is not None and found.connection.socket == endpoint and not found.connection.is_closed:
            return found.connection, False
        return self.connect(name, endpoint), True

    def install(self, entry: Registration, is_wanted: Callable[[], bool]) -> bool:
        """Let a driver be there, unless what it registered by has gone meanwhile; False then.

        Raises TakenError, as `check` does, and CallError where another took the driver over, and left, meanwhile.
        """
        driver = entry.driver
        with self._lock:
            if not is_wanted():
                return False
            self._check(driver.name, entry.version, entry.socket)
            if driver.connection.is_closed:
                raise CallError(driver.name, "registration", UNAVAILABLE, "another socket had it meanwhile")
            before = self.known.find(driver.name)
            driver.connection.confirms, driver.connection.served = False, entry.served
            self._entries[driver.name] = entry
            self.known.put(driver)
            self.drivers.declare(driver.info)
            if before is not None and before.connection is not driver.connection:
                before.connection.close()
        return True

    def renew(self, driver: Driver, served: Stamp | None, *, is_complete: bool) -> None:
        """Replace what is known of a driver, while it is registered by the same connection."""
        with self._lock:
            entry = self._entries.get(driver.name)
            if entry is None or entry.driver.connection is not driver.connection:
                return
            self._entries[driver.name] = replace(entry, driver=driver, served=served, is_complete=is_complete)
            driver.connection.served = served
            self.known.put(driver)
            self.drivers.declare(driver.info)

    def leave(self, name: str, socket: str) -> bool:
        """Retire a driver, if it is a socket that registered it; say whether it is.

        What is mounted is still unmounted by it, as long as it answers.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is None or entry.socket != socket:
                return False
            retired = replace(entry.driver, retired=True)
            del self._entries[name]
            retired.connection.confirms = True
            self.known.put(retired)
            self.drivers.withdraw(name)
        return True

    def _check(self, name: str, version: Version, socket: str) -> None:
        holder = self._holder(name, version, socket)
        if holder is not None:
            raise TakenError(f"another csi driver of the name {name} is registered already, by {holder.socket}")

    def _holder(self, name: str, version: Version, socket: str) -> Registration | None:
        """Give who keeps a socket from registering a driver."""
        found = self._entries.get(name)
        return None if found is None or found.socket == socket or found.version < version else found
