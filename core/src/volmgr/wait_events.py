"""What Pods wait for, said by events: an object that there is not, and that it takes too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.model.volume import VolumeMode
from volmgr.next_step import lack
from volmgr.report.events import Severity
from volmgr.report.volumes import Lens
from volmgr.report.waiting import is_mounted, leaves, mount_is_good, timed_out_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from volmgr.desk import Desk
    from volmgr.report.world import PodEntry
    from volmgr.timers import Timer

_NOTHING: Mapping[str, str] = {}


class WaitEvents:
    """Belongs to the reconciler's thread; looks at a Pod when something of it changed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._world = desk.world
        self._lacks: dict[str, Mapping[str, str]] = {}
        """What the volumes of Pods were last said to wait for, by UID and the volume's unique name."""
        self._due: dict[str, float] = {}
        """When it takes a Pod too long, in seconds of the monotonic clock, by UID; each as long after it began to wait,
        so in their order."""
        self._late: set[str] = set()
        """Pods of which that was said."""
        self._timer: Timer | None = None

    def look(self, uid: str) -> None:
        """Say what a Pod lacks, where that is news, and let the clock run while its volumes are not there."""
        entry = self._world.pods.get(uid)
        if entry is None or leaves(self._world, entry) or is_mounted(self._world, uid):
            self._lacks.pop(uid, None)
            self._stop_clock(uid)
            return
        if self._world.sources_ready:  # before, an object may only be unread
            self._tell_lacks(uid)
        if uid not in self._due and uid not in self._late:
            self._due[uid] = self._desk.outside.monotonic() + self._desk.config.wait_event_after
            self._set_timer()

    def _tell_lacks(self, uid: str) -> None:
        before, now = self._lacks.pop(uid, _NOTHING), dict(self._lacking(uid))
        if now:
            self._lacks[uid] = now
        for name, what in now.items():
            if before.get(name) != what:
                wanted = self._world.desired.get(name)
                is_block = wanted is not None and wanted.spec.mode is VolumeMode.BLOCK
                reason = "FailedMapVolume" if is_block else "FailedMount"
                self._desk.event(Severity.WARNING, reason, f"mount: waits for {what}", uid=uid, volume=name)

    def _lacking(self, uid: str) -> Iterator[tuple[str, str]]:
        for volume in self._world.desired.of_pod(uid):
            mount = volume.mounts[uid]
            if mount.missing and not mount.keep_only and (what := lack(mount)):
                actual = self._world.actual.get(volume.name)
                if not mount_is_good(volume, actual, uid):
                    yield volume.name, what

    def _stop_clock(self, uid: str) -> None:
        self._late.discard(uid)
        if self._due.pop(uid, None) is not None and not self._due and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        """Wake for the first of them: one timer for all, since most are mounted long before."""
        if self._timer is None and self._due:
            self._timer = self._desk.timers.at(next(iter(self._due.values())), self._tell_late)

    def _tell_late(self) -> None:
        self._timer = None
        now = self._desk.outside.monotonic()
        for uid, when in tuple(self._due.items()):
            if when > now:
                break
            del self._due[uid]
            entry = self._world.pods.get(uid)
            if entry is not None and not is_mounted(self._world, uid):
                self._late.add(uid)
                self._desk.event(Severity.WARNING, "FailedMount", self._late_text(entry), uid=uid)
        self._set_timer()

    def _late_text(self, entry: PodEntry) -> str:
        """Say it as kubelet does, and then why."""
        reasons = (report.message for report in Lens(self._world).volumes(entry.pod.uid) if report.message)
        head = f"Unable to attach or mount volumes: {timed_out_text(self._world, entry)}"
        return "; ".join((head, *reasons))
