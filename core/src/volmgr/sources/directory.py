"""The source that watches a directory of manifests, on a thread of its own.

An event only says where to look again. Nothing is polled: there is a heap of deadlines, and without inotify a slow
look at everything.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from volmgr.errors import ManifestError, OperationError
from volmgr.host.directory_watches import AWAITED, CONTENT, PLACE, NoWatchError, Watches
from volmgr.host.interface import Host
from volmgr.host.mount_watch import MountWatch
from volmgr.manifest import SourceTypes
from volmgr.sources import footing
from volmgr.sources.deadlines import Deadlines
from volmgr.sources.folder import Folder
from volmgr.sources.links import trace
from volmgr.sources.registry import Registry
from volmgr.sources.unchanged import Unchanged

_log = logging.getLogger(__name__)

MOUNT_SETTLE = 0.2
"""Seconds from a change of the mount table to a look whether the directory is another one now."""

CRASH_PAUSE = 5.0
"""Seconds of rest after an error that is a bug, before everything is looked at anew."""


class DirectorySource:
    """Watches one directory, flat; dot-files and names ending in `~` are ignored.

    Seconds: `removal_settle` until a missing file counts as deleted, `rescan_interval` between looks at everything
    where inotify is not to be had, `record_retry` until what could not be recorded (a full disk) is tried again.
    `edition` names the code that reads: a start reads files that are unchanged only if another edition read them.
    """

    def __init__(  # noqa: PLR0913 - options by name, with the defaults of the configuration
        self,
        name: str,
        path: Path,
        host: Host,
        registry: Registry,
        types: SourceTypes,
        *,
        removal_settle: float = 1.0,
        rescan_interval: float = 30.0,
        record_retry: float = 5.0,
        edition: str = "",
        open_watches: Callable[[], Watches] = Watches,
    ) -> None:
        self.name = name
        self.path = os.path.abspath(path)
        self._host = host
        self._registry = registry
        self._rescan_interval = rescan_interval
        self._open_watches = open_watches
        self._deadlines = Deadlines()
        self._folder = Folder(
            name,
            self.path,
            registry,
            types,
            self._deadlines,
            Unchanged(host.files, host.paths, name, edition),
            removal_settle=removal_settle,
            relook=rescan_interval,
            record_retry=record_retry,
        )
        self._watches: Watches | None = None
        self._mounts = MountWatch()
        self._place: tuple[int, int] | None = None
        self._anchors: frozenset[tuple[str, str]] = frozenset()
        self._recheck = True
        self._told: tuple[bool, str] | None = None
        self._commands: deque[Callable[[], None]] = deque()
        self._wakeup = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread; the registry is told when everything was read once."""
        self._poll.register(self._wakeup, select.POLLIN)
        self._poll.register(self._mounts.fileno(), select.POLLIN)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it; what was accepted stays."""
        self._stopped = True
        os.eventfd_write(self._wakeup, 1)
        self._thread.join()
        self._mounts.close()
        os.close(self._wakeup)

    def rescan(self) -> None:
        """Look at everything again, soon."""
        self._commands.append(self._check_again)
        os.eventfd_write(self._wakeup, 1)

    def accept_moved(self) -> None:
        """Confirm that the directory is where it should be now (see `footing`); raises OperationError."""
        footing.accept(self._host, self.name, Path(self.path))
        self.rescan()

    def _run(self) -> None:
        self._folder.begin()
        while not self._stopped:
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - a bug; without this thread nothing new would ever be seen
                _log.exception("source %s stopped; it starts anew in %s s", self.name, CRASH_PAUSE)
                self._say(ready=False, problem=f"internal error: {error!r}; see the log")
                self._deadlines.set("crash", time.monotonic() + CRASH_PAUSE, self._check_again)
                self._wait()
        self._folder.end()
        self._close_watches()

    def _turn(self) -> None:
        """Do all that is due, then wait."""
        if self._recheck:
            self._recheck = False
            self._stand()
        self._folder.look(self._watch, self._collect)
        if self._recheck:
            return
        if self._folder.resolved is not None:
            self._say(ready=True)
        self._wait()

    def _wait(self) -> None:
        at = self._deadlines.next_due()
        timeout = None if at is None else max(0.0, (at - time.monotonic()) * 1000 + 0.5)
        for descriptor, _events in self._poll.poll(timeout):
            if descriptor == self._wakeup:
                os.eventfd_read(self._wakeup)
            elif descriptor == self._mounts.fileno():
                self._poll.unregister(self._mounts.fileno())  # a burst of mounts is one look
                self._deadlines.set("mounts", time.monotonic() + MOUNT_SETTLE, self._mounts_changed)
        self._collect()
        while self._commands:
            self._commands.popleft()()
        self._deadlines.run_due(time.monotonic())

    def _check_again(self) -> None:
        self._recheck = True

    def _mounts_changed(self) -> None:
        self._mounts.acknowledge()
        self._poll.register(self._mounts.fileno(), select.POLLIN)
        if self._identity() != self._place:
            self._recheck = True

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _stand(self) -> None:
        """Find out whether the directory is there and the right one; watch it, and have everything looked at."""
        path = trace(self.path)
        self._anchors = frozenset(path.hops)
        self._folder.resolved = None
        self._place = self._identity()
        problem = self._problem(path.resolved)
        if not problem:
            self._folder.resolved = path.resolved
        self._watch()
        if self._identity() != self._place:
            self._recheck = True  # replaced while it was looked at
            return
        if problem:
            self._say(ready=False, problem=problem)
            return
        try:
            self._folder.scan()
        except OSError as error:
            self._folder.resolved = None
            self._say(ready=False, problem=f"{self.path} cannot be listed: {error.strerror}")

    def _problem(self, resolved: str | None) -> str:
        """Say why the directory is not ready, and record what it stands on when it is."""
        stays = "what was accepted from it stays"
        if resolved is not None and os.path.exists(resolved) and not os.path.isdir(resolved):
            return f"the manifests directory {self.path} is no directory; {stays}; name the directory of that file"
        if resolved is None or not os.path.isdir(resolved):
            return f"the manifests directory {self.path} is missing; {stays}; make or mount it"
        try:
            now = footing.footing(self._host, self.path, resolved)
            before = footing.recorded(self._host, self.name)
        except (OSError, OperationError) as error:
            return f"the manifests directory {self.path} cannot be read: {error}; {stays}"
        if problem := footing.moved(before, now):
            return f"the manifests directory {problem}; {stays}"
        if now != before:
            try:
                footing.record(self._host, self.name, now)
            except OperationError as error:
                self._deadlines.set("footing", time.monotonic() + self._rescan_interval, self._check_again)
                _log.warning("the place of %s is not recorded: %s", self.path, error)
        return ""

    def _watch(self) -> None:
        """Watch the directory, and wherever links lead to it and from it; without inotify look again later."""
        wanted = {directory: AWAITED for directory, _name in self._anchors}
        if self._folder.resolved is not None:
            wanted = dict.fromkeys(wanted, PLACE)
            wanted |= dict.fromkeys([self._folder.resolved, *self._folder.directories()], CONTENT)
        try:
            if self._watches is None:
                self._watches = self._open_watches()
                self._poll.register(self._watches.fileno(), select.POLLIN)
            self._watches.keep(wanted)
        except NoWatchError as error:
            self._close_watches()
            problem = f"{error}; until then it is looked at every {self._rescan_interval:g} s"
            self._registry.complain(self.name, self.path, (ManifestError(problem, file=self.path),))
            self._deadlines.set("rescan", time.monotonic() + self._rescan_interval, self._check_again)
        else:
            self._registry.complain(self.name, self.path, ())

    def _close_watches(self) -> None:
        if self._watches is not None:
            self._poll.unregister(self._watches.fileno())
            self._watches.close()
            self._watches = None

    def _collect(self) -> None:
        """Heed what happened."""
        if self._watches is None:
            return
        for happening in self._watches.happenings():
            directory, name = happening.directory, happening.name
            if not name and directory in self._folder.directories():
                self._folder.heed_directory(directory)
                continue
            if not name or (directory, name) in self._anchors:
                self._recheck = True
                continue
            if directory == self._folder.resolved:
                self._folder.heed(name, is_open=happening.is_open, is_settled=happening.is_settled)
            if not happening.is_open:
                self._folder.heed_hop(directory, name)

    def _say(self, *, ready: bool, problem: str = "") -> None:
        if (ready, problem) != self._told:
            self._told = (ready, problem)
            self._registry.state(self.name, ready=ready, problem=problem)
