"""Kubeconfigs, and listeners that keep what they hear, for tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from tests.unit.kube.scripted_server import WAIT, Certificates
from volmgr.kube.errors import ApiError
from volmgr.kube.thread import KubeThread
from volmgr.kube.wire import Event, Seen
from volmgr.model.kube import KubeSettings

QUICK = KubeSettings(backoff_initial=0.002, backoff_max=0.01)
"""For tests in which something fails on purpose."""


@dataclass(frozen=True)
class Kubeconfigs:
    """Writes kubeconfigs into a directory."""

    directory: Path
    certificates: Certificates

    def write(self, address: str, user: object = None, cluster: Mapping[str, object] | None = None) -> Path:
        """Write one for a server; `user` and `cluster` add to what is needed."""
        spec: dict[str, object] = {"server": address, "certificate-authority": str(self.certificates.authority)}
        spec |= cluster or {}
        path = self.directory / "kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": {key: value for key, value in spec.items() if value is not None}}],
            "users": [{"name": "u", "user": user or {"token": "open-sesame"}}],
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(json.dumps(document))  # which is YAML, too
        return path


class Recorder:
    """Hears of a collection, and keeps it as words in the order in which it came."""

    def __init__(self) -> None:
        self.heard: Queue[str] = Queue()
        self.errors: list[ApiError] = []

    def listed(self, seen: Sequence[Seen]) -> None:
        self.heard.put(" ".join(["listed", *(f"{each.name}@{each.version}" for each in seen)]))

    def changed(self, seen: Seen) -> None:
        self.heard.put(f"changed {seen.name}@{seen.version}")

    def gone(self, seen: Seen) -> None:
        self.heard.put(f"gone {seen.name}@{seen.version}")

    def troubled(self, error: ApiError | None) -> None:
        if error is not None:
            self.errors.append(error)
        self.heard.put("current" if error is None else f"troubled {error.status}")

    def next(self) -> str:
        """Wait for the next word."""
        return self.heard.get(timeout=WAIT)


class WatchRecorder:
    """Hears of one watch, in the same way."""

    def __init__(self) -> None:
        self.heard_words: Queue[str] = Queue()
        self.error: ApiError | None = None

    def opened(self) -> None:
        self.heard_words.put("opened")

    def heard(self, event: Event) -> None:
        self.heard_words.put(f"{event.kind.value} {event.seen.name}@{event.seen.version}")

    def ended(self, error: ApiError | None) -> None:
        self.error = error
        self.heard_words.put("ended" if error is None else f"ended {error.status}")

    def next(self) -> str:
        """Wait for the next word."""
        return self.heard_words.get(timeout=WAIT)


def done(thread: KubeThread, action: Callable[[], object] = lambda: None) -> None:
    """Do something on the thread, and wait until it is done."""
    over = threading.Event()

    def act() -> None:
        action()
        over.set()

    thread.post(act)
    assert over.wait(WAIT)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def pass_time(thread: KubeThread, clock: Clock, seconds: float) -> None:
    """Move the clock of a thread, and wait until what is due then is done."""
    done(thread, lambda: setattr(clock, "now", clock.now + seconds))
    done(thread)
