"""Helpers that leave a server running: under systemd each has a scope of its own, beside the daemon's service.

A session of its own saves a FUSE server from what the daemon's process group is told. It does not save it from systemd,
which by default ends all that a service has started (`KillMode=control-group`) when the service stops or restarts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

RUNNER = "systemd-run"
_SCOPE = ("--scope", "--quiet", "--collect")


def booted() -> bool:
    """Say whether systemd is PID 1; sd_booted(3)."""
    return os.path.isdir("/run/systemd/system")


def in_scope(argv: Sequence[str]) -> tuple[str, ...]:
    """Give the command that runs another one in a scope of its own.

    `systemd-run --scope` becomes that command: process, session, descriptors and exit code are what they are without.
    """
    return (RUNNER, *_SCOPE, f"--description=volmgr: {os.path.basename(argv[0])}", "--", *argv)


def without_scope(argv: Sequence[str]) -> Sequence[str]:
    """Give the command that is to run in a scope; any other one as it is."""
    return argv[argv.index("--") + 1 :] if argv[0] == RUNNER else argv
