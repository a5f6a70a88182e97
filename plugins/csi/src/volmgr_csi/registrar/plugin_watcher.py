"""Watching sockets come and go: those to register from, below one directory, and single ones anywhere.

An event says only that it is time to look again: what counts is what then lies there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr_csi.driver.sockets import Stamp, stamp_of

if TYPE_CHECKING:
    from volmgr.plugin import Watches

MODE = 0o755
"""Of the directory, where it has to be made; kubelet's."""

_ROUNDS = 100  # of watching what was made while watches were set


@dataclass(frozen=True, slots=True)
class Heard:
    """What was heard since the last time: nothing, that something changed, and the sockets whose names were touched."""

    is_news: bool = False
    everything: bool = False
    """Anything may have changed: events were lost."""
    touched: frozenset[str] = frozenset()


@dataclass(slots=True)
class PluginWatcher:
    """`top` is the directory of registration sockets, as people know it."""

    top: str
    open_watches: Callable[[], Watches]
    _watches: Watches | None = None
    _singles: frozenset[str] = frozenset()
    _relevant: frozenset[tuple[str, str]] = frozenset()
    """Directory and name of what leads to a socket outside of `top`, and to `top`."""
    _tree: Mapping[str, str] = field(default_factory=dict[str, str])
    """Directories below `top`, by where they really are."""

    def make(self) -> str:
        """Make the directory if it is missing; say what is wrong when it is not there then."""
        try:
            os.makedirs(self.top, MODE, exist_ok=True)
        except OSError as error:
            return (
                f"the directory of registration sockets {self.top} is missing and cannot be made ({error.strerror});"
                " make it"
            )
        return ""

    @property
    def is_missing(self) -> bool:
        """Whether the directory is not there (any more)."""
        return not os.path.isdir(self.top)

    def fileno(self) -> int:
        """Give the descriptor to poll; -1 while nothing is watched."""
        return -1 if self._watches is None else self._watches.fileno()

    def close(self) -> None:
        """Watch nothing any more."""
        if self._watches is not None:
            self._watches.close()
            self._watches = None

    def watch(self, singles: Collection[str]) -> None:
        """Watch the directory, everything in it, and where single sockets lie; raises OperationError."""
        self._singles = frozenset(singles)
        if self._watches is None:
            self._watches = self.open_watches()
        before: dict[str, int] = {}
        for _ in range(_ROUNDS):
            wanted = self._wanted(self._watches)
            self._watches.keep(wanted)  # what is made in a new directory before that is found in the next round
            if wanted == before:
                return
            before = wanted

    def sockets(self) -> dict[str, Stamp]:
        """Give the sockets to register from, by path."""
        found: dict[str, Stamp] = {}
        for directory in _directories(self.top):
            for name in _names(directory):
                path = os.path.join(directory, name)
                stamp = None if _is_hidden(name) else stamp_of(path)
                if stamp is not None:
                    found[path] = stamp
        return found

    def heed(self) -> Heard:
        """Give what happened since the last call, without waiting."""
        news = False
        touched: set[str] = set()
        for happening in () if self._watches is None else self._watches.happenings():
            directory, name = happening.directory, happening.name
            if not directory:
                return Heard(is_news=True, everything=True)
            if directory in self._tree and not _is_hidden(name):
                touched.add(os.path.join(self._tree[directory], name))
                news = True
            news = news or not name or (directory, name) in self._relevant
        return Heard(is_news=news, touched=frozenset(touched))

    def _wanted(self, watches: Watches) -> dict[str, int]:
        """Give what to hear of which directory: as little as is needed, since what leads to sockets may be busy."""
        ends = {end for path in self._singles for end in (path, os.path.realpath(path))}
        anchors = {anchor for path in (self.top, *ends) for anchor in _anchors(path)}
        self._relevant = frozenset(anchors)
        self._tree = {os.path.realpath(each): each for each in _directories(self.top)}
        wanted: dict[str, int] = {}
        for place, name in anchors:
            path = os.path.join(place, name)
            if not os.path.lexists(path):
                wanted[place] = wanted.get(place, 0) | watches.AWAITED
            elif os.path.islink(path) or path == self.top:
                wanted[place] = wanted.get(place, 0) | watches.PLACE
            else:
                wanted[path] = wanted.get(path, 0) | watches.ITSELF
        near = {os.path.realpath(os.path.dirname(end)) for end in ends}
        for place in (*near, *self._tree):
            wanted[place] = wanted.get(place, 0) | watches.AWAITED
        return wanted


def _anchors(path: str) -> set[tuple[str, str]]:
    """Give each component of a path, and of where it leads, with the directory that it really lies in.

    One directory is watched under one name: inotify has one watch for it, whatever it was called.
    """
    found: set[tuple[str, str]] = set()
    for whole in (Path(path), Path(os.path.realpath(path))):
        found |= {(os.path.realpath(each.parent), each.name) for each in (whole, *whole.parents) if each.name}
    return found


def _directories(top: str) -> Iterator[str]:
    """Give a directory and all below it, without those that are hidden or behind a link."""
    yield top
    for name in _names(top):
        path = os.path.join(top, name)
        if not _is_hidden(name) and os.path.isdir(path) and not os.path.islink(path):
            yield from _directories(path)


def _names(directory: str) -> list[str]:
    """List a directory; one that is not there (any more) has nothing."""
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _is_hidden(name: str) -> bool:
    return name.startswith(".")
