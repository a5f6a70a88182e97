"""Kubernetes mode, wired: what is read from an API server, what a node tells it, and the one thread of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from volmgr.kube.following import Surroundings
from volmgr.kube.intake import SOURCE, Intake
from volmgr.kube.node import OwnNode
from volmgr.kube.pods import PodSource
from volmgr.kube.references import FETCHED, References
from volmgr.kube.thread import KubeThread
from volmgr.messages import Message, ReadingChanged
from volmgr.report.world import ServerReading

if TYPE_CHECKING:
    from volmgr.config import Config
    from volmgr.kube.api import Api
    from volmgr.manifest import SourceTypes
    from volmgr.model.meta import ObjectRef
    from volmgr.sources.registry import Registry

__all__ = ["FETCHED", "SOURCE", "KubeMode"]


class KubeMode:
    """Begins and ends with the daemon; `post` hands messages to the main thread."""

    name = SOURCE

    def __init__(
        self,
        api: Api,
        config: Config,
        registry: Registry,
        types: SourceTypes,
        post: Callable[[Message], None],
    ) -> None:
        settings = config.kubernetes
        self._address = api.address
        self._post = post
        self._thread = KubeThread(settings.requests)
        intake = Intake(registry, types)
        self._pods = PodSource(self._thread, api, settings, config.node_name, intake, registry)
        self._references = References(Surroundings(self._thread, api, settings, intake, registry), self._tell_reading)
        attaches = config.controller_attaches
        self._node = OwnNode(self._thread, api, settings, config.node_name, post, controller_attach=attaches)

    def start(self) -> None:
        """Begin to read."""
        self._thread.post(self._begin)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what was accepted stays."""
        self._thread.stop()

    def referred(self, added: frozenset[ObjectRef], removed: frozenset[ObjectRef]) -> None:
        """Follow other objects; from any thread."""
        self._thread.post(lambda: self._references.refer(added, removed))

    def in_use(self, volumes: tuple[str, ...]) -> None:
        """Let the node's status say which volumes are in use; from any thread."""
        self._thread.post(lambda: self._node.report(volumes))

    def _tell_reading(self, watches: int, asked: int) -> None:
        self._post(ReadingChanged(ServerReading(server=self._address, watches=watches, asked=asked)))

    def _begin(self) -> None:
        self._tell_reading(0, 0)
        self._node.start()
        self._pods.start()
