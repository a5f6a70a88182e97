"""Registering drivers while they come and go, on a thread of its own: kubelet's plug-in manager.

A socket is known by which one lies at its path. What a driver and its registrar are asked, they are asked on a
short-lived thread, so that one that hangs keeps no other waiting.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from volmgr.plugin import CSI_FIELD, Drivers, Host, OperationError, Searched, VolmgrError, watch_directories
from volmgr_csi.driver.connection import Connection
from volmgr_csi.driver.drivers import Driver, drivers_of
from volmgr_csi.driver.sockets import Stamp, stamp_of
from volmgr_csi.registrar.event_loop import NEVER, EventLoop, Task
from volmgr_csi.registrar.handshake import Ended, Handshake, Outcome
from volmgr_csi.registrar.inquiries import Inquiries
from volmgr_csi.registrar.plugin_watcher import PluginWatcher
from volmgr_csi.registrar.registered_drivers import RegisteredDrivers
from volmgr_csi.registrar.seen_drivers import SeenDrivers, absences
from volmgr_csi.registrar.watched_sockets import WatchedSocket, WatchedSockets
from volmgr_csi.settings import CsiSettings

if TYPE_CHECKING:
    from volmgr.plugin import Watches

_log = logging.getLogger(__name__)

REGISTRY = "plugins_registry"
"""Where registration sockets lie, below the root directory; kubelet's."""

_LAST_WAIT = 3.0  # seconds for the threads of handshakes to end


class Registrar:
    """Watches the directory of registration sockets, and the sockets that the configuration names."""

    def __init__(
        self,
        drivers: Drivers,
        host: Host,
        settings: CsiSettings,
        *,
        open_watches: Callable[[], Watches] = watch_directories,
    ) -> None:
        self.name = "csi"
        self.known = drivers_of(host)
        self._drivers = drivers
        self._settings = settings
        self._registered = RegisteredDrivers(self.known, drivers, self._connection)
        self._watcher = PluginWatcher(str(host.paths.root / REGISTRY), open_watches)
        self._sockets = WatchedSockets({name: WatchedSocket(path, name) for name, path in settings.drivers.items()})
        self._inquiries = Inquiries(self.known.period)
        self._seen = SeenDrivers(host)
        self._look_at = 0.0
        self._look_until = 0.0
        self._has_looked = False
        self._looking = True
        """Who waits for a driver is not told yet that it is not there."""
        self._problem = ""
        self._told: Searched | None = None
        self._stopped = False
        self._loop = EventLoop()
        self._thread = threading.Thread(target=self._run, name="csi registrar", daemon=True)

    def start(self) -> None:
        """Start the thread; drivers that were seen before may unmount from here on."""
        for seen in self._seen.load():
            connection = self._connection(seen.name, seen.endpoint)
            connection.confirms = True
            self.known.put(seen.retired(connection))
        self._look_until = time.monotonic() + self._settings.dial_timeout
        self._report()
        self.known.refreshed = self._refresh
        self.known.unreached = self._unreached
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and every handshake and call that runs: the next start finds out what came of a call."""
        self._stopped = True
        self._loop.wake()
        if self._thread.is_alive():
            self._thread.join()
        for watched in self._sockets:
            watched.cancel()
        if there := [entry.driver for entry in self._registered.entries().values()]:
            self._seen.note(*there)
        for driver in self.known.all():
            driver.connection.abort()
            self.known.drop(driver.name)
        self._loop.close(_LAST_WAIT)
        self._watcher.close()

    # --- from any thread ---

    def _connection(self, driver: str, socket: str) -> Connection:
        return Connection(driver, socket, rested=self._rested, lost=self._lost)

    def _rested(self, _connection: Connection) -> None:
        """Have the channel closed once it was idle; wakes the thread only where it would sleep longer."""
        if time.monotonic() + self._settings.channel_idle < self._loop.wakes_at:
            self._loop.wake()

    def _lost(self, connection: Connection) -> None:
        self._loop.post(lambda: self._wish(connection.driver, is_lost=True))

    def _refresh(self, name: str) -> None:
        self._loop.post(lambda: self._wish(name, is_lost=False))

    def _unreached(self, name: str) -> None:
        self._loop.post(lambda: self._inquiries.await_it(name, time.monotonic()))

    # --- the thread ---

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - a bug; without this thread no driver would ever be seen again
                _log.exception("the registrar stopped; it starts anew in %s s", self._settings.watch_retry)
                self._fall_back()
                self._say(f"internal error: {error!r}; see the log")
            self._wait()

    def _turn(self) -> None:
        """Do all that is due."""
        heard = self._watcher.heed()
        if heard.is_news or time.monotonic() >= self._look_at:
            self._look(heard.touched, everything=heard.everything or not self._has_looked)
        self._loop.run_tasks()
        now = time.monotonic()
        for watched in self._sockets.due(now):
            self._begin(watched)
        for name, is_news in self._inquiries.begin(now).items():
            self._inquire(name, is_news=is_news)
        self._report()

    def _wait(self) -> None:
        """Sleep until something happens or is due."""
        self._loop.wakes_at = NEVER  # a call that ends from here on wakes it
        idle = [driver.connection.close_if_idle(self._settings.channel_idle) for driver in self.known.all()]
        closing = (time.monotonic() + left for left in idle if left is not None)
        told = self._look_until if self._looking else NEVER
        due = min((self._look_at, self._sockets.next_due(), self._inquiries.next_due(), told, *closing))
        self._loop.wait(0.0 if self._stopped else due, self._watcher.fileno())

    # --- what lies on the disk ---

    def _look(self, touched: frozenset[str], *, everything: bool) -> None:
        """Compare what lies there with what is known of it."""
        self._look_at = NEVER
        problem = self._watcher.make()
        not_watched = self._watch()
        if self._watcher.is_missing:  # it went before what it lies in was watched
            problem = self._watcher.make()
        self._say(problem or not_watched)
        now = time.monotonic()
        found = self._watcher.sockets()
        for path in self._sockets.registry.keys() - found.keys():
            self._observe(self._sockets.registry.pop(path), None, touched=False, now=now)
        for path, stamp in found.items():
            watched = self._sockets.registry.setdefault(path, WatchedSocket(path))
            self._observe(watched, stamp, touched=everything or path in touched, now=now)
        for watched in self._sockets.configured.values():
            self._observe(watched, stamp_of(watched.path), touched=everything or watched.path in touched, now=now)
        self._look_at_endpoints(now)
        self._has_looked = True

    def _watch(self) -> str:
        """Watch what there is; say what is wrong where that cannot be."""
        entries = self._registered.entries()
        endpoints = (entry.driver.connection.socket for entry in entries.values())
        try:
            self._watcher.watch({*(watched.path for watched in self._sockets.configured.values()), *endpoints})
        except OperationError as error:
            self._fall_back()
            return f"drivers are not watched: {error}"
        return ""

    def _observe(self, watched: WatchedSocket, stamp: Stamp | None, *, touched: bool, now: float) -> None:
        watched.observe(stamp, now, touched=touched, is_old=not self._has_looked)
        if watched.stamp is None:
            self._leave(watched)

    def _look_at_endpoints(self, now: float) -> None:
        """Have drivers asked anew that started again, without registering again."""
        entries = self._registered.entries()
        self._inquiries.follow(entries, now)
        for name, entry in entries.items():
            connection = entry.driver.connection
            if connection.socket != entry.socket and self._inquiries.is_restarted(
                name, stamp_of(connection.socket), now
            ):
                connection.reopen()

    def _fall_back(self) -> None:
        self._watcher.close()
        self._look_at = time.monotonic() + self._settings.watch_retry

    def _say(self, problem: str) -> None:
        if problem and problem != self._problem:
            _log.error("csi: %s", problem)
        self._problem = problem

    # --- one socket ---

    def _begin(self, watched: WatchedSocket) -> None:
        """Try to register what is at a socket."""
        patience = self._settings.dial_timeout if watched.is_fresh else 0.0
        handshake = watched.handshake = Handshake(
            watched.path, watched.expected, self._registered, self._settings, patience
        )
        try:
            self._loop.send(f"csi driver at {watched.path}", lambda: partial(self._settle, handshake.run()))
        except OperationError as error:
            self._settle(Ended(handshake, Outcome.FAILED, str(error)))

    def _settle(self, ended: Ended) -> None:
        """Take note of how a handshake ended, if it is still that of the socket that lies there."""
        watched = self._sockets.of(ended.handshake)
        if watched is None:
            return
        if watched.settle(ended, time.monotonic()):
            is_right = ended.outcome is Outcome.FOREIGN and not watched.driver  # of somebody else, who needs nothing
            level = logging.INFO if is_right else logging.WARNING
            _log.log(level, "csi: registration by %s: %s", watched.path, ended.problem)
        tried = ended.handshake
        if ended.outcome is Outcome.TAKEN and not self._registered.is_taken(tried.driver, tried.version, watched.path):
            watched.due = time.monotonic()  # who had the name has left before this was known
        driver = self.known.find(watched.driver)
        if ended.outcome is not Outcome.REGISTERED or driver is None:
            self._leave(watched)
            return
        self._leave(watched, but=driver.name)
        self._seen.note(driver)
        if not_watched := self._watch():
            self._say(not_watched)
        self._look_at_endpoints(time.monotonic())

    def _leave(self, watched: WatchedSocket, but: str = "") -> None:
        """Retire the drivers that a socket registered, `but` the one that it registers now: it may have had another."""
        entries = self._registered.entries()
        leaving = [entry.driver for name, entry in entries.items() if entry.socket == watched.path and name != but]
        if leaving:
            self._seen.note(*leaving)
            self._tell_absences()  # before anybody asks for it in vain
        for driver in leaving:
            if self._registered.leave(driver.name, watched.path):
                self._inquiries.follow(self._registered.entries(), time.monotonic())
                self._sockets.vacate(driver.name, watched, time.monotonic())

    # --- one driver ---

    def _wish(self, name: str, *, is_lost: bool) -> None:
        now = time.monotonic()
        self._inquiries.follow(self._registered.entries(), now)  # it may have registered just now
        self._inquiries.wish(name, now, is_lost=is_lost)

    def _inquire(self, name: str, *, is_news: bool) -> None:
        """Ask a driver anew what it is for this node and what it can do."""
        driver = self.known.find(name)
        if driver is not None:
            since = time.time() if is_news else driver.info.since
            try:
                self._loop.send(f"csi driver {name}", lambda: self._asked(driver, since))
            except OperationError as error:
                self._missed(name, str(error))

    def _asked(self, driver: Driver, since: float) -> Task:
        """Ask it, on a thread of its own; give what is to be done then."""
        from volmgr_csi.registrar.calls import ask_driver

        served = stamp_of(driver.connection.socket)
        try:
            asked = ask_driver(driver.connection, since, self._settings.call_timeout)
        except VolmgrError as error:
            return partial(self._missed, driver.name, str(error))
        self._registered.renew(asked.driver, served, is_complete=not asked.gap)
        if asked.gap:
            return partial(self._missed, driver.name, asked.gap)
        return partial(self._inquiries.answered, driver.name)

    def _missed(self, name: str, problem: str) -> None:
        if self._inquiries.failed(name, time.monotonic()):
            _log.warning("csi: what driver %s can do now is not known, and asked again: %s", name, problem)

    # --- what people hear ---

    def _report(self) -> None:
        """Say where drivers are looked for, and what is wrong with those that are none."""
        self._tell_absences()
        is_done = (self._has_looked and self._sockets.are_settled()) or time.monotonic() >= self._look_until
        self._looking = self._looking and not is_done
        there = self._registered.entries()
        searched = Searched(
            field=CSI_FIELD,
            places=(self._watcher.top,),
            misfits=self._problems(),
            problem=self._problem,
            absent={name: why for name, why in self.known.absences.items() if name not in there},
            looking=self._looking,
        )
        if searched != self._told:
            self._told = searched
            self._drivers.report(searched)

    def _problems(self) -> Mapping[str, str]:
        return self._sockets.problems() if self._has_looked else dict[str, str]()

    def _tell_absences(self) -> None:
        self.known.absences = absences(self._seen.all(), self._problems())
