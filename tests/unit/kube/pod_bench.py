"""The source of Pods before a server in memory that may lie, and a real registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.unit.kube.memory_api import Document, MemoryApi
from tests.unit.kube.turned_thread import TurnedThread
from volmgr.kube.custody import Custody
from volmgr.kube.intake import SOURCE, Intake
from volmgr.kube.pods import PodSource
from volmgr.kube.resources import PODS
from volmgr.kube.wire import Seen, seen_of
from volmgr.manifest import NoTypes
from volmgr.model.kube import KubeSettings
from volmgr.sources.changes import Change, SourceState
from volmgr.sources.registry import Registry
from volmgr.testing import FakeHost
from volmgr.testing.node import pod

HERE = "n1"
RETRY = 7.0
"""Seconds until what could not be recorded is tried again."""
RARELY = 7200.0
"""Seconds from a list to the next."""


class Answers(MemoryApi):
    """A server, or what sits before it, that answers with what it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.instead: bytes | None = None
        self.ignores_selectors = False

    def get(self, path: str, query: Mapping[str, str] = {}) -> bytes:
        if self.instead is not None:
            return self.instead
        return super().get(path, {} if self.ignores_selectors else query)


class PodBench:
    """The Pods of one node, before a real registry; every two hours all are listed again."""

    def __init__(self) -> None:
        self.api = Answers()
        self.told: list[Change] = []
        self.host = FakeHost()
        self.begin()

    def begin(self) -> None:
        """Start anew, with what is on disk; `source.start()` begins to read."""
        self.thread = TurnedThread()
        self.registry = Registry(self.host.files, self.host.paths, self.told.append, binds_claims=False)
        self.registry.start()
        settings, intake = KubeSettings(object_lifetime=RARELY / 2), Intake(self.registry, NoTypes())
        self.custody = Custody(self.host.files, self.host.paths, lambda: self.api.place, self.thread.now)
        self.source = PodSource(
            self.thread, self.api, settings, HERE, intake, self.registry, self.custody, record_retry=RETRY
        )

    def restart(self) -> None:
        """End, as by a kill, and start anew."""
        self.thread.stop()
        self.begin()

    def run_pod(self, name: str, node: str = HERE, **metadata: Any) -> Document:  # noqa: ANN401 - of the Pod
        """Let the server have a Pod."""
        document = pod(name, {"name": "v", "emptyDir": {}}, uid=f"uid-{name}", nodeName=node)
        document["metadata"] |= {"namespace": "default", **metadata}
        return self.api.put(PODS.path("default", name), document)

    def seen(self, name: str, uid: str) -> Seen:
        """Give a Pod as an event shows it."""
        document = pod(name, {"name": "v", "emptyDir": {}}, uid=uid, nodeName=HERE)
        document["metadata"] |= {"namespace": "default", "resourceVersion": "7"}
        return seen_of(json.dumps(document).encode())

    def read(self) -> None:
        """Let everything be listed once more."""
        self.thread.pass_time(RARELY)

    def take(self) -> list[Change]:
        """Give what was told since."""
        told = self.told[:]
        self.told.clear()
        return told

    @property
    def stands(self) -> set[str]:
        """Where a Pod stands."""
        return set(self.registry.origins(SOURCE))

    @property
    def problem(self) -> str:
        """What the source said last of itself."""
        return [each for each in self.told if isinstance(each, SourceState) and each.source == SOURCE][-1].problem
