"""Events, told to the API server: equal ones counted, few of each Pod, and never waited for."""

from __future__ import annotations

import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from volmgr.kube.event_texts import (
    About,
    Regarding,
    Telling,
    core_series,
    core_v1,
    events_series,
    events_v1,
    tellings,
)
from volmgr.kube.pace import longer
from volmgr.kube.resources import EVENTS, Resource
from volmgr.model.kube import EventsApi

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.errors import ApiError
    from volmgr.kube.thread import KubeThread
    from volmgr.model.kube import KubeSettings
    from volmgr.report.events import Event
    from volmgr.timers import Timer

QUEUE = 1000
"""Events that wait at most, the oldest go first; client-go's maxQueuedEvents."""
REMEMBERED = 4096
"""Series, and objects with a budget, that are remembered; client-go's maxLruCacheEntries."""
STALE = 600.0
"""Seconds after which an event that could not be told is dropped; client-go's aggregation interval, 10 min."""
_NAME_ROOM = 253 - 17
"""Characters of an object's name in that of its event: a dot and 16 digits follow."""
_NEW_EVENTS = Resource("Event", "events.k8s.io", "v1", "events")

log = logging.getLogger("volmgr.kube")


@dataclass(slots=True)
class _Series:
    """How often one event happened; `name` is its object's on the server, empty when there is none."""

    first: float
    last: float
    count: int = 0
    told: int = 0
    name: str = ""


@dataclass(slots=True)
class _Budget:
    """How many events of one object may be told now; refilled over time."""

    left: float
    at: float


class EventSink:
    """Hears of events on the thread that records them, and tells them on that of Kubernetes mode, one after the other.

    `look` says on the former what an event is about (`event_texts.about_in`).
    """

    def __init__(
        self, thread: KubeThread, api: Api, settings: KubeSettings, node_name: str, look: Callable[[Event], About]
    ) -> None:
        self._thread = thread
        self._api = api
        self._settings = settings
        self._node_name = node_name
        self._look = look
        self._heard: deque[tuple[Telling, float]] = deque(maxlen=QUEUE)
        self._posted = False
        self._series: OrderedDict[Telling, _Series] = OrderedDict()
        self._budgets: OrderedDict[Regarding, _Budget] = OrderedDict()
        self._waiting: OrderedDict[Telling, float] = OrderedDict()
        """What is to be told, and since when: time of the thread's clock."""
        self._telling = False
        self._timer: Timer | None = None
        self._pause = 0.0
        self._refused = ""
        self._numbers = itertools.count()

    def hear(self, event: Event) -> None:
        """Take an event; on the thread that records it, and never waits."""
        if self._settings.events is EventsApi.NONE:
            return
        found = tellings(event, self._look(event), self._node_name)
        self._heard.extend((telling, event.at) for telling in found)
        if found and not self._posted:
            self._posted = True
            self._thread.post(self._take)

    def _take(self) -> None:
        self._posted = False  # before the look: what comes during it posts again
        while self._heard:
            telling, at = self._heard.popleft()
            series = self._series.setdefault(telling, _Series(at, at))
            self._series.move_to_end(telling)
            series.count += 1
            series.last = at
            if telling not in self._waiting and self._may_tell(telling.regarding):
                self._waiting[telling] = self._thread.now()
        self._drop_oldest()
        while len(self._series) > REMEMBERED:
            self._series.popitem(last=False)
        self._tell_next()

    def _drop_oldest(self) -> None:
        while len(self._waiting) > QUEUE:
            self._waiting.popitem(last=False)

    def _may_tell(self, regarding: Regarding) -> bool:
        """Take one of an object's budget, as client-go's spam filter does."""
        now = self._thread.now()
        budget = self._budgets.setdefault(regarding, _Budget(float(self._settings.event_burst), now))
        self._budgets.move_to_end(regarding)
        while len(self._budgets) > REMEMBERED:
            self._budgets.popitem(last=False)
        if self._settings.event_interval > 0:
            more = (now - budget.at) / self._settings.event_interval
            budget.left = min(budget.left + more, float(self._settings.event_burst))
        budget.at = now
        if budget.left < 1:
            return False
        budget.left -= 1
        return True

    def _tell_next(self) -> None:
        if self._telling or self._timer is not None:
            return
        now = self._thread.now()
        while self._waiting:
            telling, since = self._waiting.popitem(last=False)
            series = self._series.get(telling)
            if series is not None and series.told < series.count and now - since < STALE:
                self._tell(telling, series, since)
                return

    def _tell(self, telling: Telling, series: _Series, since: float) -> None:
        self._telling = True
        is_new, count = not series.name, series.count
        name = series.name or self._new_name(telling.regarding, series.first)
        self._thread.ask(
            self._request(telling, series, name, is_new=is_new),
            lambda _raw: self._told(series, name, count),
            lambda error: self._not_told(telling, series, since, error),
        )

    def _told(self, series: _Series, name: str, count: int) -> None:
        self._telling = False
        self._pause = 0.0
        self._refused = ""
        series.name, series.told = name, count
        self._tell_next()

    def _not_told(self, telling: Telling, series: _Series, since: float, error: ApiError) -> None:
        self._telling = False
        if error.is_missing and series.name:  # the server keeps events for an hour
            series.name = ""
            self._waiting[telling] = since
        elif error.is_passing:
            self._waiting[telling] = since
            self._waiting.move_to_end(telling, last=False)
            self._drop_oldest()
            self._wait(error)
            return
        elif str(error) != self._refused:
            self._refused = str(error)
            log.warning("an event is not told: %s", error)
        self._tell_next()

    def _request(self, telling: Telling, series: _Series, name: str, *, is_new: bool) -> Callable[[], bytes]:
        is_core = self._settings.events is EventsApi.CORE
        resource = EVENTS if is_core else _NEW_EVENTS
        counted = (core_series if is_core else events_series)(series.count, series.last)
        namespace = telling.regarding.event_namespace
        if not is_new:
            return lambda: self._api.patch(resource.path(namespace, name), counted)
        body = (core_v1 if is_core else events_v1)(telling, name, self._node_name, series.first, counted)
        return lambda: self._api.create(resource.path(namespace), cast("Mapping[str, object]", body))

    def _wait(self, error: ApiError) -> None:
        self._pause = longer(self._pause, self._settings.backoff_initial, self._settings.backoff_max)
        self._timer = self._thread.later(max(self._pause, error.retry_after), self._again)

    def _again(self) -> None:
        self._timer = None
        self._tell_next()

    def _new_name(self, regarding: Regarding, at: float) -> str:
        number = (int(at * 1e6) << 8 | next(self._numbers) & 0xFF) & ((1 << 64) - 1)
        return f"{regarding.name[:_NAME_ROOM].rstrip('.-')}.{number:016x}"
