"""Asking servers about paths: by a process with a deadline, and not again while an earlier one still waits.

A thread that asks waits for as long as the server is silent. A process can be ended, or, where not even that is
possible, be left alone; there is never more than one of these for a path.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from weakref import WeakValueDictionary

from volmgr.errors import CommandError, OverdueError, UncertainError
from volmgr.host.commands import UnkillableError
from volmgr.host.interface import CommandResult, Commands
from volmgr.host.noted import StuckHelper
from volmgr.host.served import aside

PATIENCE = 10.0
"""Seconds that a server may take to answer for a path, when the configuration says nothing."""
START = 60.0
"""Seconds that a helper may take until it asks: Python starts in 50 ms, or in many seconds where a machine is slow."""


class _Clock:
    """When a helper that announces itself is late."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._until = time.monotonic() + START

    def begin(self, _line: str) -> None:
        """Let its time for asking begin."""
        self._until = time.monotonic() + self._patience

    def is_over(self) -> bool:
        """Say whether its time is over."""
        return time.monotonic() > self._until


@dataclass(slots=True, weakref_slot=True)
class _Turn:
    """Who asks for a path, one after the other; what was asked in vain while somebody waited is not asked again."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: int = 0
    problem: str = ""


class Inquiries:
    """Asks for a path at a time; used from any thread."""

    def __init__(self, commands: Commands, patience: float = PATIENCE) -> None:
        """Give a server `patience` seconds, unless the question says another time."""
        self._commands = commands
        self._patience = patience
        self._turns: WeakValueDictionary[Path, _Turn] = WeakValueDictionary()
        self._stuck: dict[Path, StuckHelper] = {}
        self._lock = threading.Lock()

    def ask(
        self,
        path: Path,
        argv: Sequence[str],
        *,
        deadline: float | None = None,
        accept: Sequence[int] = (0,),
        stdin: bytes = b"",
        changes: bool = False,
        announced: bool = False,
    ) -> CommandResult:
        """Run a command that touches a path; raises OverdueError when its server does not answer in time.

        An `announced` one writes a line before it asks: until then it has START seconds, whatever its machine does.
        """
        with self._lock:
            turn = self._turns.setdefault(path, _Turn())
        before = turn.failures
        with turn.lock:
            if turn.failures != before:
                raise OverdueError(turn.problem)
            self._refuse_beside_another(path)
            patience = self._patience if deadline is None else deadline
            clock = _Clock(patience)
            try:
                if announced:
                    return self._commands.run(
                        argv,
                        deadline=float("inf"),
                        accept=accept,
                        stdin=stdin,
                        changes=changes,
                        cancelled=clock.is_over,
                        told=clock.begin,
                    )
                return self._commands.run(argv, deadline=patience, accept=accept, stdin=stdin, changes=changes)
            except UncertainError as error:
                turn.failures += 1
                turn.problem = self._problem(path, patience, error)
                raise OverdueError(turn.problem) from error

    def ask_aside(
        self, path: Path, argv_of: Callable[[Path], Sequence[str]], *, deadline: float | None = None
    ) -> CommandResult:
        """Ask as above by a command for another path to the same mount, which whoever waits there does not keep busy.

        Raises CommandError that names the path itself.
        """
        with aside(path) as place:
            try:
                return self.ask(path, argv_of(place), deadline=deadline)
            except CommandError as error:
                said = error.stderr.replace(str(place), str(path))
                raise CommandError(argv_of(path), error.exit_code, said) from error

    def _refuse_beside_another(self, path: Path) -> None:
        """Raise when a helper that could not be ended still asks for the path."""
        with self._lock:
            stuck = self._stuck.get(path)
            if stuck is None or stuck.ended.is_set():
                self._stuck.pop(path, None)
                return
        raise OverdueError(f"{path} does not answer: process {stuck.pid} is still waiting for its server")

    def _problem(self, path: Path, patience: float, error: UncertainError) -> str:
        problem = f"{path} has not answered within {patience:g} s; see whether its server is reachable"
        if not isinstance(error, UnkillableError):
            return problem
        with self._lock:
            self._stuck[path] = error.helper
        return f"{problem}; process {error.helper.pid} cannot be killed, and waits on"
