"""Executed helpers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

HELPER_DEADLINE = 120.0
"""Seconds that an executed helper may take when its caller says nothing; as long as an operation, by default."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What an executed command said."""

    exit_code: int
    stdout: str
    stderr: str


class Commands(Protocol):
    """Executed helpers, each in a session of its own, with a deadline that kills its process group."""

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline: float = HELPER_DEADLINE,
        accept: Sequence[int] = (0,),
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        cancelled: Callable[[], bool] | None = None,
        told: Callable[[str], None] | None = None,
        changes: bool = True,
    ) -> CommandResult:
        """Run a command; `deadline` in seconds, `accept` the exit codes that are success.

        `told` gets each line that it writes to its output, when it is written. One that outlives the daemon keeps
        operations of its volume waiting, unless it only looks and `changes` nothing.
        Raises CommandError for another exit code, OperationError when it is not installed, UncertainError
        when the deadline passed (the process group was killed).
        """
        ...

    def lasting(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Give the command to run so that what it leaves running, a FUSE server, outlives the daemon's service, too.

        Under systemd it has a scope of its own; elsewhere the command stays as it is.
        """
        ...

    def find(self, name: str) -> Path | None:
        """Give the path of an installed command."""
        ...
