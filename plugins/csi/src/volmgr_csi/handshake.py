"""How one socket registers its driver, from the first knock to the answer; on a short-lived thread."""

from __future__ import annotations

import errno
import logging
import threading
import time
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from volmgr.plugin import VolmgrError
from volmgr_csi.connection import CallError, Connection
from volmgr_csi.registrar_rules import CONFIGURED, PLUGIN_TYPE, RefusedError, check_name, highest_version
from volmgr_csi.roster import Entry, Roster
from volmgr_csi.settings import CsiSettings
from volmgr_csi.sockets import Stamp, knock

if TYPE_CHECKING:
    from volmgr_csi.drivers import Driver

_log = logging.getLogger(__name__)

_UNIMPLEMENTED = "UNIMPLEMENTED"


class Outcome(Enum):
    """How a handshake ended."""

    REGISTERED = auto()
    SILENT = auto()
    """Nobody listens there."""
    FOREIGN = auto()
    """It registers no CSI driver: it is left alone until another socket is bound there."""
    FAILED = auto()
    """It is tried again."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a handshake; `driver` is the name it was for, where that was said."""

    handshake: Handshake
    outcome: Outcome
    driver: str = ""
    problem: str = ""


@dataclass(eq=False, slots=True)
class Handshake:
    """One attempt; `expected` is the name that the configuration gives a driver that has no registrar."""

    path: str
    expected: str
    stamp: Stamp
    roster: Roster
    settings: CsiSettings
    driver: str = ""
    cancelled: bool = False
    """It counts no more: another socket is bound there, or none."""
    _own: list[Connection] = field(default_factory=list[Connection])
    """Connections that nobody else uses yet."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> Ended:
        """Do all of it; raises nothing."""
        try:
            knock(self.path)
            self._dial() if self.expected else self._register()
        except OSError as error:
            dead = error.errno in {errno.ECONNREFUSED, errno.ENOENT}
            return self._ended(Outcome.SILENT if dead else Outcome.FAILED, f"cannot connect: {error.strerror}")
        except _ForeignError as error:
            return self._ended(Outcome.FOREIGN, str(error))
        except VolmgrError as error:
            return self._ended(Outcome.FAILED, str(error))
        except Exception as error:  # noqa: BLE001 - a bug, of which this socket's problem tells
            _log.exception("registration by %s", self.path)
            return self._ended(Outcome.FAILED, f"unexpected {type(error).__name__}: {error}")
        return self._ended(Outcome.REGISTERED, "")

    def abort(self) -> None:
        """End it at once, from another thread."""
        with self._lock:
            self.cancelled = True
            own = tuple(self._own)
        for connection in own:
            connection.abort()

    def _ended(self, outcome: Outcome, problem: str) -> Ended:
        return Ended(self, outcome, self.driver, problem)

    def _register(self) -> None:
        """Register by kubelet's protocol."""
        registrar = self._owned(Connection(f"registration at {self.path}", self.path))
        try:
            registrar.dial(self.settings.dial_timeout)
            self._agree(registrar)
        finally:
            registrar.close()

    def _agree(self, registrar: Connection) -> None:
        from volmgr_csi import registrar_calls as calls

        try:
            said = calls.ask_info(registrar, self.settings.info_timeout)
        except CallError as error:
            if error.code == _UNIMPLEMENTED:
                raise _ForeignError("it serves no pluginregistration.Registration, so nothing registers here") from None
            raise
        if said.type != PLUGIN_TYPE:
            raise _ForeignError(f"it registers {said.name!r}, a {said.type or 'plug-in without a type'}")
        try:
            check_name(said.name)
            self.driver = said.name
            version = highest_version(tuple(said.supported_versions))
            self.roster.check(said.name, version, self.path)
            endpoint = said.endpoint.removeprefix("unix://") or self.path
            driver = self._ask(self.roster.connection(said.name, endpoint))
            installed = self.roster.install(Entry(self.path, version, driver), lambda: not self.cancelled)
        except VolmgrError as error:
            calls.notify(registrar, str(error), self.settings.notify_timeout)
            raise
        if not installed:
            return
        try:
            calls.notify(registrar, "", self.settings.notify_timeout)
        except CallError:
            self.roster.leave(self.path)
            raise

    def _dial(self) -> None:
        """Register a driver that the configuration names."""
        from volmgr_csi import registrar_calls as calls

        check_name(self.expected)
        self.driver = self.expected
        self.roster.check(self.expected, CONFIGURED, self.path)
        connection = self.roster.connection(self.expected, self.path)
        said = calls.ask_name(connection, self.settings.call_timeout)
        if said != self.expected:
            connection.close()
            text = f"the driver at {self.path} says that it is {said!r}; correct drivers in the configuration"
            raise RefusedError(text)
        self.roster.install(Entry(self.path, CONFIGURED, self._ask(connection)), lambda: not self.cancelled)

    def _ask(self, connection: Connection) -> Driver:
        from volmgr_csi import registrar_calls as calls

        return calls.ask_driver(self._owned(connection), time.time(), self.settings.call_timeout)

    def _owned(self, connection: Connection) -> Connection:
        with self._lock:
            self._own.append(connection)
        return connection


class _ForeignError(VolmgrError):
    """Something else is served there."""
