"""How one socket registers its driver, from the first knock to the answer; on a short-lived thread."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from volmgr.plugin import VolmgrError, path_problem
from volmgr_csi.driver.connection import UNIMPLEMENTED, CallError, Connection
from volmgr_csi.driver.paths import found_at
from volmgr_csi.driver.sanitizer import brief
from volmgr_csi.driver.sockets import greet, stamp_of, visit
from volmgr_csi.registrar.registered_drivers import RegisteredDrivers, Registration, TakenError
from volmgr_csi.registrar.rules import (
    CONFIGURED,
    NODE_INFO,
    PLUGIN_TYPE,
    RefusedError,
    Version,
    check_name,
    highest_version,
)
from volmgr_csi.settings import NAME, CsiSettings

if TYPE_CHECKING:
    from volmgr_csi.registration.api_pb2 import PluginInfo

_log = logging.getLogger(__name__)

_SILENT = frozenset({errno.ECONNREFUSED, errno.ENOENT})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 1.0  # seconds between two knocks


class Outcome(Enum):
    """How a handshake ended."""

    REGISTERED = auto()
    SILENT = auto()
    """Nobody listens there: it is left alone until something happens to it."""
    FOREIGN = auto()
    """It registers no CSI driver: it is left alone until another socket is bound there."""
    TAKEN = auto()
    """Another socket has registered a driver of that name: it is tried again once that has left."""
    FAILED = auto()
    """It is tried again."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a handshake, and what was wrong."""

    handshake: Handshake
    outcome: Outcome
    problem: str = ""


@dataclass(eq=False, slots=True)
class Handshake:
    """One attempt; `expected` is the name that the configuration gives a driver that has no registrar."""

    path: str
    expected: str
    registered: RegisteredDrivers
    settings: CsiSettings
    patience: float
    """Seconds until somebody has to listen: between bind and listen a socket refuses as a dead one does."""
    driver: str = ""
    """Whom it registers, once that is known."""
    version: Version = CONFIGURED
    """For which version of CSI, once that is known."""
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _own: list[Connection] = field(default_factory=list[Connection])
    """Connections that nobody else uses yet."""
    _visitor: socket.socket | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> Ended:
        """Do all of it; raises nothing."""
        try:
            outcome, problem = self._attempt()
        except Exception as error:  # noqa: BLE001 - a bug, of which this socket's problem tells
            _log.exception("registration by %s", self.path)
            outcome, problem = Outcome.FAILED, f"unexpected {type(error).__name__}: {error}"
        for connection in self._own:
            connection.close()
        return Ended(self, outcome, problem)

    def cancel(self) -> None:
        """Let it count no more, and end soon; from another thread."""
        with self._lock:
            self._cancelled.set()
            own = tuple(self._own)
            if self._visitor is not None:
                with suppress(OSError):  # the other side may have left
                    self._visitor.shutdown(socket.SHUT_RDWR)
        for connection in own:
            connection.abort()

    def _attempt(self) -> tuple[Outcome, str]:
        try:
            self._greet()
            if self.expected:
                self._dial()
            else:
                self._register()
        except TimeoutError:
            text = f"nobody speaks gRPC there within {self.settings.dial_timeout:g} s; start who listens there again"
            return Outcome.FAILED, text
        except OSError as error:
            outcome = Outcome.SILENT if error.errno in _SILENT else Outcome.FAILED
            return outcome, f"cannot connect: {error.strerror}; start who serves it again, or remove the socket"
        except _ForeignError as error:
            return Outcome.FOREIGN, str(error)
        except TakenError as error:
            return Outcome.TAKEN, str(error)
        except VolmgrError as error:
            return Outcome.FAILED, str(error)
        return Outcome.REGISTERED, ""

    def _greet(self) -> None:
        """Wait until who listens there speaks gRPC; raises OSError."""
        with self._visit() as visitor:
            with self._lock:
                self._visitor = visitor
            try:
                if self._counts():
                    greet(visitor, self.settings.dial_timeout)
            finally:
                with self._lock:
                    self._visitor = None

    def _visit(self) -> socket.socket:
        """Connect as soon as somebody listens, for a while; raises OSError when nobody does."""
        end = time.monotonic() + self.patience
        pause = _FIRST_PAUSE
        while True:
            try:
                return visit(self.path)
            except ConnectionRefusedError:
                if time.monotonic() + pause > end or self._cancelled.wait(pause):
                    raise
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _register(self) -> None:
        """Register by kubelet's protocol."""
        from volmgr_csi.registrar import calls

        registrar = Connection(f"registration at {self.path}", self.path)
        self._keep(registrar)
        said = self._info(registrar)
        try:
            is_registered = self._admit(said)
        except CallError as error:
            if error.method == NODE_INFO:
                self._refuse(registrar, error)
            raise  # what kubelet does not ask for at this point is no reason to refuse: it is tried again
        except VolmgrError as error:
            self._refuse(registrar, error)
            raise
        if is_registered:
            calls.notify(registrar, "", self.settings.notify_timeout)  # where that fails, it does not stay so

    def _info(self, registrar: Connection) -> PluginInfo:
        from volmgr_csi.registrar import calls

        try:
            said = calls.ask_info(registrar, self.settings.info_timeout)
        except CallError as error:
            if error.code != UNIMPLEMENTED:
                raise
            raise _ForeignError(self._stranger(registrar)) from None
        if said.type != PLUGIN_TYPE:
            kind = brief(said.type) or "plug-in without a type"
            raise _ForeignError(f"it registers '{brief(said.name)}', which is a {kind}")
        return said

    def _stranger(self, connection: Connection) -> str:
        """Say what a socket is by which nothing registers: a driver's own, if it says so."""
        from volmgr_csi.registrar import calls

        text = "it serves no pluginregistration.Registration: nothing registers by it"
        name = calls.own_name(connection, self.settings.info_timeout)
        if not name:
            return text
        self.driver = name
        remedy = f"run node-driver-registrar with it, or name it in drivers of the configuration (plugins, {NAME})"
        return f"{self.path} is the own socket of csi driver {name}: {text}; {remedy}"

    def _refuse(self, registrar: Connection, why: VolmgrError) -> None:
        from volmgr_csi.registrar import calls

        with suppress(CallError):  # the reason why is what counts
            calls.notify(registrar, str(why), self.settings.notify_timeout)

    def _admit(self, said: PluginInfo) -> bool:
        """Let what a registrar announces be there; False when that counts no more."""
        check_name(said.name)
        self.driver = said.name
        self.version = highest_version(tuple(said.supported_versions))
        self.registered.check(said.name, self.version, self.path)
        endpoint = said.endpoint.removeprefix("unix://") or self.path
        if problem := path_problem(endpoint):
            raise RefusedError(f"the endpoint '{brief(endpoint)}' of csi driver {said.name} {problem}")
        return self._install(self._on_the_node(endpoint))

    def _on_the_node(self, endpoint: str) -> str:
        """Give where the node has a socket that a registrar names, perhaps as its driver sees it."""
        if stamp_of(endpoint) is not None:
            return endpoint
        found = found_at(self.driver, endpoint, self.settings)
        if found != endpoint and stamp_of(found) is not None:
            return found
        raise RefusedError(
            f"the registrar named {endpoint}, which is not there: is the driver running? its registrar's"
            " --kubelet-registration-path has to be where the node, not a container, has the driver's socket"
        )

    def _dial(self) -> None:
        """Register a driver that the configuration names."""
        check_name(self.expected)
        self.driver = self.expected
        self.registered.check(self.expected, self.version, self.path)
        self._install(self.path)

    def _install(self, endpoint: str) -> bool:
        from volmgr_csi.registrar import calls

        served = stamp_of(endpoint)
        connection, is_new = self.registered.connection(self.driver, endpoint)
        if is_new:
            self._keep(connection)
        asked = calls.ask_driver(connection, time.time(), self.settings.call_timeout)
        if asked.name not in {"", self.driver}:
            text = f"says that it is csi driver '{brief(asked.name)}', and not {self.driver!r}"
            if self.expected:
                raise RefusedError(f"what serves it {text}; correct drivers in the configuration")
            _log.warning("csi: what serves %s %s, as which it registers; it is called all the same", endpoint, text)
        entry = Registration(self.path, self.version, asked.driver, served, is_complete=not asked.gap)
        if asked.gap:
            _log.warning("csi: %s; it is asked again", asked.gap)
        if is_new:
            self._let_go(connection)
        is_installed = False
        try:
            is_installed = self.registered.install(entry, self._counts)
        finally:
            if is_new and not is_installed:
                connection.close()
        return is_installed

    def _keep(self, connection: Connection) -> None:
        with self._lock:
            self._own.append(connection)
            late = self._cancelled.is_set()
        if late:
            connection.abort()

    def _let_go(self, connection: Connection) -> None:
        """Let it live on: from here on it is used by others."""
        with self._lock:
            self._own.remove(connection)

    def _counts(self) -> bool:
        return not self._cancelled.is_set()


class _ForeignError(VolmgrError):
    """Something else is served there."""
