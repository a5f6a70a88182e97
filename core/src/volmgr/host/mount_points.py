"""Directories on which volumes are mounted: left as they were by what fails, and removed when they are done with."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.errors import BusyError, OperationError, OverdueError, UncertainError, taken_back

if TYPE_CHECKING:
    from volmgr.host.interface import Host

FORCE_DEADLINE = 30.0
"""Seconds that a forced, or a lazy, unmount may take: it ends calls of others, and may wait for them to end."""

LEAST_PATIENCE = 2.0
"""Seconds that a server has to answer, at the least, unless it is forced after less."""

_FORCES = 3
"""How often a busy mount is forced: who is freed from a call ends, and then waits for the server to close its file."""

_log = logging.getLogger(__name__)


def unmounted_if_it_fails(target: Path, host: Host) -> AbstractContextManager[None]:
    """Leave nothing of a mount on `target` that fails within, unless it was there before; see `taken_back`."""
    was_there = host.mounts.is_mount_point(target)

    def undo() -> None:
        if not was_there:
            host.mounts.unmount(target)
            host.files.remove_directory(target)

    return taken_back(undo, f"mounting {target}")


def remove_mount_point(target: Path, host: Host) -> None:
    """Remove the directory of a mount that is gone; gone is success. Raises OperationError for data in it, kept."""
    if host.files.info(target) is not None and not host.files.remove_directory(target):
        raise OperationError(f"{target} is not mounted, yet there is something in it: it is kept; move it away")


def unmount_served(
    target: Path, host: Host, *, force_after: float, lazy: bool = False, until: float = float("inf")
) -> None:
    """Unmount all at and below `target`, by force where its server has not answered for `force_after` seconds.

    A forced unmount ends every call that waits for the server, with an error; so it is not done while anybody else has
    the same file system mounted. `lazy` says whether a mount that even this cannot free is detached all the same:
    whoever still waits in it goes on waiting. `until` is on the host's clock; with no time left before it nothing is
    done. Raises BusyError, OverdueError.
    """
    patience = min(force_after, until - host.clock())
    if patience < min(force_after, LEAST_PATIENCE):  # a server that was hardly asked is not silent
        raise UncertainError(
            f"{target} is not unmounted yet: no time is left to wait for its server; it is tried again"
        )
    try:
        host.mounts.unmount_below(target, deadline=patience)
    except (BusyError, UncertainError) as error:
        if isinstance(error, BusyError) and _answers(target, host, patience, lazy=lazy):
            raise
        _unmount_by_force(target, host, error, lazy=lazy)


def _answers(target: Path, host: Host, patience: float, *, lazy: bool) -> bool:
    try:
        return host.mounts.lives(target, deadline=patience)
    except UncertainError:
        return False
    except BusyError:  # dead for good and still used: no force helps, and only the policy takes it away
        return not lazy
    except OperationError:  # an answer, though no good one
        return True


def _unmount_by_force(target: Path, host: Host, error: BusyError | UncertainError, *, lazy: bool) -> None:
    mine = host.mounts.entry(target)
    if mine is None:  # only its process still waits for the server
        return
    others = [
        str(entry.target)
        for entry in host.mounts.table()
        if entry.device == mine.device and not entry.target.is_relative_to(target)
    ]
    if others:
        raise OverdueError(
            f"{error}; its server does not answer, and a forced unmount would end the calls of others that use the"
            f" same file system: {', '.join(others)}"
        ) from error
    _log.warning("unmounting %s (%s) by force: its server does not answer", target, mine.source)
    problem = _forced(target, host)
    if problem is None:
        return
    if not lazy:
        raise OverdueError(
            f"cannot unmount {target}, also not by force: {problem}; it is tried again until its server answers or who"
            " uses it has ended"
        ) from problem
    _log.warning("detaching %s (%s): what still waits for its server goes on waiting", target, mine.source)
    host.mounts.unmount(target, lazy=True, deadline=FORCE_DEADLINE)


def _forced(target: Path, host: Host) -> OperationError | UncertainError | None:
    """Unmount by force; gives why it was in vain."""
    problem: OperationError | UncertainError | None = None
    for _ in range(_FORCES):
        try:
            host.mounts.unmount(target, force=True, deadline=FORCE_DEADLINE)
        except BusyError as error:
            problem = error
        except (OperationError, UncertainError) as error:
            return error
        else:
            return None
    return problem


def device_behind(target: Path, shared: Path, host: Host) -> str:
    """Give the device of the node's mount on `shared` if the Pod's mount on `target` is of the same; else nothing."""
    mine, theirs = host.mounts.entry(target), host.mounts.entry(shared)
    return theirs.source if mine is not None and theirs is not None and mine.device == theirs.device else ""
