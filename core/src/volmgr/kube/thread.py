"""The thread that owns all state of Kubernetes mode: one selector, timers, an inbox, and a small pool for requests."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from volmgr.errors import OperationError
from volmgr.kube.errors import ApiError
from volmgr.loop import Loop
from volmgr.timers import Timer, Timers
from volmgr.workers import Workers

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")

RESERVED = 2
"""Request threads that no single lane takes: where Secrets hang (their KMS is away), all else must be heard of."""

log = logging.getLogger("volmgr.kube")


class KubeThread:
    """Runs actions one after the other; what may block runs as a request, and its result is an action again."""

    def __init__(self, requests: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Allow so many requests at once; `clock` is the timers', in seconds."""
        self._clock = clock
        self._loop = Loop(clock)
        self._timers = Timers()
        self._lock = threading.Lock()
        self._inbox: deque[Callable[[], None]] = deque()
        self._ended = False
        self._lane_limit = max(1, requests - RESERVED)
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[Callable[[], Callable[[], None]]]] = {}
        self._requests: Workers[Callable[[], None]] = Workers(self.post, requests)
        self._thread = threading.Thread(target=self._run, name="volmgr-kube", daemon=True)
        self.steps = 0
        """How often it woke up: does not grow while nothing happens."""

    def start(self) -> None:
        """Begin to run what was posted."""
        self._thread.start()

    def stop(self) -> None:
        """Return when the thread has ended, if it was started; running requests are abandoned. From any other."""
        with self._lock:
            if not self._ended:
                self._loop.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def post(self, action: Callable[[], None]) -> None:
        """Run an action soon; from any thread. Nothing happens any more after the end."""
        with self._lock:  # whoever wakes a loop that is closed would write to a descriptor that is somebody else's
            if not self._ended:
                self._inbox.append(action)
                self._loop.wake()

    def call(self, action: Callable[[], T], seconds: float = 10.0) -> T:
        """Run an action and give what it gives, or raise what it raises; OperationError when it takes too long.

        From any other thread.
        """
        outcome: Future[T] = Future()

        def act() -> None:
            try:
                outcome.set_result(action())
            except Exception as error:  # noqa: BLE001 - it is the caller's
                outcome.set_exception(error)

        self.post(act)
        try:
            return outcome.result(seconds)
        except TimeoutError as error:
            raise OperationError("the thread of kubernetes mode does not answer; try again") from error

    def now(self) -> float:
        """Tell the time of the timers, in seconds."""
        return self._clock()

    def later(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Run an action after so many seconds; on the thread only."""
        return self._timers.at(self._clock() + seconds, lambda: _guarded(action))

    def ask(
        self,
        request: Callable[[], T],
        then: Callable[[T], None],
        failed: Callable[[ApiError], None],
        lane: str = "",
    ) -> None:
        """Run what may block on a thread of the pool, and hand its result, or its error, back to this one.

        The requests of one lane leave a thread or two to the others.
        """

        def chore() -> Callable[[], None]:
            result = _asked(request, then, failed)
            self._leave(lane)
            return result

        with self._lock:
            if lane and self._running.get(lane, 0) >= self._lane_limit:
                self._waiting.setdefault(lane, deque()).append(chore)
                return
            self._running[lane] = self._running.get(lane, 0) + 1
        self._requests.submit(chore)

    def _leave(self, lane: str) -> None:
        """Let the next request of a lane begin, now that one has ended; on a request thread."""
        with self._lock:
            waiting = self._waiting.get(lane)
            following = waiting.popleft() if waiting else None
            if not waiting:
                self._waiting.pop(lane, None)
            if following is None:
                self._running[lane] -= 1
                if not self._running[lane]:
                    del self._running[lane]
        if following is not None:
            self._requests.submit(following)

    def watch(self, file: FileDescriptorLike, ready: Callable[[], None]) -> None:
        """Call `ready` whenever a file is readable; once more, perhaps, after it was forgotten. On the thread only."""
        self._loop.watch(file, lambda: _guarded(ready))

    def forget(self, file: FileDescriptorLike) -> None:
        """Watch a file no longer; on the thread only."""
        self._loop.forget(file)

    def _run(self) -> None:
        try:
            self._loop.run(self._step, self._timers)
        finally:
            with self._lock:
                self._ended = True
            self._run_posted()  # what came before the end is still done, such as closing what it brings
            self._loop.close()

    def _step(self) -> None:
        self.steps += 1
        self._run_posted()
        self._timers.run_due(self._clock())

    def _run_posted(self) -> None:
        for _ in range(len(self._inbox)):  # what comes meanwhile wakes the loop again: files and timers have their turn
            _guarded(self._inbox.popleft())


def _guarded(action: Callable[[], None]) -> None:
    try:
        action()
    except Exception:  # a bug in one action must not take the others with it
        log.exception("an action of kubernetes mode failed unexpectedly")


def _asked(
    request: Callable[[], T], then: Callable[[T], None], failed: Callable[[ApiError], None]
) -> Callable[[], None]:
    try:
        result = request()
    except ApiError as error:
        kept = error
    except Exception as error:  # a bug: who asked must learn of it all the same, or waits for ever
        log.exception("a request of kubernetes mode failed unexpectedly")
        kept = ApiError(f"a request failed unexpectedly: {error}")
    else:
        return lambda: then(result)
    return lambda: failed(kept)
