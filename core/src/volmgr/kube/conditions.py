"""The condition `volumes.volmgr.io/Mounted` of Pods: whether their volumes are there, and why not (`pod_condition`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from volmgr.kube.event_texts import Regarding, second_time, shortened
from volmgr.kube.pace import longer
from volmgr.kube.resources import PODS
from volmgr.report.waiting import is_mounted
from volmgr.report.why import why_lines

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.errors import ApiError
    from volmgr.kube.thread import KubeThread
    from volmgr.model.kube import KubeSettings
    from volmgr.report.world import World
    from volmgr.timers import Timer

TYPE = "volumes.volmgr.io/Mounted"
log = logging.getLogger("volmgr.kube")


@dataclass(frozen=True, slots=True)
class MountedCondition:
    """What is said of a Pod."""

    is_mounted: bool
    message: str = ""

    @property
    def status(self) -> str:
        """Kubernetes' word for it."""
        return "True" if self.is_mounted else "False"

    @property
    def reason(self) -> str:
        """The reason, for programs."""
        return "VolumesMounted" if self.is_mounted else "VolumesNotMounted"


def condition_in(world: World, uid: str) -> tuple[Regarding, MountedCondition] | None:
    """Say what a Pod's condition is; None for one that is not known, or leaves. On the thread that owns the world."""
    entry = world.pods.get(uid)
    if entry is None or entry.leaving:
        return None
    meta = entry.pod.metadata
    regarding = Regarding("Pod", meta.namespace, meta.name, uid)
    if is_mounted(world, uid):
        return regarding, MountedCondition(is_mounted=True)
    _head, *lines = why_lines(world, uid)
    return regarding, MountedCondition(is_mounted=False, message=shortened("\n".join(line.strip() for line in lines)))


class _Shown(msgspec.Struct, rename="camel"):
    type: str
    status: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct):
    conditions: list[_Shown] = []


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the server has, since when it is so, and when that was told (seconds of the thread's clock)."""

    condition: MountedCondition
    since: str
    at: float


@dataclass(slots=True)
class _Entry:
    pod: Regarding
    wanted: MountedCondition
    told: _Told | None = None
    timer: Timer | None = None
    pause: float = 0.0


class PodConditions:
    """Says conditions by PATCHes of `pods/status`, one after the other, each only when it has changed.

    `wall` is Unix time in seconds. While only the words change, as they do with each try, they are said at most every
    `backoff_max`.
    """

    def __init__(
        self, thread: KubeThread, api: Api, settings: KubeSettings, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._thread = thread
        self._api = api
        self._settings = settings
        self._wall = wall
        self._entries: dict[str, _Entry] = {}
        self._queue: dict[str, None] = {}
        self._busy = False

    def say(self, pod: Regarding, condition: MountedCondition) -> None:
        """Let a Pod have a condition; from any thread."""
        self._thread.post(lambda: self._want(pod, condition))

    def forget(self, uid: str) -> None:
        """Say nothing more of a Pod; from any thread."""
        self._thread.post(lambda: self._forget(uid))

    def _want(self, pod: Regarding, condition: MountedCondition) -> None:
        entry = self._entries.setdefault(pod.uid, _Entry(pod, condition))
        turned = entry.wanted.is_mounted != condition.is_mounted
        entry.wanted = condition
        if entry.timer is not None and turned and not entry.pause:
            entry.timer.cancel()  # it waited with mere words
            entry.timer = None
        self._look(entry)

    def _forget(self, uid: str) -> None:
        entry = self._entries.pop(uid, None)
        self._queue.pop(uid, None)
        if entry is not None and entry.timer is not None:
            entry.timer.cancel()

    def _look(self, entry: _Entry) -> None:
        """Begin to say what is wanted, unless it is known, or was said a moment ago."""
        told = entry.told
        if entry.timer is not None or (told is not None and told.condition == entry.wanted):
            return
        pause = self._settings.status_debounce
        if told is not None and told.condition.is_mounted == entry.wanted.is_mounted:
            pause = max(pause, told.at + self._settings.backoff_max - self._thread.now())
        self._later(entry, pause)

    def _later(self, entry: _Entry, seconds: float) -> None:
        def due() -> None:
            entry.timer = None
            if self._entries.get(entry.pod.uid) is entry:
                self._queue[entry.pod.uid] = None
                self._next()

        entry.timer = self._thread.later(seconds, due)

    def _next(self) -> None:
        if self._busy or not self._queue:
            return
        uid = next(iter(self._queue))
        del self._queue[uid]
        entry = self._entries[uid]
        wanted, told = entry.wanted, entry.told
        self._busy = True
        self._thread.ask(
            lambda: self._said(entry.pod, wanted, told),
            lambda since: self._was_said(entry, wanted, since),
            lambda error: self._failed(entry, error),
        )

    def _said(self, pod: Regarding, wanted: MountedCondition, told: _Told | None) -> str:
        """Say it, and give since when it is so; on a request thread."""
        since, is_told = self._read(pod, wanted) if told is None else ("", False)
        if told is not None and told.condition.is_mounted == wanted.is_mounted:
            since = told.since
        since = since or second_time(self._wall())
        if not is_told:
            condition = {
                "type": TYPE,
                "status": wanted.status,
                "reason": wanted.reason,
                "message": wanted.message,
                "lastTransitionTime": since,
            }
            body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
            self._api.patch(PODS.path(pod.namespace, pod.name, "status"), body)
        return since

    def _read(self, pod: Regarding, wanted: MountedCondition) -> tuple[str, bool]:
        """Look what an earlier daemon said: since when it is as wanted, and whether nothing else is to be said."""
        shown = msgspec.json.decode(self._api.get(PODS.path(pod.namespace, pod.name)), type=_Pod)
        for each in shown.status.conditions:
            if each.type == TYPE and each.status == wanted.status and shown.metadata.uid == pod.uid:
                return each.last_transition_time or "", each.message == wanted.message
        return "", False

    def _was_said(self, entry: _Entry, condition: MountedCondition, since: str) -> None:
        self._busy = False
        entry.told = _Told(condition, since, self._thread.now())
        entry.pause = 0.0
        if self._entries.get(entry.pod.uid) is entry:
            self._look(entry)
        self._next()

    def _failed(self, entry: _Entry, error: ApiError) -> None:
        self._busy = False
        if error.is_missing or error.is_conflict:  # the Pod is gone, or another has its name
            self._forget(entry.pod.uid)
        elif self._entries.get(entry.pod.uid) is entry:
            if not entry.pause:
                log.warning("the condition %s of pod %s/%s: %s", TYPE, entry.pod.namespace, entry.pod.name, error)
            entry.pause = longer(entry.pause, self._settings.backoff_initial, self._settings.backoff_max)
            self._later(entry, max(entry.pause, error.retry_after))
        self._next()
