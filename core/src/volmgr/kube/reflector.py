"""List and watch of one collection: what is there is told to a sink, and kept current."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from volmgr.kube.api import Api
from volmgr.kube.attempt import Attempt
from volmgr.kube.errors import ApiError
from volmgr.kube.pace import Pace, half_to_whole
from volmgr.kube.resources import Resource
from volmgr.kube.thread import KubeThread
from volmgr.kube.watch import BOOKMARK_INTERVAL, Watch
from volmgr.kube.wire import Event, EventKind, Page, Seen, read_page
from volmgr.model.kube import KubeSettings
from volmgr.timers import Timer

REFUSED_PAUSE = 0.02
"""Seconds: the server's Node authorizer hears of a new Pod some milliseconds after we do, and refuses until then."""
STEADY = 1.0
"""Seconds after which a watch that brought nothing was none in vain; client-go calls shorter ones very short."""

log = logging.getLogger("volmgr.kube")


class ReflectorSink(Protocol):
    """Hears of a collection, on the thread of Kubernetes mode."""

    def listed(self, seen: Sequence[Seen]) -> None:
        """Take the whole set, in the place of all that was heard before."""
        ...

    def changed(self, seen: Seen) -> None:
        """Take an object that is new or other than before."""
        ...

    def gone(self, seen: Seen) -> None:
        """Forget an object; `seen` is its last state."""
        ...

    def troubled(self, error: ApiError | None) -> None:
        """Learn why what was heard may be old; None: it is current again, or for the first time."""
        ...


class Reflector:
    """Keeps a sink current, from start() to stop(), once; all on the thread of Kubernetes mode."""

    def __init__(
        self,
        thread: KubeThread,
        api: Api,
        resource: Resource,
        sink: ReflectorSink,
        settings: KubeSettings,
        *,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> None:
        self.last_contact = 0.0
        """Unix time of the last thing that the server said, bookmarks too; 0: never."""
        self.problem = f"{resource.plural} have not been read yet"
        """Why it is not current now; empty when it is."""
        self._thread = thread
        self._api = api
        self._sink = sink
        self._settings = settings
        self._resource = resource
        self._path = resource.path(namespace)
        selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self._selectors = {name: value for name, value in selectors.items() if value}
        self._pace = Pace(settings.backoff_initial, settings.backoff_max)
        self._refused = Pace(min(REFUSED_PAUSE, settings.backoff_initial), settings.backoff_max)
        self.version = self.version_before = ""
        """Of what was heard last, and before the last list."""
        self._listed = True
        """The version is a list's: a server that calls it too old would do so again."""
        self._pages: list[Seen] = []
        self._watch: Watch | None = None
        self._opened = 0.0
        self._heard = False
        self._heard_at = 0.0
        """When the last event, bookmark or list came."""
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Begin to list."""
        self._list()

    def stop(self) -> None:
        """Hear nothing any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.stop()

    def _list(self) -> None:
        self._pages = []
        self._ask_page("")

    def _ask_page(self, further: str) -> None:
        query = {"limit": str(self._settings.page_size), **self._selectors}
        if further:
            query["continue"] = further
        self._thread.ask(
            lambda: _page(self._api, self._resource, self._path, query),
            self._take_page,
            self._list_failed,
            self._resource.plural,
        )

    def _take_page(self, page: Page) -> None:
        if self._stopped:
            return
        self.last_contact = time.time()
        self._pages += page.seen
        if page.further:
            self._ask_page(page.further)
            return
        seen, self._pages = tuple(self._pages), []
        self.version_before, self.version, self._listed = self.version, page.version, True
        self._heard_at = self._thread.now()
        _tell(lambda: self._sink.listed(seen))
        self._follow()

    def _list_failed(self, error: ApiError) -> None:
        self._pages = []
        if not self._stopped:
            self._trouble(error)
            self._later(self._pause_after(error), self._list)

    def _follow(self) -> None:
        target = self._api.watch_target()
        if self._stopped:
            return
        if target is None:
            self._be_current()
            self._reset_pace()
            self._later(self._settings.object_lifetime * half_to_whole(), self._list)
            return
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version,
            "timeoutSeconds": str(int(self._settings.watch_lifetime * random.uniform(1, 2)) or 1),  # noqa: S311 - as jitter
            **self._selectors,
        }
        self._heard = False
        self._opened = 0.0
        self._watch = Watch(self._thread, target, self._path, query, self)
        self._watch.start()

    def opened(self) -> None:
        """Learn from the watch that the server agreed."""
        self.last_contact = time.time()
        self._opened = self._thread.now()
        self._be_current()

    def heard(self, event: Event) -> None:
        """Take an event of the watch."""
        self.last_contact = time.time()
        self._heard, self._listed = True, False
        self._heard_at = self._thread.now()
        seen = event.seen
        if event.kind is EventKind.DELETED:
            _tell(lambda: self._sink.gone(seen))
        elif event.kind is not EventKind.BOOKMARK:
            _tell(lambda: self._sink.changed(seen))
        self.version = seen.version or self.version

    def ended(self, error: ApiError | None) -> None:
        """Go on after a watch: from the same version, or with a list when that is too old."""
        self._watch = None
        in_vain = not self._heard and not (self._opened and self._thread.now() - self._opened >= STEADY)
        if not in_vain:
            self._reset_pace()
        if error is None:
            self._later(self._pace.pause() if in_vain else 0.0, self._list if self._is_deaf else self._follow)
        elif error.is_gone:
            self._later(self._pace.pause() if self._listed else 0.0, self._list)
        else:
            self._trouble(error)
            self._later(self._pause_after(error), self._list if self._is_deaf else self._follow)

    @property
    def _is_deaf(self) -> bool:
        """Say whether a watch was agreed to, and brought not even a bookmark for long.

        A server that was restored from a backup has not reached our version yet, and keeps silent until it has.
        """
        silence = BOOKMARK_INTERVAL + self._settings.watch_silence
        return bool(self._opened) and self._thread.now() - self._heard_at >= silence

    def _pause_after(self, error: ApiError) -> float:
        pace = self._refused if error.is_refused else self._pace
        return max(error.retry_after, pace.pause())

    def _reset_pace(self) -> None:
        self._pace.reset()
        self._refused.reset()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._timer = self._thread.later(seconds, action)

    def _trouble(self, error: ApiError) -> None:
        if self.problem != str(error):
            self.problem = str(error)
            _tell(lambda: self._sink.troubled(error))

    def _be_current(self) -> None:
        if self.problem:
            self.problem = ""
            _tell(lambda: self._sink.troubled(None))


def _page(api: Api, resource: Resource, path: str, query: dict[str, str]) -> Page:
    body = api.get(path, query)
    try:
        return read_page(body, resource)
    except ValueError as error:
        raise Attempt("list", path, api.address, "").failed(f"the server sent what is no list: {error}") from error


def _tell(telling: Callable[[], None]) -> None:
    try:
        telling()
    except Exception:  # one object that a sink cannot bear must not cost it those that follow
        log.exception("an object of the API server was taken wrongly")
