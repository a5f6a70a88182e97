"""The thread of Kubernetes mode, run by the test itself: what happens, and in which order, is as the test says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tests.unit.kube.recording import Clock
from volmgr.kube.errors import ApiError
from volmgr.kube.thread import KubeThread
from volmgr.timers import Timer

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")
Answer = Callable[[], None]

TURNS = 10_000
"""More than anything takes that comes to rest."""


class TurnedThread(KubeThread):
    """A request waits until it is sent, its answer until it is heard, and whatever fails fails the test."""

    def __init__(self, now: float = 1000.0) -> None:
        self.clock = Clock(now)
        super().__init__(1, self.clock)
        self.requests: deque[Callable[[], Answer]] = deque()
        """What was asked, and has not reached the server."""
        self.answers: deque[Answer] = deque()
        """What the server has answered, and nobody has heard."""
        self._files: dict[FileDescriptorLike, Callable[[], None]] = {}

    def later(self, seconds: float, action: Callable[[], None]) -> Timer:
        return self._timers.at(self.clock() + seconds, action)

    def ask(
        self,
        request: Callable[[], T],
        then: Callable[[T], None],
        failed: Callable[[ApiError], None],
        lane: str = "",
    ) -> None:
        del lane

        def answer() -> Answer:
            try:
                result = request()
            except ApiError as error:
                kept = error
                return lambda: failed(kept)
            return lambda: then(result)

        self.requests.append(answer)

    def watch(self, file: FileDescriptorLike, ready: Callable[[], None]) -> None:
        self._files[file] = ready

    def forget(self, file: FileDescriptorLike) -> None:
        del self._files[file]

    def stop(self) -> None:
        self._ended = True
        self._loop.close()

    def turn(self) -> None:
        """Do what was posted and is due, and read what has come."""
        while self._inbox:
            self._inbox.popleft()()
        self._timers.run_due(self.clock())
        for ready in tuple(self._files.values()):
            ready()

    def send(self) -> None:
        """Let the next request reach the server."""
        self.answers.append(self.requests.popleft()())

    def hear(self) -> None:
        """Let the next answer be heard."""
        self.answers.popleft()()

    def settle(self) -> None:
        """Let everything happen that takes no time."""
        self.turn()
        for _ in range(TURNS):
            if self.requests:
                self.send()
            elif self.answers:
                self.hear()
            else:
                return
            self.turn()
        raise AssertionError("it asks again and again, and no time passes")

    def pass_to_next(self) -> float:
        """Let time pass until something is due, and give how long that took."""
        self.settle()
        due = self._timers.next_due()
        assert due is not None, "nothing is going to happen"
        waited = due - self.clock.now
        self.pass_time(waited)
        return waited

    def pass_time(self, seconds: float) -> None:
        """Let time pass from one timer to the next, and everything happen on the way."""
        end = self.clock.now + seconds
        self.settle()
        while (due := self._timers.next_due()) is not None and due <= end:
            self.clock.now = max(due, self.clock.now)
            self.settle()
        self.clock.now = end
