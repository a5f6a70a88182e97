"""A registrar of our own: it registers the driver of a socket, as node-driver-registrar does beside a driver."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.csi.fault_driver.calls import Call, CallLog, read_calls
from tests.csi.fault_driver.registration import Registration, registration_services
from tests.csi.fault_driver.rules import Rule, Script
from tests.csi.fault_driver.server import Service


@dataclass(frozen=True)
class Registrar:
    """One that runs, in threads of this process."""

    socket: Path
    log: Path
    rules: Script

    def script(self, *rules: Rule) -> None:
        """Let its answers go wrong: `GetInfo`, `NotifyRegistrationStatus`."""
        self.rules.add(rules)

    def calls(self) -> list[Call]:
        """Give what it was asked, and told."""
        return read_calls(self.log)


@contextmanager
def running_registrar(socket: Path, log: Path, registration: Registration) -> Generator[Registrar]:
    """Serve a registration on a socket, which has to be new."""
    script = Script()
    service = Service(script, CallLog(log), registration.works(), may_crash=False)
    socket.parent.mkdir(parents=True, exist_ok=True)
    server = service.served_at(socket, registration_services())
    try:
        yield Registrar(socket, log, script)
    finally:
        script.end()
        server.stop(grace=None).wait()
