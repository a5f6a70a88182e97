"""The files of one manifests directory: which to look at again, and what each look tells the registry."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from volmgr.errors import ManifestError
from volmgr.manifest import Parsed, SourceTypes, parse, too_large
from volmgr.sources.deadlines import Deadlines
from volmgr.sources.links import trace
from volmgr.sources.reading import Reading, Seen, read_manifest
from volmgr.sources.registry import Registry
from volmgr.sources.unchanged import Unchanged

_log = logging.getLogger(__name__)

RECORD_PAUSE = 1.0
"""Seconds from a read until it is recorded which files were read: one record for many files."""


def is_ignored(name: str) -> bool:
    """Say whether a file is none of ours: dot-files (editors, `..data`) and backups."""
    return name.startswith(".") or name.endswith("~")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes that os.fsdecode could only escape
        return False
    return True


class Folder:
    """Looks at files by name. `directory` is the path people know; `resolved` where it is, None while not ready."""

    def __init__(  # noqa: PLR0913 - options by name
        self,
        source: str,
        directory: str,
        registry: Registry,
        types: SourceTypes,
        deadlines: Deadlines,
        unchanged: Unchanged,
        *,
        removal_settle: float,
        relook: float,
        record_retry: float,
    ) -> None:
        self._source = source
        self._directory = directory
        self._registry = registry
        self._types = types
        self._deadlines = deadlines
        self._unchanged = unchanged
        self._removal_settle = removal_settle
        self._relook = relook
        self._record_retry = record_retry
        self.resolved: str | None = None
        self._known: dict[str, str] = {}
        self._writing: set[str] = set()
        self._due: dict[str, bool] = {}
        self._hops: dict[str, frozenset[tuple[str, str]]] = {}
        self._dependents: dict[tuple[str, str], set[str]] = {}

    def scan(self) -> None:
        """Let every file be looked at; those that are known but missing are about to be removed. Raises OSError."""
        if self.resolved is None:
            return
        names = {name for name in os.listdir(self.resolved) if not is_ignored(name)}
        self._unchanged.keep(names)
        self._writing.clear()  # whoever writes now is asked of the kernel
        for name in sorted(names):
            self._due.setdefault(name, False)
        here = {self._origin(name) for name in names}
        for origin in sorted(self._registry.origins(self._source) - here):
            self._mark_missing(origin)

    def heed(self, name: str, *, is_open: bool, is_settled: bool) -> None:
        """Take note that something happened to a file in the directory."""
        if is_ignored(name):
            return
        if is_open:
            self._writing.add(name)  # until it is closed, or another is renamed to this name
            self._due.pop(name, None)
            return
        if is_settled:
            self._writing.discard(name)
        if name not in self._writing:
            self._due[name] = is_settled or self._due.get(name, False)

    def heed_hop(self, directory: str, name: str) -> None:
        """Take note that something happened where the links of some files lead."""
        for dependent in self._dependents.get((directory, name), ()):
            self._due.setdefault(dependent, False)

    def heed_directory(self, directory: str) -> None:
        """Take note that a directory where links lead is gone or moved."""
        for hop in tuple(self._dependents):
            if hop[0] == directory:
                self.heed_hop(*hop)

    def directories(self) -> set[str]:
        """Give the directories, besides the folder itself, where links of its files lead."""
        return {directory for directory, _name in self._dependents} - {self.resolved or ""}

    def look(self, watch: Callable[[], None], collect: Callable[[], None]) -> None:
        """Look at what is due. `watch` watches where links lead, `collect` heeds what happened during a read."""
        while self._due and self.resolved is not None:
            due, self._due = self._due, {}
            names = [name for name in due if self._is_readable_name(name)]
            changed = [self._follow(name) for name in names]
            if any(changed):
                watch()  # before the read, so that no later change is missed
            for name in names:
                if name not in self._writing:
                    self._read(name, collect, settled=due[name])

    def _read(self, name: str, collect: Callable[[], None], *, settled: bool) -> None:
        known = self._known.get(name, "")
        stamp = "" if known else self._recorded_stamp(name)
        reading = read_manifest(f"{self.resolved}/{name}", known, stamp=stamp, settled=settled)
        if reading.seen is Seen.STABLE:
            collect()
            if name in self._writing:
                return
        elif settled or reading.seen not in {Seen.SAME, Seen.UNSTABLE}:
            self._unchanged.forget(name)  # somebody wrote it, even if so soon after a read that no time shows it
        self._take(name, reading)
        if not self._unchanged.is_written and "files" not in self._deadlines:
            self._deadlines.set("files", time.monotonic() + RECORD_PAUSE, self._unchanged.write)

    def _recorded_stamp(self, name: str) -> str:
        """Give the stamp of a file that was read by an earlier daemon, if what it said is what was recalled."""
        stamp, said = self._unchanged.entry(name)
        return stamp if said and said == self._registry.digest(self._source, self._origin(name)) else ""

    def _is_readable_name(self, name: str) -> bool:
        if _is_text(name):
            return True
        origin = self._origin(name.encode("utf-8", "backslashreplace").decode())
        error = ManifestError("its name is not UTF-8", file=origin, remedy="rename it")
        here = os.path.lexists(f"{self.resolved}/{name}")
        self._registry.complain(self._source, origin, (error,) if here else ())
        return False

    def _origin(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _follow(self, name: str) -> bool:
        """Remember where a file's links lead, if it is one."""
        path = f"{self.resolved}/{name}"
        hops = frozenset(trace(path).hops) if os.path.islink(path) else frozenset[tuple[str, str]]()
        before = self._hops.get(name, frozenset())
        if hops == before:
            return False
        for hop in before - hops:
            self._dependents[hop].discard(name)
            if not self._dependents[hop]:
                del self._dependents[hop]
        for hop in hops:
            self._dependents.setdefault(hop, set()).add(name)
        self._hops[name] = hops
        if not hops:
            del self._hops[name]
        return True

    def _take(self, name: str, reading: Reading) -> None:
        origin = self._origin(name)
        if reading.seen not in {Seen.MISSING, Seen.FOREIGN}:
            self._deadlines.cancel(f"removal {origin}")
        match reading.seen:
            case Seen.STABLE:
                self._offer(name, origin, reading)
            case Seen.SAME:
                self._known[name] = reading.identity
            case Seen.MISSING | Seen.FOREIGN:
                self._known.pop(name, None)
                if self._registry.holds(self._source, origin):
                    self._mark_missing(origin)
                else:
                    self._registry.withdraw(self._source, origin)
            case Seen.UNSTABLE:
                # Closing it is an event, unless the writer came by another name of the file.
                self._deadlines.set(f"look {name}", time.monotonic() + self._relook, lambda: self._look_again(name))
            case Seen.EMPTY | Seen.TOO_LARGE | Seen.UNREADABLE:
                self._known.pop(name, None)
                self._complain(origin, reading)

    def _look_again(self, name: str) -> None:
        self._due.setdefault(name, False)

    def _offer(self, name: str, origin: str, reading: Reading) -> None:
        parsed = parse(reading.data, origin, self._types)
        for note in parsed.notes:
            _log.info("%s", note)
        if not self._registry.offer(self._source, origin, reading.identity, parsed):
            self.retry_later()
        self._known[name] = reading.identity
        self._note(name, origin, reading, parsed)

    def _note(self, name: str, origin: str, reading: Reading, parsed: Parsed) -> None:
        """Take note of a file of which every word stands; of any other there is something to say at each start."""
        said = "" if parsed.errors or parsed.notes else self._registry.digest(self._source, origin)
        if said:
            self._unchanged.put(name, reading.stamp, said)
        else:
            self._unchanged.forget(name)

    def begin(self) -> None:
        """Read which files an earlier daemon read."""
        self._unchanged.load()

    def end(self) -> None:
        """Record which files were read."""
        if not self._unchanged.is_written:
            self._unchanged.write()

    def _complain(self, origin: str, reading: Reading) -> None:
        kept = self._registry.holds(self._source, origin)
        stays = "what it said last stays; " if kept else ""
        if reading.seen is Seen.TOO_LARGE:
            error = too_large(origin, reading.size)
        elif reading.seen is Seen.EMPTY:
            if not kept:
                return  # just made, and about to be written
            error = ManifestError("is empty", file=origin, remedy=f"{stays}delete the file to remove it")
        else:
            problem = f"cannot be read: {reading.problem}"
            error = ManifestError(problem, file=origin, remedy=f"{stays}make it readable, or delete it")
        self._registry.complain(self._source, origin, (error,))

    def _mark_missing(self, origin: str) -> None:
        key = f"removal {origin}"
        if key not in self._deadlines:
            self._registry.absent(self._source, origin)
            self._deadlines.set(key, time.monotonic() + self._removal_settle, lambda: self._remove(origin))

    def _remove(self, origin: str) -> None:
        """Let the objects of a file leave, if it is still missing and the directory still there."""
        if self.resolved is None or not os.path.isdir(self.resolved):
            return  # not ready: a scan will find out when it is
        directory, name = os.path.split(origin)
        if directory == self._directory and os.path.isfile(f"{self.resolved}/{name}"):
            self._due.setdefault(name, False)
        elif not self._registry.withdraw(self._source, origin):
            self.retry_later()

    def retry_later(self) -> None:
        """Try again later to record what could not be."""
        self._deadlines.set("record", time.monotonic() + self._record_retry, self._retry)

    def _retry(self) -> None:
        if not self._registry.retry():
            self.retry_later()
