"""The registrar of the package beside a root directory, and what it says of drivers; a test waits for that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.eventually import PATIENCE
from volmgr.host.local import local_host
from volmgr.plugin import DriverInfo, Host, Searched, VolumePlugin, watch_directories
from volmgr_csi.driver.drivers import KnownDrivers
from volmgr_csi.registrar.service import REGISTRY, Registrar
from volmgr_csi.settings import CsiSettings

if TYPE_CHECKING:
    from volmgr.plugin import Watches


class Told:
    """What the core is told: implements `volmgr.plugin.Drivers`."""

    def __init__(self) -> None:
        self.there: dict[str, DriverInfo] = {}
        self.log: list[str] = []
        """`+NAME` for each declaration, `-NAME` for each withdrawal."""
        self.searched = Searched(field="")
        self.may_go_on = threading.Event()
        """While it is not set, who reports waits: the registrar's thread stands still."""
        self.may_go_on.set()
        self._changed = threading.Condition()

    def register(self, plugin: VolumePlugin[Any]) -> None:
        raise AssertionError(plugin)

    def retire(self, name: str) -> None:
        raise AssertionError(name)

    def declare(self, info: DriverInfo) -> None:
        with self._changed:
            self.there[info.name] = info
            self.log.append(f"+{info.name}")
            self._changed.notify_all()

    def withdraw(self, name: str) -> None:
        with self._changed:
            del self.there[name]
            self.log.append(f"-{name}")
            self._changed.notify_all()

    def report(self, searched: Searched) -> None:
        with self._changed:
            self.searched = searched
            self._changed.notify_all()
        assert self.may_go_on.wait(PATIENCE)

    def until(self, holds: Callable[[], object]) -> None:
        """Return when something holds."""
        with self._changed:
            end = time.monotonic() + PATIENCE
            while not holds():
                assert time.monotonic() < end, f"{self.log} {self.searched}"
                self._changed.wait(0.05)  # what lies on the disk is not announced

    def until_there(self, *names: str) -> None:
        """Return when just these drivers are registered."""
        self.until(lambda: set(self.there) == set(names))

    def until_problem(self, name: str, text: str) -> None:
        """Return when something is wrong with a driver, or a socket, in these words."""
        self.until(lambda: text in self.searched.misfits.get(name, ""))


class Site:
    """A root directory that is watched, now and then."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.root = top / "root"
        self.registry = self.root / REGISTRY
        self.told = Told()

    @property
    def host(self) -> Host:
        """The real one."""
        return local_host(self.root)

    @contextmanager
    def watched(
        self,
        open_watches: Callable[[], Watches] = watch_directories,
        **settings: Any,  # noqa: ANN401 - fields of CsiSettings
    ) -> Generator[KnownDrivers]:
        """Have it watched."""
        registrar = Registrar(self.told, self.host, CsiSettings(**settings), open_watches=open_watches)
        registrar.start()
        try:
            yield registrar.known
        finally:
            self.told.may_go_on.set()
            registrar.stop()
