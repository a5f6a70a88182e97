"""A driver in threads of a test, known to a host in memory as if it had registered."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.csi.fault_driver.running import ThreadDriver, running_fault_driver
from volmgr.plugin import DriverInfo
from volmgr.testing import FakeHost
from volmgr_csi.driver.connection import Connection
from volmgr_csi.driver.drivers import Abilities, Driver, KnownDrivers, drivers_of


@dataclass(frozen=True)
class Control:
    """A driver, and the host that knows it."""

    fault: ThreadDriver
    host: FakeHost
    known: KnownDrivers

    def register(self, node_id: str = "machine-1") -> Driver:
        """Let it be known, under a name for the node."""
        profile = self.fault.profile
        info = DriverInfo(name=profile.name, node_id=node_id, topology=profile.topology)
        connection = Connection(profile.name, str(self.fault.socket))
        abilities = Abilities(stage=True, expand=True)
        driver = Driver(info=info, abilities=abilities, connection=connection, controller=frozenset(profile.controller))
        self.known.put(driver)
        return driver

    def methods(self) -> list[str]:
        """Name what it was asked."""
        return [call.method for call in self.fault.calls()]


@contextmanager
def controlled(top: Path, **said: Any) -> Generator[Control]:  # noqa: ANN401 - fields of any type
    """Run a driver and let it be known; `said` are fields of its profile."""
    with running_fault_driver(top / "driver", **said) as fault:
        host = FakeHost()
        control = Control(fault, host, drivers_of(host))
        driver = control.register()
        try:
            yield control
        finally:
            driver.connection.close()
