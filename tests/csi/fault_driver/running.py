"""Drivers for tests: in a thread of the test, or a process of its own, which can crash and outlives the daemon."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.csi.fault_driver import control, kernel
from tests.csi.fault_driver.calls import Call, read_calls
from tests.csi.fault_driver.driver import Driver
from tests.csi.fault_driver.profile import Profile
from tests.csi.fault_driver.rules import Rule
from tests.csi.fault_driver.volumes import Volume, Volumes
from tests.eventually import PATIENCE, eventually
from tests.kube.servers import Server


class Records:
    """What a driver left on disk, whichever way it runs."""

    def __init__(self, top: Path, profile: Profile, registration: Path | None) -> None:
        self.top = top
        self.profile = profile
        self.socket = top / "csi.sock"
        self.registration = registration or top / "registration.sock"
        self.registration.parent.mkdir(parents=True, exist_ok=True)
        self.volumes = Volumes(top)

    @property
    def name(self) -> str:
        """The driver's name."""
        return self.profile.name

    def calls(self, *methods: str) -> list[Call]:
        """Give the CSI calls that ended, of some methods or all."""
        return read_calls(self.top / "calls", *methods)

    def registrations(self) -> list[Call]:
        """Give the calls of its registration socket."""
        return read_calls(self.top / "registrations")

    def until_called(self, method: str, times: int = 1, code: str = "") -> list[Call]:
        """Return the calls of a method, when so many ended, with a code or any."""

        def so_far() -> list[Call]:
            return [call for call in self.calls(method) if code in ("", call.code)]

        eventually(lambda: len(so_far()) >= times, lambda: f"{times} {method} {code}: {self.calls()}")
        return so_far()

    def clean(self) -> None:
        """Take away what a test that failed left mounted."""
        for volume in self.volumes.all():
            for target in (*volume.published, *volume.staged):
                while kernel.is_mounted(target):
                    kernel.unmount(target)
            kernel.detach_loop(self.volumes.image(volume))

    def add_volume(self, handle: str, **said: Any) -> Volume:  # noqa: ANN401 - the fields of Volume
        """Let there be a volume, as an administrator makes one."""
        return self.volumes.add(Volume(id=handle, **said))


class ThreadDriver(Records):
    """A driver in this process."""

    def __init__(self, top: Path, profile: Profile, registration: Path | None) -> None:
        super().__init__(top, profile, registration)
        self._driver = Driver(top, profile, self.socket, self.registration, may_crash=False)

    def script(self, *rules: Rule) -> None:
        """Let rules hold, after those that hold."""
        self._driver.script.add(rules)

    def clear(self) -> None:
        """Let no rule hold any more."""
        self._driver.script.clear()

    def open(self, gate: str) -> None:
        """Let the calls at a gate, and later ones, go on."""
        self._driver.script.open(gate)

    def until_reached(self, gate: str, calls: int = 1) -> None:
        """Return when so many calls came to a gate."""
        self._driver.script.until_reached(gate, calls)

    def stop(self) -> None:
        """End it."""
        self._driver.close()


class ProcessDriver(Records):
    """A driver that is a process; what it keeps is there when it starts again, its rules are not."""

    def __init__(self, top: Path, profile: Profile, registration: Path | None, within: Sequence[str] = ()) -> None:
        """Run it; `within` is a command that executes another one somewhere else, such as unshare."""
        super().__init__(top, profile, registration)
        self._within = within
        self._control = top / "control.sock"
        self.start()

    def start(self, *rules: Rule) -> None:
        """Start it, with rules that hold from the start, and wait until it serves."""
        self._control.unlink(missing_ok=True)
        argv = [*self._within, sys.executable, "-m", "tests.csi.fault_driver"]
        argv += ["--top", str(self.top), "--endpoint", str(self.socket)]
        argv += ["--registration", str(self.registration), "--control", str(self._control)]
        argv += ["--profile", json.dumps(self.profile.as_json())]
        argv += ["--rules", json.dumps([rule.as_json() for rule in rules])]
        self._server = Server(self.top / "fault-driver.log", argv)
        self._server.start()
        self._server.until("serves", self._control.exists)

    def script(self, *rules: Rule) -> None:
        """Let rules hold, after those that hold."""
        control.tell(self._control, {"rules": [rule.as_json() for rule in rules]})

    def clear(self) -> None:
        """Let no rule hold any more."""
        control.tell(self._control, {"clear": True})

    def open(self, gate: str) -> None:
        """Let the calls at a gate, and later ones, go on."""
        control.tell(self._control, {"open": gate})

    def until_reached(self, gate: str, calls: int = 1) -> None:
        """Return when so many calls came to a gate."""
        control.tell(self._control, {"until": gate, "calls": calls})

    def until_crashed(self) -> None:
        """Return when it is dead."""
        descriptor = os.pidfd_open(self._server.pid)
        try:
            assert select.select([descriptor], [], [], PATIENCE)[0], "the driver did not crash"
        finally:
            os.close(descriptor)
        self._server.stop()

    def kill(self) -> None:
        """End it as kill -9 does; its sockets stay, and nobody listens."""
        self._server.stop()

    def stop(self) -> None:
        """End it, if it still runs."""
        self._server.stop()


@contextmanager
def running_fault_driver(
    top: Path,
    *,
    registration: Path | None = None,
    profile: Profile | None = None,
    **said: Any,  # noqa: ANN401 - fields
) -> Generator[ThreadDriver]:
    """Run a driver in threads of this process, below a new directory; `said` are fields of its profile."""
    top.mkdir(parents=True, exist_ok=True)
    driver = ThreadDriver(top, replace(profile or Profile(), **said), registration)
    try:
        yield driver
    finally:
        driver.stop()
        driver.clean()


@contextmanager
def running_fault_process(
    top: Path,
    *,
    registration: Path | None = None,
    profile: Profile | None = None,
    within: Sequence[str] = (),
    **said: Any,  # noqa: ANN401 - fields
) -> Generator[ProcessDriver]:
    """Run a driver as a process of its own, likewise; `within` is a command that executes it somewhere else."""
    top.mkdir(parents=True, exist_ok=True)
    driver = ProcessDriver(top, replace(profile or Profile(), **said), registration, within)
    try:
        yield driver
    finally:
        driver.stop()
        driver.clean()
