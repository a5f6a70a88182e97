"""Helpers that outlived their daemon: until they end, nobody else touches what they work on."""

from __future__ import annotations

from functools import partial
from signal import SIGKILL, SIGTERM
from typing import TYPE_CHECKING

from volmgr.host.commands import GRACE
from volmgr.report.events import Severity

if TYPE_CHECKING:
    from volmgr.desk import Desk
    from volmgr.messages import SurvivorEnded
    from volmgr.report.world import Survivor


class Survivors:
    """Belongs to the reconciler's thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._world = desk.world

    def take(self, survivor: Survivor) -> None:
        """Keep from others what a helper works on until it ends, which it must by its deadline."""
        self._world.survivors[survivor.id] = survivor
        self._world.admission.leave(survivor.held)
        message = (
            f"an earlier volmgrd's `{survivor.helper}` (pid {survivor.pid}) still runs; its volume waits for its end"
        )
        uid, volume = survivor.held.pod_uid, survivor.held.volume
        self._desk.event(Severity.WARNING, "HelperOutlivedDaemon", message, uid=uid, volume=volume)
        if survivor.until is not None:
            for number, when in ((SIGTERM, survivor.until), (SIGKILL, survivor.until + GRACE)):
                self._desk.timers.at(when, partial(self._desk.outside.end, survivor, number))
        self._desk.outside.survives(survivor)

    def drop(self, message: SurvivorEnded) -> None:
        """Give back what a helper kept that has ended."""
        del self._world.survivors[message.survivor.id]
        for name in self._world.admission.give_back(message.survivor.held):
            self._desk.dirty[name] = None
