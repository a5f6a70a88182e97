"""Giving a volume's files to the Pod's fsGroup.

Source: `pkg/volume/volume_linux.go` of kubelet 1.37 (behaviours §3.2), except that a refused change is an error here,
and that other mounts below the volume are left alone.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from volmgr.errors import OperationError, TransientError
from volmgr.host import syscalls
from volmgr.host.tree_walk import Step, When, walk

ON_ROOT_MISMATCH = "OnRootMismatch"
"""The value of `fsGroupChangePolicy` by which a right root is taken for a right tree."""
_FILE_BITS = 0o660
_FILE_BITS_READ_ONLY = 0o440
_DIRECTORY_BITS = stat.S_ISGID | 0o110
_SET_ID_BITS = stat.S_ISUID | stat.S_ISGID  # chown takes these from a file
_CHECK_EACH = 256  # entries between looks at whether it is cancelled, and at the clock
_PROGRESS_SECONDS = 1.0


class LocalOwnership:
    """Ownership on this machine."""

    def apply(
        self,
        path: Path,
        group: int,
        *,
        policy: str = "Always",
        read_only: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Set group and mode bits where they differ, children first, root last; stops when cancelled."""
        change = _Change(path, group, cancelled=cancelled, progress=progress, read_only=read_only)
        try:
            if policy == ON_ROOT_MISMATCH and change.root_matches():
                return
            change.all()
        except OSError as error:
            raise change.refused(str(path), error) from error


class _Change:
    """One walk over one volume."""

    def __init__(
        self,
        path: Path,
        group: int,
        *,
        read_only: bool,
        cancelled: Callable[[], bool],
        progress: Callable[[str], None],
    ) -> None:
        self._path = path
        self._group = group
        self._bits = _FILE_BITS_READ_ONLY if read_only else _FILE_BITS
        self._cancelled = cancelled
        self._progress = progress
        self._seen = 0
        self._changed = 0
        self._said = time.monotonic()

    def root_matches(self) -> bool:
        """Say whether the root alone shows that all was done before: it is changed last."""
        found = os.lstat(self._path)
        wanted = self._bits | _DIRECTORY_BITS
        return found.st_gid == self._group and found.st_mode & wanted == wanted

    def all(self) -> None:
        """Change everything."""
        descriptor = syscalls.open_beneath(str(self._path.parent), os.O_PATH | os.O_DIRECTORY)
        try:
            if not stat.S_ISDIR(os.stat(self._path.name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                self._one(descriptor, self._path.name, None)
                return
            for step in walk(str(self._path), self._path.name, descriptor):
                match step.when:
                    case When.ENTERED:
                        self._files(step)
                    case When.LEAVING:
                        pass
                    case When.LEFT:
                        self._one(step.descriptor, step.name, step)
        finally:
            os.close(descriptor)

    def refused(self, path: str, error: OSError) -> OperationError:
        """Give the error for a change that the file system did not allow."""
        remedy = ""
        if error.errno in {errno.EPERM, errno.EROFS, errno.EOPNOTSUPP}:
            remedy = (
                f"its file system does not let anyone but its server do so: set fsGroupChangePolicy: {ON_ROOT_MISMATCH}"
                " in the Pod's securityContext and give the volume's root to the group, or leave fsGroup out"
            )
        return syscalls.failed(f"give {path} to group {self._group}", error, remedy)

    def _files(self, step: Step) -> None:
        self._pause()
        with os.scandir(step.descriptor) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    self._one(step.descriptor, entry.name, step, entry.name)

    def _one(self, descriptor: int, name: str, step: Step | None, file: str = "") -> None:
        """Change one thing: the directory of a step, a file in it, or (without one) the volume itself."""
        self._seen += 1
        if self._seen % _CHECK_EACH == 0:
            self._pause()
        try:
            self._changed += self._set(descriptor, name)
        except FileNotFoundError:
            return
        except OSError as error:
            path = str(self._path) if step is None else step.path
            raise self.refused(f"{path}/{file}" if file else path, error) from error

    def _set(self, directory: int, name: str) -> bool:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        differs = found.st_gid != self._group
        if differs:
            os.chown(name, -1, self._group, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return differs
        bits = self._bits | (_DIRECTORY_BITS if stat.S_ISDIR(found.st_mode) else 0)
        mode = stat.S_IMODE(found.st_mode) | bits
        if mode == stat.S_IMODE(found.st_mode) and not (differs and mode & _SET_ID_BITS):
            return differs
        # There is no lchmod: open what is there now without following or waking it, and change that.
        opened = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            if stat.S_IFMT(os.fstat(opened).st_mode) == stat.S_IFMT(found.st_mode):
                os.chmod(f"/proc/self/fd/{opened}", mode)
        finally:
            os.close(opened)
        return True

    def _pause(self) -> None:
        if self._cancelled():
            raise TransientError(
                f"giving {self._path} to group {self._group} was stopped after {self._seen} entries;"
                " it starts again when the volume is mounted again"
            )
        now = time.monotonic()
        if now - self._said >= _PROGRESS_SECONDS:
            self._said = now
            self._progress(f"gave {self._path} to group {self._group}: {self._changed} of {self._seen} entries changed")
