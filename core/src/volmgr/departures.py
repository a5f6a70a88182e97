"""The end of a Pod: when its last mount is gone, its directory is cleared away; orphans go the same way."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from volmgr.errors import VolmgrError
from volmgr.found_devices import kept_devices
from volmgr.messages import OrphansFound
from volmgr.report.events import Severity
from volmgr.report.volumes import missing_type
from volmgr.report.world import Orphan
from volmgr.tidy import Tidied, tidy

if TYPE_CHECKING:
    from volmgr.desk import Desk
    from volmgr.tenancy import Tenancy
    from volmgr.waiters import Waiters

log = logging.getLogger("volmgr.departures")


class Departures:
    """Clears away what is left of Pods that nobody wants any more."""

    def __init__(self, desk: Desk, tenancy: Tenancy, waiters: Waiters) -> None:
        self._desk = desk
        self._world = desk.world
        self._tenancy = tenancy
        self._waiters = waiters
        self._strangers: set[str] = set()
        """UIDs that are on disk, that no accepted Pod has, and that are not cleared away yet."""
        self._clearing: set[str] = set()
        self._delays: dict[str, float] = {}
        """By UID of what could not be cleared away: the back-off; it is running while the UID is in `_resting`."""
        self._resting: set[str] = set()

    def check(self, uid: str) -> None:
        """Clear a Pod's directory away when its last mount is gone."""
        entry = self._world.pods.get(uid)
        if not self._world.readiness.unmount or self._world.readiness.read_only:
            return
        if uid in self._clearing or uid in self._resting or self._is_busy(uid):
            return
        if entry is None:
            if uid in self._strangers and uid not in self._desk.sealed and not self._has_served_volumes(uid):
                self._clear(uid, leaving=False)
            return
        if uid in self._desk.living or self._world.actual.of_pod(uid) or (not entry.leaving and entry.torn_down):
            return
        entry.tidying = True
        self._clear(uid, leaving=entry.leaving)

    def _is_busy(self, uid: str) -> bool:
        return any(operation.pod_uid == uid for operation in self._world.running)

    def _has_served_volumes(self, uid: str) -> bool:
        """Say whether volumes of nobody's are still to be unmounted; those of a missing type stay as they are."""
        return any(volume.plugin in self._world.plugins.types for volume in self._world.actual.of_pod(uid))

    def _clear(self, uid: str, *, leaving: bool) -> None:
        self._clearing.add(uid)
        self._desk.outside.submit(lambda: self._tidy(uid, leaving=leaving))

    def _tidy(self, uid: str, *, leaving: bool) -> Tidied:
        """Run on a worker. A Pod is forgotten when nothing is left that is to go."""
        try:
            tidied = tidy(self._desk.host, uid)
            return replace(tidied, forgotten=leaving and not tidied.failed and self._desk.outside.forget(uid))
        except Exception as error:  # whatever it is, the Pod's directory is kept and named
            if not isinstance(error, VolmgrError):
                log.exception("clearing away what is left of Pod %s", uid)
            kept = Orphan(pod_uid=uid, path=str(self._desk.host.paths.pod(uid)), reason=str(error))
            return Tidied(uid=uid, kept=(kept,), failed=True)

    def _explained(self, orphan: Orphan) -> Orphan:
        """Name the type of what was kept, too, if it is one that is not installed."""
        if not orphan.plugin or self._world.plugins.of_directory(orphan.plugin) is not None:
            return orphan
        return replace(orphan, reason=f"{orphan.reason}; it waits for {missing_type(orphan.plugin)}")

    def settle(self, message: Tidied) -> None:
        uid = message.uid
        for path in [path for path, orphan in self._world.orphans.items() if orphan.pod_uid == uid]:
            del self._world.orphans[path]
        for orphan in map(self._explained, message.kept):
            self._keep(orphan)
        self._drop_gone(message)
        self._clearing.discard(uid)
        if message.failed:
            self._rest(uid)
        else:
            self._delays.pop(uid, None)
            self._strangers.discard(uid)
        entry = self._world.pods.get(uid)
        if entry is not None:
            entry.tidying = False
            entry.torn_down = not message.failed
            if message.forgotten:
                del self._world.pods[uid]
                self._desk.event(Severity.NORMAL, "PodGone", f"pod {entry.pod.key} is gone", uid=uid, pod=entry.pod.key)
                self._waiters.notify(entry.pod.key)
            else:
                self._tenancy.populate(uid)
        self._desk.touched[uid] = None

    def _keep(self, orphan: Orphan) -> None:
        self._world.orphans[orphan.path] = orphan
        self._desk.event(Severity.WARNING, "OrphanKept", f"{orphan.path} is kept: {orphan.reason}", uid=orphan.pod_uid)

    def _drop_gone(self, message: Tidied) -> None:
        """Forget volumes of missing types whose directory was empty: nobody else will say that they are gone."""
        for volume in self._world.actual.of_pod(message.uid):
            served = volume.plugin in self._world.plugins.types
            if not served and volume.mounts[message.uid].path in message.gone:
                self._desk.drop_mount(volume, message.uid)

    def _rest(self, uid: str) -> None:
        """Let it be tried again after a back-off."""
        delay = self._delays[uid] = self._desk.later(self._delays.get(uid, 0.0))
        self._resting.add(uid)

        def go_on() -> None:
            self._resting.discard(uid)
            self._desk.touched[uid] = None

        self._desk.timers.at(self._desk.outside.monotonic() + delay, go_on)

    def look_for_orphans(self, delay: float = 0.0) -> None:
        """Look for directories and records of Pods that nobody knows."""
        if not self._world.readiness.unmount or self._world.readiness.read_only:
            return
        host = self._desk.host

        def look() -> OrphansFound:
            uids = {*host.files.names(host.paths.pods), *host.files.names(host.paths.state / "mounts")}
            return OrphansFound(tuple(sorted(uids)), kept_devices(host, self._world.plugins))

        self._desk.run("looking for orphaned Pods", look, self.look_for_orphans, delay)

    def tidy_orphans(self, message: OrphansFound) -> None:
        known = {str(volume.device_target) for volume in self._world.actual}
        for path, reason in message.devices:
            if path not in known and path not in self._world.orphans:
                self._keep(Orphan(pod_uid="", path=path, reason=reason))
        for uid in message.uids:
            if uid not in self._world.pods:
                self._strangers.add(uid)
                self._desk.touched[uid] = None
