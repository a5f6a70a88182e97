"""The driver in this process: its services, its script and its records below one directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from tests.csi.fault_driver.calls import CallLog
from tests.csi.fault_driver.profile import Profile
from tests.csi.fault_driver.registration import Registration, registration_services
from tests.csi.fault_driver.rules import Rule, Script
from tests.csi.fault_driver.server import Service, csi_services, works_of
from tests.csi.fault_driver.volumes import Volumes


class Driver:
    """It serves from when it is made until it is closed."""

    def __init__(
        self,
        top: Path,
        profile: Profile,
        endpoint: Path,
        registration: Path | None,
        rules: Iterable[Rule] = (),
        *,
        may_crash: bool,
    ) -> None:
        """The rules hold before anybody can call: who watches the socket calls within milliseconds."""
        top.mkdir(parents=True, exist_ok=True)
        self.script = Script()
        self.script.add(rules)
        self.volumes = Volumes(top)
        self._may_crash = may_crash
        self._servers: list[grpc.Server] = []
        self._serve(top / "calls", works_of(profile, self.volumes), endpoint, csi_services())
        if registration is not None:
            told = Registration(name=profile.name, endpoint=str(endpoint), versions=profile.versions)
            self._serve(top / "registrations", told.works(), registration, registration_services())

    def __enter__(self) -> Self:
        """It serves already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let calls that wait go on, and stop."""
        self.close()

    def close(self) -> None:
        """Stop, when each call has ended; the sockets go with it."""
        self.script.end()
        for stopping in [server.stop(grace=None) for server in reversed(self._servers)]:
            stopping.wait()

    def _serve(self, log: Path, works: Mapping[str, Any], socket: Path, services: Mapping[str, Any]) -> None:
        service = Service(self.script, CallLog(log), works, may_crash=self._may_crash)
        self._servers.append(service.served_at(socket, services))
