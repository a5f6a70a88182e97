"""The end of a Pod: when its last mount is gone, its directory is cleared away; orphans go the same way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from volmgr.messages import OrphansFound
from volmgr.report.events import Severity
from volmgr.report.world import Orphan
from volmgr.tidy import Tidied, tidy

if TYPE_CHECKING:
    from volmgr.desk import Desk
    from volmgr.tenancy import Tenancy
    from volmgr.waiters import Waiters


class Departures:
    """Clears away what is left of Pods that nobody wants any more."""

    def __init__(self, desk: Desk, tenancy: Tenancy, waiters: Waiters) -> None:
        self._desk = desk
        self._world = desk.world
        self._tenancy = tenancy
        self._waiters = waiters

    def check(self, uid: str) -> None:
        """Clear a Pod's directory away when its last mount is gone."""
        entry = self._world.pods.get(uid)
        if entry is None or entry.tidying or not self._world.readiness.unmount or self._world.readiness.read_only:
            return
        if uid in self._desk.living or self._world.actual.of_pod(uid) or self._is_busy(uid):
            return
        if not entry.leaving and entry.torn_down:
            return
        entry.tidying = True
        leaving = entry.leaving
        self._desk.outside.submit(lambda: self._tidy(uid, leaving=leaving))

    def _is_busy(self, uid: str) -> bool:
        return any(operation.pod_uid == uid for operation in self._world.running)

    def _tidy(self, uid: str, *, leaving: bool) -> Tidied:
        """Run on a worker."""
        try:
            kept = tidy(self._desk.host, uid)
        except Exception as error:  # noqa: BLE001 - whatever it is, the Pod's directory is kept and named
            kept = (Orphan(pod_uid=uid, path=str(self._desk.host.paths.pod(uid)), reason=str(error)),)
        return Tidied(uid=uid, kept=kept, forgotten=leaving and self._desk.outside.forget(uid))

    def settle(self, message: Tidied) -> None:
        uid = message.uid
        for path in [path for path, orphan in self._world.orphans.items() if orphan.pod_uid == uid]:
            del self._world.orphans[path]
        for orphan in message.kept:
            self._world.orphans[orphan.path] = orphan
            self._desk.event(Severity.WARNING, "OrphanKept", f"{orphan.path} is kept: {orphan.reason}", uid=uid)
        entry = self._world.pods.get(uid)
        if entry is not None:
            entry.tidying = False
            entry.torn_down = True
            if message.forgotten:
                del self._world.pods[uid]
                self._desk.event(Severity.NORMAL, "PodGone", f"pod {entry.pod.key} is gone", uid=uid, pod=entry.pod.key)
                self._waiters.notify(entry.pod.key)
            else:
                self._tenancy.populate(uid)
        self._desk.touched[uid] = None

    def look_for_orphans(self) -> None:
        """Look for directories of Pods that nobody knows."""
        if self._world.readiness.unmount and not self._world.readiness.read_only:
            host = self._desk.host
            self._desk.outside.submit(lambda: OrphansFound(host.files.names(host.paths.pods)))

    def tidy_orphans(self, message: OrphansFound) -> None:
        for uid in message.uids:
            known = uid in self._world.pods
            served = any(volume.plugin in self._world.plugins.types for volume in self._world.actual.of_pod(uid))
            if not known and not served:
                self._desk.outside.submit(partial(self._tidy, uid, leaving=False))
