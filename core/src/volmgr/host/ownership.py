"""Giving a volume's files to the Pod's fsGroup: a small tree on this thread, a large one by an executed helper.

Source: `pkg/volume/volume_linux.go` of kubelet 1.37 (behaviours §3.2), except that a refused change is an error here,
and that other mounts below the volume are left alone.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import cast

from volmgr.errors import OperationError, TransientError, UncertainError
from volmgr.host import group_helper, syscalls
from volmgr.host.commands import UnkillableError
from volmgr.host.group_walk import GroupWalk
from volmgr.host.interface import HELPER_DEADLINE, Commands, OwnershipProgress
from volmgr.host.served import is_served
from volmgr.host.unasked import never, silent

ON_ROOT_MISMATCH = "OnRootMismatch"
"""The value of `fsGroupChangePolicy` by which a right root is taken for a right tree."""
SMALL = 1000
"""Entries up to which a walk is over sooner (10 ms) than a helper is started (50 ms)."""
PROGRESS = 1.0
"""Seconds between two words on how far a walk is."""
_FILE_BITS = 0o660
_FILE_BITS_READ_ONLY = 0o440
_REFUSALS = frozenset({errno.EPERM, errno.EACCES, errno.EROFS, errno.EOPNOTSUPP})


class LocalOwnership:
    """Ownership on this machine."""

    def __init__(
        self, commands: Commands, *, small: int = SMALL, patience: float = HELPER_DEADLINE, every: float = PROGRESS
    ) -> None:
        """Leave trees of more than `small` entries to a helper, which is ended when it does nothing for `patience` s.

        Say `every` so many seconds how far a walk is.
        """
        self._commands = commands
        self._small = small
        self._patience = patience
        self._every = every

    def apply(
        self,
        path: Path,
        group: int,
        *,
        policy: str = "Always",
        read_only: bool = False,
        cancelled: Callable[[], bool] = never,
        progress: Callable[[str], None] = silent,
    ) -> None:
        """Set group and mode bits where they differ, children first, root last; stops when cancelled."""
        course = _Course(path, group, cancelled, progress, patience=self._patience, every=self._every)
        bits = _FILE_BITS_READ_ONLY if read_only else _FILE_BITS
        walk = GroupWalk(str(path), group, bits, lambda walk: self._check(course, walk))
        may_be_right = policy == ON_ROOT_MISMATCH
        try:
            if is_served(path, follow=True):  # a thread that waits for a server could not be ended
                self._by_helper(course, bits, may_be_right=may_be_right)
                return
            if may_be_right and walk.root_matches():
                return
            walk.below()
            walk.root()
        except _LargeError:
            self._by_helper(course, bits)
        except OSError as error:
            raise course.refused(error.errno or 0, error.filename or str(path)) from error

    def _check(self, course: _Course, walk: GroupWalk) -> None:
        """Look, between entries of a walk on this thread, whether it is to end."""
        course.note(walk.seen, walk.changed)
        if course.cancelled():
            raise course.stopped()
        if walk.seen >= self._small:
            raise _LargeError

    def _by_helper(self, course: _Course, bits: int, *, may_be_right: bool = False) -> None:
        argv = group_helper.command(str(course.path), course.group, bits, may_be_right=may_be_right)
        try:
            result = self._commands.run(
                argv,
                deadline=float("inf"),
                accept=(0, group_helper.REFUSED),
                cancelled=course.is_over,
                told=course.hear,
            )
        except UnkillableError:
            raise
        except (OperationError, UncertainError) as error:
            raise course.ended(error) from error
        if result.exit_code == group_helper.REFUSED:
            raise course.failed(json.loads(result.stdout.splitlines()[-1]))


class _LargeError(Exception):
    """The walk is one for the helper; never seen outside this module."""


class _Course:
    """What is asked of one walk, and how far it is."""

    def __init__(
        self,
        path: Path,
        group: int,
        cancelled: Callable[[], bool],
        progress: Callable[[str], None],
        *,
        patience: float,
        every: float,
    ) -> None:
        self.path = path
        self.group = group
        self.cancelled = cancelled
        self._progress = progress
        self._patience = patience
        self._every = every
        self._seen = 0
        self._began = self._advanced = self._said = time.monotonic()

    def note(self, seen: int, changed: int) -> None:
        """Take down what the walk has done, and tell each second that it did something."""
        now = time.monotonic()
        if seen == self._seen:
            return
        self._seen, self._advanced = seen, now
        if now - self._said >= self._every:
            self._said = now
            rate = seen / max(now - self._began, 0.001)
            text = f"{self._attempt}: {seen:,} entries done, {changed:,} of them changed, {rate:,.0f} a second"
            self._progress(OwnershipProgress(text))

    def hear(self, line: str) -> None:
        """Take down what the helper says."""
        with suppress(ValueError):
            counts = json.loads(line)
            if isinstance(counts, list):
                self.note(*cast("list[int]", counts))

    def is_over(self) -> bool:
        """Say whether the helper is to be ended: it is not wanted any more, or its file system does not answer."""
        return self.cancelled() or time.monotonic() - self._advanced > self._patience

    def stopped(self) -> TransientError:
        """Give the error for a walk that was cancelled."""
        return TransientError(
            f"{self._attempt} was stopped after {self._seen} entries; it starts again when the volume is mounted again"
        )

    def ended(self, error: Exception) -> Exception:
        """Give the error for a helper that was ended, or ended by itself."""
        if self.cancelled():
            return self.stopped()
        if isinstance(error, UncertainError):
            return UncertainError(
                f"{self._attempt} was given up after {self._seen} entries: its file system has not answered for"
                f" {self._patience:g} s; see whether its server is reachable"
            )
        return error

    def failed(self, answer: dict[str, object]) -> OperationError:
        """Give the error for what the helper failed on."""
        match answer:
            case {"errno": int(number), "path": str(path)}:
                return self.refused(number, path)
            case _:
                return OperationError(f"{self._attempt} failed: {answer.get('message')}; it is tried again")

    def refused(self, number: int, path: str) -> OperationError:
        """Give the error for a change that the file system did not allow."""
        error = OSError(number, os.strerror(number))
        return syscalls.failed(f"give {path} to group {self.group}", error, _REMEDY if number in _REFUSALS else "")

    @property
    def _attempt(self) -> str:
        return f"giving {self.path} to group {self.group}"


_REMEDY = (
    "it is immutable, or its file system leaves ownership to its server (root_squash, FUSE): set fsGroupChangePolicy:"
    f" {ON_ROOT_MISMATCH} in the Pod's securityContext and give the volume's root to the group there (mode 2770), set"
    " fsGroupPolicy: None in the CSIDriver if it has one, or leave fsGroup out"
)
