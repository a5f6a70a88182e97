"""Finding drivers while they come and go, on a thread of its own.

An event says only where to look again: what counts is what then lies there, so no order of events leads astray. Each
`init` runs on a short-lived thread, so that a driver that hangs keeps no other waiting.
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
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.plugin import FLEX_FIELD, Drivers, Host, OperationError, Searched, VolmgrError, watch_directories
from volmgr_flexvolume.driver import Driver
from volmgr_flexvolume.ground import Ground
from volmgr_flexvolume.source import FlexVolumeSettings
from volmgr_flexvolume.tree import Seen, Stamp, driver_name, look
from volmgr_flexvolume.volume import FlexVolume, volume_type

if TYPE_CHECKING:
    from volmgr.plugin import Watches

_log = logging.getLogger(__name__)

BACKOFF, BACKOFF_MAX = 0.5, 120.0
"""Seconds between two `init` of one unchanged executable that fails: it may itself write to its directory."""

_LAST_WAIT = 3.0  # seconds for the threads of killed drivers to end


@dataclass(slots=True)
class _Known:
    """What is known of one name in the directory."""

    stamp: Stamp | None = None
    """Of the executable that was asked last."""
    probe: int = 0
    """The number of the probe that runs; 0: none."""
    again: bool = False
    """Something happened while it ran."""
    registered: bool = False
    failures: int = 0
    problem: str = ""
    not_before: float = 0.0
    """When it is looked at again without an event; 0: not."""
    asked: float = 0.0


@dataclass(frozen=True, slots=True)
class _Result:
    """How one `init` ended."""

    name: str
    probe: int
    stamp: Stamp
    found: FlexVolume | str


class Prober:
    """Watches the directory of drivers; registers each that is ready, and retires those that vanish."""

    def __init__(
        self,
        drivers: Drivers,
        host: Host,
        settings: FlexVolumeSettings,
        *,
        open_watches: Callable[[], Watches] = watch_directories,
    ) -> None:
        self.name = "flexvolume"
        self._drivers = drivers
        self._host = host
        self._settings = settings
        self._ground = Ground(os.path.abspath(settings.flex_dir), open_watches)
        self._known: dict[str, _Known] = {}
        self._strays: dict[str, str] = {}
        self._dirty: set[str] = set()
        self._everything_at: float | None = 0.0
        self._problem = ""
        self._told: Searched | None = None
        self._probes = 0
        self._running: dict[int, threading.Thread] = {}
        self._results: deque[_Result] = deque()
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="flexvolume prober", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and every `init` that runs."""
        self._stopped = True
        os.eventfd_write(self._wakeup, 1)
        if self._thread.is_alive():
            self._thread.join()
        for thread in tuple(self._running.values()):
            thread.join(_LAST_WAIT)
        self._ground.close()
        if not any(thread.is_alive() for thread in self._running.values()):  # one that lives may yet write to it
            os.close(self._wakeup)

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - a bug; without this thread no driver would ever be seen again
                _log.exception("the prober stopped; it starts anew in %s s", self._settings.watch_retry)
                self._fall_back(f"internal error: {error!r}; see the log")
            self._wait()

    def _turn(self) -> None:
        """Do all that is due."""
        self._heed()
        if self._everything_at is not None and time.monotonic() >= self._everything_at:
            self._stand()
        while self._results:
            self._settle(self._results.popleft())
        due, self._dirty = self._dirty, set()
        for name in sorted(due):
            self._look_at(name)
        self._report()

    def _wait(self) -> None:
        """Sleep until something happens or is due."""
        at = [known.not_before for known in self._known.values() if known.not_before]
        if self._everything_at is not None:
            at.append(self._everything_at)
        poll = select.poll()
        for descriptor in (self._wakeup, self._ground.fileno()):
            if descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        busy = bool(self._results or self._dirty or self._stopped)
        poll.poll(0 if busy else max(0.0, (min(at) - time.monotonic()) * 1000 + 0.5) if at else None)
        with suppress(BlockingIOError):
            os.eventfd_read(self._wakeup)
        now = time.monotonic()
        for name, known in self._known.items():
            if known.not_before and known.not_before <= now:
                known.not_before = 0.0
                self._dirty.add(name)

    def _heed(self) -> None:
        """Take note of what happened; after an overflow, look at everything."""
        happened = self._ground.heed()
        if happened is None:
            self._everything_at = 0.0
        elif happened:
            self._dirty |= happened
            if self._watch() and self._ground.is_missing:
                self._everything_at = 0.0

    def _stand(self) -> None:
        """Make the directory if it is missing, watch it, and have everything in it looked at."""
        self._everything_at = None
        problem = self._ground.make()
        if not self._watch():
            return
        if problem:  # what leads to it may have gone before it was watched
            problem = self._ground.make()
        self._say(problem)
        if self._ground.is_missing is not bool(problem):  # it came or went before it was watched
            self._everything_at = 0.0
        self._dirty |= {*self._ground.names(), *self._known, *self._strays}

    def _watch(self) -> bool:
        """Watch whatever is there now; where inotify is not to be had, nothing comes or goes until it is."""
        try:
            self._ground.watch()
        except OperationError as error:
            self._fall_back(f"drivers are not watched: {error}")
            return False
        return True

    def _fall_back(self, problem: str) -> None:
        self._ground.close()
        self._dirty.clear()
        self._everything_at = time.monotonic() + self._settings.watch_retry
        self._say(problem)
        self._report()

    def _say(self, problem: str) -> None:
        if problem and problem != self._problem:
            _log.error("flexVolume: %s", problem)
        self._problem = problem

    # --- one driver ---

    def _look_at(self, name: str) -> None:
        """Compare what lies there with what is known of it."""
        seen = look(self._ground.top, name)
        if seen.stamp is None:
            self._drop(name, seen)
            return
        self._strays.pop(name, None)
        known = self._known.setdefault(name, _Known())
        if self._ground.is_written(name):
            return  # closing it is an event
        if known.probe:
            known.again = True
        elif seen.stamp != known.stamp:
            known.failures = 0
            self._probe(name, known, seen.stamp)
        elif known.failures:
            self._probe_later(name, known, seen.stamp)

    def _drop(self, name: str, seen: Seen) -> None:
        """Take note that a name is no driver, or is none any more."""
        known = self._known.pop(name, None)
        if known is not None and known.registered:
            self._drivers.retire(driver_name(name))
        self._strays.pop(name, None)
        if seen.problem:
            self._strays[name] = seen.problem

    def _probe_later(self, name: str, known: _Known, stamp: Stamp) -> None:
        """Ask a driver again that failed: at once the first time, then after longer and longer."""
        if known.failures > 1 and known.not_before == 0.0 and not self._is_rested(known):
            known.not_before = self._rest(known)
        elif not known.not_before:
            self._probe(name, known, stamp)

    def _rest(self, known: _Known) -> float:
        return known.asked + min(BACKOFF * (1 << min(known.failures - 2, 10)), BACKOFF_MAX)

    def _is_rested(self, known: _Known) -> bool:
        return time.monotonic() >= self._rest(known)

    def _probe(self, name: str, known: _Known, stamp: Stamp) -> None:
        self._probes += 1
        known.probe, known.again, known.stamp = self._probes, False, stamp
        number = self._probes
        thread = threading.Thread(
            target=self._initialize, args=(name, number, stamp), name=f"init of {driver_name(name)}", daemon=True
        )
        self._running[number] = thread
        thread.start()

    def _initialize(self, name: str, number: int, stamp: Stamp) -> None:
        """Ask a driver what it can do; on a thread of its own."""
        driver = Driver(driver_name(name), Path(self._ground.executable(name)))
        found: FlexVolume | str
        try:
            deadline = self._settings.init_deadline
            found = volume_type(driver, driver.initialize(self._host, deadline, lambda: self._stopped))
        except VolmgrError as error:
            found = str(error)
        except Exception as error:  # noqa: BLE001 - a bug, of which this driver's problem tells
            _log.exception("init of driver %s", driver.name)
            found = f"unexpected {type(error).__name__}: {error}"
        self._results.append(_Result(name, number, stamp, found))
        os.eventfd_write(self._wakeup, 1)

    def _settle(self, result: _Result) -> None:
        """Register a driver that answered, if it is still the one that was asked."""
        self._running.pop(result.probe, None)
        known = self._known.get(result.name)
        if known is None or known.probe != result.probe:
            return
        known.probe, known.asked = 0, time.monotonic()
        unchanged = look(self._ground.top, result.name).stamp == result.stamp
        if known.again or not unchanged:
            self._dirty.add(result.name)
        if isinstance(result.found, str):
            known.failures += 1
            known.problem = f"{driver_name(result.name)} was found and is not ready: {result.found}"
            _log.warning("flexVolume driver %s: %s", driver_name(result.name), result.found)
        elif unchanged:
            known.failures, known.problem, known.registered = 0, "", True
            self._drivers.register(result.found)

    def _report(self) -> None:
        """Say where drivers are looked for, and what is wrong with those that are none."""
        problems = self._strays | {name: known.problem for name, known in self._known.items() if known.problem}
        misfits = {driver_name(name): problem for name, problem in problems.items()}
        searched = Searched(field=FLEX_FIELD, places=(self._ground.path,), misfits=misfits, problem=self._problem)
        if searched != self._told:
            self._told = searched
            self._drivers.report(searched)
