"""Ends of processes: of who holds a Pod, and of helpers of an earlier daemon. A pidfd tells of each; none is polled.

Its record goes with it: a process that has ended holds nothing, whatever is on disk.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from volmgr.messages import HoldGone, Message, SurvivorEnded

if TYPE_CHECKING:
    from volmgr.helper_records import HelperRecords
    from volmgr.holds import Holds
    from volmgr.loop import Loop
    from volmgr.report.world import Hold, Survivor


class ProcessEnds:
    """Belongs to the loop's thread. `post` tells the reconciler, `run` has it run a chore on a worker."""

    def __init__(
        self,
        loop: Loop,
        holds: Holds,
        helpers: HelperRecords,
        post: Callable[[Message], None],
        run: Callable[[str, Callable[[], None]], None],
    ) -> None:
        self._loop = loop
        self._holds = holds
        self._helpers = helpers
        self._post = post
        self._run = run
        self._awaited: dict[str, int] = {}
        """By hold, and by surviving helper: the pidfd of its process."""

    def await_holder(self, hold: Hold) -> None:
        """Say that a hold is gone as soon as its process has ended."""
        self._await(hold.id, hold.pid, lambda: self._holds.is_alive(hold), lambda: self._holder_ended(hold))

    def await_survivor(self, helper: Survivor) -> None:
        """Say so when a helper that an earlier daemon has left has ended."""
        self._await(helper.id, helper.pid, lambda: self._helpers.is_alive(helper), lambda: self._survivor_ended(helper))

    def forget(self, key: str) -> None:
        """Await the end of a holder no longer; nothing happens when nobody does."""
        descriptor = self._awaited.pop(key, -1)
        if descriptor >= 0:
            self._loop.forget(descriptor)
            os.close(descriptor)

    def signal_survivor(self, helper: Survivor, number: signal.Signals) -> None:
        """Send a signal to the process group of a helper, if it still runs."""
        if helper.id in self._awaited and self._helpers.is_alive(helper):
            os.killpg(helper.pid, number)  # no other has this pid as long as the leader of its group lives

    def _await(self, key: str, pid: int, is_alive: Callable[[], bool], ended: Callable[[], None]) -> None:
        """Call `ended` when a process ends, at once when it has ended already."""
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            ended()
            return
        if not is_alive():
            os.close(descriptor)
            ended()
            return

        def noticed() -> None:
            self.forget(key)
            ended()

        self._awaited[key] = descriptor
        self._loop.watch(descriptor, noticed)

    def _holder_ended(self, hold: Hold) -> None:
        self._post(HoldGone(hold.id, hold.pod_uid))
        self._run("removing the record of a hold", partial(self._holds.remove, hold.id))

    def _survivor_ended(self, helper: Survivor) -> None:
        with suppress(ChildProcessError):  # it is our child only if we executed ourselves anew
            os.waitpid(helper.pid, os.WNOHANG)
        self._post(SurvivorEnded(helper))
        self._run("removing the record of a helper", partial(self._helpers.remove, helper))
