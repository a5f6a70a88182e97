"""The ground that the prober stands on: the directory of drivers, made if it is missing, and watched with all in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr_flexvolume.tree import directories, executable_name, is_hidden, names

if TYPE_CHECKING:
    from volmgr.plugin import Happening, Watches

MODE = 0o755
"""Of the directory, where it has to be made; kubelet's."""

_ROUNDS = 100  # of watching what was made while watches were set, and of making what was removed while it was made


class Ground:
    """`path` is the directory as people know it, `top` where it really is."""

    def __init__(self, path: str, open_watches: Callable[[], Watches]) -> None:
        self.path = path
        self.top = os.path.realpath(path)
        self._open_watches = open_watches
        self._watches: Watches | None = None
        self._anchors: frozenset[tuple[str, str]] = frozenset()
        self._owners: dict[str, set[str]] = {}
        """By watched directory: the names in the directory of drivers that it belongs to."""
        self._writing: set[tuple[str, str]] = set()

    def make(self) -> str:
        """Make the directory if it is missing; say what is wrong when it is not there then."""
        self._writing.clear()  # who writes now is said by the kernel: a file that is written to cannot be executed
        try:
            self._make_all()
        except OSError as error:
            return (
                f"the directory of drivers {self.path} is missing and cannot be made ({error.strerror}); make it, or"
                " set flex_dir in the configuration below plugins, kubernetes.io/flexvolume"
            )
        finally:
            self.top = os.path.realpath(self.path)
        return ""

    def _make_all(self) -> None:
        for rounds in range(_ROUNDS, 0, -1):
            try:
                os.makedirs(self.path, MODE, exist_ok=True)
            except (FileNotFoundError, FileExistsError):  # made, and removed at once: no event will tell
                if rounds == 1:
                    raise
            else:
                return

    @property
    def is_missing(self) -> bool:
        """Whether the directory is not there (any more)."""
        return not os.path.isdir(self.top)

    def names(self) -> list[str]:
        """Give what lies in the directory, drivers or not."""
        return names(self.top)

    def executable(self, name: str) -> str:
        """Give the executable's path by which a driver is known."""
        return os.path.join(self.path, name, executable_name(name))

    def is_written(self, name: str) -> bool:
        """Say whether somebody writes to the executable of a driver."""
        directory = os.path.realpath(os.path.join(self.top, name))
        return (directory, executable_name(name)) in self._writing

    def fileno(self) -> int:
        """Give the descriptor to poll; -1 while nothing is watched."""
        return -1 if self._watches is None else self._watches.fileno()

    def watch(self) -> None:
        """Watch the directory, what leads to it, and everything in it; raises OperationError when that cannot be."""
        if self._watches is None:
            self._watches = self._open_watches()
        before: dict[str, int] = {}
        for _ in range(_ROUNDS):
            wanted = self._wanted(self._watches)
            if wanted == before:
                return
            self._watches.keep(wanted)  # what is made in a new directory before that is found in the next round
            before = wanted

    def _wanted(self, watches: Watches) -> dict[str, int]:
        self._owners = {}
        for name in names(self.top):
            for directory in directories(os.path.realpath(os.path.join(self.top, name))):
                if os.path.isdir(directory):
                    self._owners.setdefault(directory, set()).add(name)
        self._anchors = frozenset(anchor for path in (self.path, self.top) for anchor in _anchors(path))
        mask = watches.AWAITED if self.is_missing else watches.PLACE
        above = dict.fromkeys((place for place, _ in self._anchors), mask)
        return above | dict.fromkeys((self.top, *self._owners), watches.CONTENT)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._watches is not None:
            self._watches.close()
            self._watches = None

    def heed(self) -> set[str] | None:
        """Give the names of drivers to which something happened; None: to look at everything."""
        found: set[str] = set()
        for happening in self._watches.happenings() if self._watches is not None else ():
            directory, name = happening.directory, happening.name
            if not directory or (directory, name) in self._anchors or (directory == self.top and not name):
                return None
            if is_hidden(name):
                continue
            if directory == self.top:
                found.add(name)
            elif directory in self._owners and self._is_news(happening):
                found |= self._owners[directory]
        return found

    def _is_news(self, happening: Happening) -> bool:
        """Say whether it is time to look: not while a file is being written."""
        file = (happening.directory, happening.name)
        if happening.is_open:
            self._writing.add(file)
            return False
        if happening.is_settled or not os.path.lexists(os.path.join(*file)):
            self._writing.discard(file)
        return True


def _anchors(path: str) -> list[tuple[str, str]]:
    """Give each component of a path with the directory that it lies in."""
    whole = Path(path)
    return [(str(each.parent), each.name) for each in (whole, *whole.parents) if each.name]
