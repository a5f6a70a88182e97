"""Registering drivers while they come and go, on a thread of its own: kubelet's plug-in manager.

A socket is known by which one lies at its path. What a driver and its registrar are asked, they are asked on a
short-lived thread, so that one that hangs keeps no other waiting.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.plugin import CSI_FIELD, Drivers, Host, OperationError, Searched, watch_directories
from volmgr_csi.connection import Connection
from volmgr_csi.drivers import drivers_of
from volmgr_csi.handshake import Ended, Handshake, Outcome
from volmgr_csi.plugin_watcher import Heard, PluginWatcher
from volmgr_csi.registrar_rules import back_off
from volmgr_csi.roster import Roster
from volmgr_csi.settings import CsiSettings
from volmgr_csi.sockets import Stamp, stamp_of

if TYPE_CHECKING:
    from volmgr.plugin import Watches

_log = logging.getLogger(__name__)

REGISTRY = "plugins_registry"
"""Where registration sockets lie, below the root directory; kubelet's."""

_LAST_WAIT = 3.0  # seconds for the threads of handshakes to end
_NEVER = float("inf")


@dataclass(slots=True)
class Site:
    """What is known of one socket: one to register from, or that of a driver that the configuration names."""

    path: str
    expected: str = ""
    stamp: Stamp | None = None
    since: float = 0.0
    """When that socket was first seen; monotonic seconds, as all times here."""
    handshake: Handshake | None = None
    registered: bool = False
    failures: int = 0
    due: float = _NEVER
    """When it is tried (again)."""
    problem: str = ""
    driver: str = ""


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
        self._roster = Roster(self.known, drivers, self._connection)
        self._watcher = PluginWatcher(str(host.paths.root / REGISTRY), open_watches)
        self._sites: dict[str, Site] = {}
        self._configured = {name: Site(path, name) for name, path in settings.drivers.items()}
        self._stand_at = 0.0
        self._problem = ""
        self._told: Searched | None = None
        self._ended: deque[Ended] = deque()
        self._threads: dict[Handshake, threading.Thread] = {}
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._wakes_at = _NEVER
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="csi registrar", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and every handshake that runs."""
        self._stopped = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join()
        threads = tuple(self._threads.items())
        for handshake, _ in threads:
            handshake.abort()
        for _, thread in threads:
            thread.join(_LAST_WAIT)
        for driver in self.known.all():
            driver.connection.close()
        self._watcher.close()

    def _wake(self) -> None:
        os.eventfd_write(self._wakeup, 1)

    def _connection(self, driver: str, socket: str) -> Connection:
        return Connection(driver, socket, rested=self._rested)

    def _rested(self, _connection: Connection) -> None:
        """Have the channel closed once it was idle; wakes the thread only where it would sleep longer."""
        if time.monotonic() + self._settings.channel_idle < self._wakes_at:
            self._wake()

    # --- the thread ---

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - a bug; without this thread no driver would ever be seen again
                _log.exception("the registrar stopped; it starts anew in %s s", self._settings.watch_retry)
                self._fall_back(f"internal error: {error!r}; see the log")
            self._wait()

    def _turn(self) -> None:
        """Do all that is due."""
        heard = self._watcher.heed()
        if heard.everything:
            self._stand_at = 0.0
        if time.monotonic() >= self._stand_at:
            self._stand()
        elif heard.is_news:
            self._look(heard)
        while self._ended:
            self._settle(self._ended.popleft())
        now = time.monotonic()
        for site in (*self._sites.values(), *self._configured.values()):
            if site.due <= now and site.handshake is None and site.stamp is not None:
                self._begin(site, site.stamp)
        self._report()

    def _wait(self) -> None:
        """Sleep until something happens or is due."""
        sites = (*self._sites.values(), *self._configured.values())
        at = min((self._stand_at, *(site.due for site in sites if site.handshake is None)))
        idle = [driver.connection.close_if_idle(self._settings.channel_idle) for driver in self.known.all()]
        self._wakes_at = min((at, *(time.monotonic() + left for left in idle if left is not None)))
        poll = select.poll()
        for descriptor in (self._wakeup, self._watcher.fileno()):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        busy = bool(self._ended or self._stopped)
        left = 0.0 if busy else self._wakes_at - time.monotonic()
        poll.poll(None if left == _NEVER else max(0.0, left * 1000 + 0.5))
        with suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)

    # --- what lies on the disk ---

    def _stand(self) -> None:
        """Make the directory if it is missing, watch it, and look at everything."""
        self._stand_at = _NEVER
        problem = self._watcher.make()
        self._say(problem)
        self._look(Heard(is_news=True, everything=True))

    def _watch(self) -> bool:
        endpoints = (entry.driver.connection.socket for entry in self._roster.entries().values())
        try:
            self._watcher.watch({*(site.path for site in self._configured.values()), *endpoints})
        except OperationError as error:
            self._fall_back(f"drivers are not watched: {error}")
            return False
        return True

    def _look(self, heard: Heard) -> None:
        """Compare what lies there with what is known of it."""
        if not self._watch():
            return
        now = time.monotonic()
        found = self._watcher.sockets()
        for path in self._sites.keys() - found.keys():
            self._drop(self._sites.pop(path))
        for path, stamp in found.items():
            site = self._sites.setdefault(path, Site(path))
            self._observe(site, stamp, now, touched=heard.everything or path in heard.touched)
        for site in self._configured.values():
            stamp_now = stamp_of(site.path)
            if stamp_now is None:
                self._drop(site)
            else:
                self._observe(site, stamp_now, now, touched=heard.everything)

    def _observe(self, site: Site, stamp: Stamp, now: float, *, touched: bool) -> None:
        if stamp != site.stamp:
            self._cancel(site)
            site.stamp, site.since, site.failures, site.due = stamp, now, 0, now
        elif touched and not site.registered and site.handshake is None:
            site.due = now

    def _drop(self, site: Site) -> None:
        """Take note that a socket has vanished."""
        self._cancel(site)
        site.stamp, site.due, site.problem, site.registered = None, _NEVER, "", False
        self._leave(site)

    def _cancel(self, site: Site) -> None:
        if site.handshake is not None:
            site.handshake.abort()
            site.handshake = None

    def _leave(self, site: Site) -> None:
        name = self._roster.leave(site.path)
        for other in (*self._sites.values(), *self._configured.values()):
            if name and other.driver == name and not other.registered and other.stamp is not None:
                other.due = time.monotonic()

    def _fall_back(self, problem: str) -> None:
        self._watcher.close()
        self._stand_at = time.monotonic() + self._settings.watch_retry
        self._say(problem)
        self._report()

    def _say(self, problem: str) -> None:
        if problem and problem != self._problem:
            _log.error("csi: %s", problem)
        self._problem = problem

    # --- one socket ---

    def _begin(self, site: Site, stamp: Stamp) -> None:
        handshake = Handshake(site.path, site.expected, stamp, self._roster, self._settings)
        site.handshake, site.due = handshake, _NEVER
        thread = threading.Thread(target=self._shake, args=(handshake,), name="csi registration", daemon=True)
        self._threads[handshake] = thread
        thread.start()

    def _shake(self, handshake: Handshake) -> None:
        self._ended.append(handshake.run())
        self._wake()

    def _settle(self, ended: Ended) -> None:
        """Take note of how a handshake ended, if it is still that of the socket that lies there."""
        handshake = ended.handshake
        self._threads.pop(handshake, None)
        sites = self._configured if handshake.expected else self._sites
        site = sites.get(handshake.expected or handshake.path)
        if site is None or site.handshake is not handshake:
            return
        site.handshake, site.driver = None, ended.driver
        site.registered = ended.outcome is Outcome.REGISTERED
        if ended.problem and ended.problem != site.problem:
            level = logging.INFO if ended.outcome is Outcome.FOREIGN else logging.WARNING
            _log.log(level, "csi: registration by %s: %s", site.path, ended.problem)
        site.problem = ended.problem
        if site.registered:
            site.failures = 0
            self._watch()
            return
        self._leave(site)
        site.failures += 1
        if ended.outcome is Outcome.FAILED or (ended.outcome is Outcome.SILENT and self._is_young(site)):
            site.due = time.monotonic() + back_off(site.failures)

    def _is_young(self, site: Site) -> bool:
        """Say whether who bound a socket may not listen there yet: between the two it refuses as a dead one does."""
        return time.monotonic() < site.since + self._settings.dial_timeout

    def _report(self) -> None:
        """Say where drivers are looked for, and what is wrong with those that are none."""
        sites = (*self._sites.values(), *self._configured.values())
        misfits = {site.driver or site.expected or site.path: site.problem for site in sites if site.problem}
        searched = Searched(field=CSI_FIELD, places=(self._watcher.top,), misfits=misfits, problem=self._problem)
        if searched != self._told:
            self._told = searched
            self._drivers.report(searched)
