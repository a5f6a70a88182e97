"""Taking up a new set of packages: checked in a child, then the daemon executes itself anew, same PID and socket.

Modules are never reloaded within a process: half of the old code would stay behind.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from volmgr.discovery import load
from volmgr.errors import PluginError
from volmgr.host import processor

if TYPE_CHECKING:
    from collections.abc import Callable

    from volmgr.plugins import Plugins

INHERITED = "VOLMGR_INHERITED"
"""Environment variable with the descriptors of the lock and the listening socket: `LOCK,SOCKET`."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """Descriptors that the daemon left to itself."""

    lock: int
    socket: int


def inherited() -> Inherited | None:
    """Give what an earlier execution of this process left; None at an ordinary start."""
    text = os.environ.pop(INHERITED, "")
    if not text:
        return None
    lock, _, socket = text.partition(",")
    found = Inherited(int(lock), int(socket))
    os.set_inheritable(found.lock, False)  # noqa: FBT003 - takes no keyword
    os.set_inheritable(found.socket, False)  # noqa: FBT003 - takes no keyword
    return found


@dataclass(frozen=True, slots=True)
class Checked:
    """What a child found: broken packages, by origin, and what is wrong with the configuration, if anything."""

    broken: dict[str, str]
    configuration: str


def report_plugins(misconfigured: Callable[[Plugins], str]) -> int:
    """Print what is wrong with the installed set and the configuration, as JSON; gives the exit code."""
    plugins = load()
    found = Checked({str(item.origin): item.problem for item in plugins.broken}, misconfigured(plugins))
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    return 0


def check(current: Plugins, deadline: float) -> tuple[str, ...]:
    """Load the installed set in a child, and give what is as broken as before.

    Raises PluginError when a package is broken that was not, or when the configuration is wrong: the daemon would not
    start with it. `deadline` is what loading may take, in seconds.
    """
    import subprocess  # only a reload pays for its import

    argv = [sys.executable, "-m", "volmgr.daemon", *sys.argv[1:], "--check-plugins"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=deadline, check=False)
    except subprocess.TimeoutExpired:
        raise PluginError(f"the new set of packages did not load within {deadline:g} s") from None
    if done.returncode != 0:
        raise PluginError(f"the new set of packages does not load: {done.stderr.decode(errors='replace')[-2000:]}")
    found = msgspec.json.decode(done.stdout, type=Checked)
    if found.configuration:
        raise PluginError(f"the configuration is refused, the old one goes on: {found.configuration}")
    known = {str(item.origin) for item in current.broken}
    new = [f"{origin}: {problem}" for origin, problem in sorted(found.broken.items()) if origin not in known]
    if new:
        raise PluginError(f"the new set of packages is refused, the old one goes on: {'; '.join(new)}")
    return tuple(f"{origin}: {problem}" for origin, problem in sorted(found.broken.items()))


def execute(lock: int, socket: int) -> None:
    """Replace this process by a new execution of the daemon; does not return."""
    os.set_inheritable(lock, True)  # noqa: FBT003 - takes no keyword
    os.set_inheritable(socket, True)  # noqa: FBT003 - takes no keyword
    os.environ[INHERITED] = f"{lock},{socket}"
    processor.spread()
    os.execv(sys.executable, [sys.executable, "-m", "volmgr.daemon", *sys.argv[1:]])  # noqa: S606 - ourselves
