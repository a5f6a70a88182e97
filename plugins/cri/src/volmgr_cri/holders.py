"""Answers who runs a Pod, and hears events of the runtime while, and only while, it has a Pod kept.

Events only make it sooner. Nothing depends on one: a runtime may have none, lose some, or give each to one listener.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.plugin import hookimpl
from volmgr_cri.settings import NAME, CriSettings

if TYPE_CHECKING:
    from volmgr_cri.runtime import Runtime
    from volmgr_cri.v1.api_pb2 import ContainerEventResponse

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Listening:
    """One subscription: the connection that it has to itself, and the thread that reads."""

    runtime: Runtime
    listener: threading.Thread


class Holders:
    """A Service that answers `volmgr_holds`; idle it has neither a thread nor a connection."""

    name = "cri"

    def __init__(self, recheck: Callable[[str], None], settings: CriSettings) -> None:
        self._recheck = recheck
        self._settings = settings
        self._lock = threading.Lock()
        self._heard: set[str] = set()
        """Pods that are asked about or kept: an end of one of their containers is passed on."""
        self._listening: _Listening | None = None
        self._turn = threading.Lock()
        """Held while the runtime is asked: one that hangs has one question, not one for each Pod."""
        self._silence = ""
        self._silent_until = 0.0
        """Until when, by the monotonic clock, a runtime that hung is not asked again."""
        self._stopped = False

    def start(self) -> None:
        """Wait to be asked."""

    def stop(self) -> None:
        """Hear nothing more."""
        with self._lock:
            self._stopped = True
            listening = self._listening
        if listening is not None:
            listening.runtime.close()
            listening.listener.join(self._settings.request_timeout)

    @hookimpl
    def volmgr_holds(self, pod_uid: str) -> str | None:
        """Say which containers still use the Pod's volumes, or that nobody can say."""
        with self._lock:
            self._heard.add(pod_uid)
        with self._turn:
            return self._answer(pod_uid)

    def _answer(self, pod_uid: str) -> str | None:
        from volmgr_cri.runtime import RuntimeSilent, has_expired, why_silent  # 22 MB, for who has a Pod torn down

        if time.monotonic() < self._silent_until:
            return self._silence
        try:
            answer = self._ask(pod_uid)
            if answer and self._listen(pod_uid):
                answer = self._ask(pod_uid)  # what ended before was heard by nobody
        except RuntimeSilent as error:
            self._silence = (
                f"unknown: asking {self._settings.runtime_endpoint} for the Pod's containers: {why_silent(error)};"
                f" start the runtime, name its socket in plugins.{NAME}.runtime_endpoint, or uninstall {NAME}"
            )
            if has_expired(error):
                self._silent_until = time.monotonic() + self._settings.request_timeout
            return self._silence
        if answer is None:
            self._let_go(pod_uid)
        return answer

    def _ask(self, pod_uid: str) -> str | None:
        from volmgr_cri.containers import who_runs

        with closing(self._connect()) as runtime:
            containers = runtime.containers_of(pod_uid)
            return who_runs(runtime.name(), containers) if containers else None

    def _connect(self) -> Runtime:
        from volmgr_cri.runtime import Runtime

        return Runtime(self._settings.runtime_endpoint, self._settings.request_timeout)

    def _listen(self, pod_uid: str) -> bool:
        """Hear what happens to a Pod's containers; True when that began only now."""
        with self._lock:
            if self._stopped or (self._listening is not None and pod_uid in self._heard):
                return False
            self._heard.add(pod_uid)
            if self._listening is not None:
                return True
            runtime = self._connect()
            happenings = runtime.events(self._settings.events_lifetime)
            listener = threading.Thread(target=self._hear, args=(runtime, happenings), name=NAME, daemon=True)
            self._listening = _Listening(runtime, listener)
            listener.start()
        runtime.settle()
        return True

    def _let_go(self, pod_uid: str) -> None:
        with self._lock:
            self._heard.discard(pod_uid)
            if self._heard or self._listening is None:
                return
            listening, self._listening = self._listening, None
        listening.runtime.close()

    def _hear(self, runtime: Runtime, happenings: Iterator[ContainerEventResponse]) -> None:
        """Pass on which Pod is to be asked about again, until the subscription ends."""
        from volmgr_cri.containers import pod_that_ended
        from volmgr_cri.runtime import RuntimeSilent, has_expired, why_silent

        expired = False
        try:
            for event in happenings:
                self._pass_on(pod_that_ended(event))
        except RuntimeSilent as error:
            expired = has_expired(error)
            _log.debug("events of %s ended: %s", self._settings.runtime_endpoint, why_silent(error))
        heard: set[str] = set()
        with self._lock:
            if self._listening is not None and self._listening.runtime is runtime:
                self._listening = None
                heard, self._heard = self._heard, heard
        runtime.close()
        if expired:  # who is still kept is asked about, and subscribed to again
            for pod_uid in sorted(heard):
                self._recheck(pod_uid)

    def _pass_on(self, ended: str | None) -> None:
        with self._lock:
            concerned = sorted(self._heard) if ended == "" else [ended] if ended in self._heard else []
        for pod_uid in concerned:
            self._recheck(pod_uid)
