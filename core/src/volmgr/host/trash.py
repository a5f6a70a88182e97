"""The trash: trees renamed out of the way at once, and deleted by a thread that lives as long as there is any.

The daemon's death stops the thread; the next start goes on, since all that is in the trash is to be deleted.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from volmgr.errors import VolmgrError
from volmgr.host import syscalls
from volmgr.host.removal import is_small, remove_tree

_log = logging.getLogger(__name__)


class Trash:
    """A directory whose entries are deleted in the background."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._numbers = itertools.count()
        self._waiting: deque[Path] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def take(self, name: str, directory: int) -> None:
        """Rename what is called `name` in an open directory into the trash, and delete it later.

        OSError (EXDEV: other file system) leaves it there.
        """
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._opened() as trash:
            place = self._place(name)
            while os.path.lexists(place):
                place = self._place(name)
            os.rename(name, place.name, src_dir_fd=directory, dst_dir_fd=trash)
        self._delete_later([place])

    def resume(self) -> None:
        """Delete what an earlier daemon left."""
        try:
            with self._opened() as trash:
                names = sorted(os.listdir(trash))
        except FileNotFoundError:
            return
        except OSError as error:
            _log.warning("nothing of the trash is deleted: %s: %s", self._path, error.strerror)
            return
        self._delete_later([self._path / name for name in names])

    def join(self) -> None:
        """Wait until nothing is being deleted."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _delete_later(self, places: list[Path]) -> None:
        with self._lock:
            self._waiting.extend(places)
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._delete, name="trash", daemon=True)
                self._thread.start()

    def _delete(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                place = self._waiting.popleft()
            try:
                self._remove(place)
            except (OSError, VolmgrError) as error:
                _log.warning("left in the trash until the next start: %s: %s", place, error)

    def _remove(self, place: Path) -> None:
        is_small(place)
        with self._opened() as trash:
            remove_tree(place, trash, thorough=True)

    def _place(self, name: str) -> Path:
        return self._path / f"{os.getpid()}-{next(self._numbers)}-{name[:128]}"

    @contextmanager
    def _opened(self) -> Generator[int]:
        """Open the trash, never through a symbolic link: all that is in it is deleted."""
        descriptor = syscalls.open_beneath(str(self._path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
