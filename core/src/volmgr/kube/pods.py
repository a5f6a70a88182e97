"""The Pods of this node: an API server's list and watch, as a source of the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from volmgr.kube.intake import SOURCE, Intake, origin_of
from volmgr.kube.reflector import Reflector, Seen
from volmgr.kube.resources import PODS

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.errors import ApiError
    from volmgr.kube.thread import KubeThread
    from volmgr.model.kube import KubeSettings
    from volmgr.sources.registry import Registry

MIRROR = "kubernetes.io/config.mirror"
"""The annotation of a Pod that only shows a static one; kubelet's ConfigMirrorAnnotationKey."""


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    node: str = msgspec.field(name="nodeName", default="")


class _Bound(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class PodSource:
    """Watches the Pods that are bound to one node."""

    def __init__(
        self, thread: KubeThread, api: Api, settings: KubeSettings, node_name: str, intake: Intake, registry: Registry
    ) -> None:
        self._thread = thread
        self._node_name = node_name
        self._intake = intake
        self._registry = registry
        self._read = False
        """The list was read whole once."""
        self._retrying = False
        self.record_retry = 5.0
        self.reflector = Reflector(thread, api, PODS, self, settings, field_selector=f"spec.nodeName={node_name}")

    def start(self) -> None:
        """Begin to read; the registry is told when the list was read whole."""
        self.reflector.start()

    def stop(self) -> None:
        """End the watch; what was accepted stays."""
        self.reflector.stop()

    def listed(self, seen: Sequence[Seen]) -> None:
        """Take the whole set: what is not in it has left."""
        there = {origin_of(PODS, each.namespace, each.name): each for each in seen if self._is_ours(each)}
        done = [self._intake.withdraw_origin(origin) for origin in self._intake.standing(PODS) - there.keys()]
        done += [self._intake.offer(PODS, each) for each in there.values()]
        self._read = True
        self._tell()
        self._recorded(all(done))

    def changed(self, seen: Seen) -> None:
        """Take one Pod as it is now."""
        if self._is_ours(seen):
            self._recorded(self._intake.offer(PODS, seen))

    def gone(self, seen: Seen) -> None:
        """Take note that the server no longer has a Pod."""
        if self._is_ours(seen):
            self._recorded(self._intake.withdraw(PODS, seen.namespace, seen.name))

    def troubled(self, error: ApiError | None) -> None:
        """Say that the server does not answer; what was read stays as it is."""
        self._tell(str(error) if error is not None else "")

    def _tell(self, problem: str = "") -> None:
        self._registry.state(SOURCE, ready=self._read, problem=problem, contact=self.reflector.last_contact)

    def _recorded(self, done: bool) -> None:  # noqa: FBT001 - the answer of the registry
        """Try again later what could not be recorded (a full disk)."""
        if done or self._retrying:
            return
        self._retrying = True
        self._thread.later(self.record_retry, self._retry)

    def _retry(self) -> None:
        self._retrying = False
        self._recorded(self._registry.retry())

    def _is_ours(self, seen: Seen) -> bool:
        """Say whether a Pod is bound to this node (what lies before a server may lose the selector), and no mirror."""
        try:
            bound = msgspec.json.decode(seen.raw, type=_Bound)
        except msgspec.ValidationError:
            return True  # whoever reads all of it says what is wrong
        return bound.spec.node == self._node_name and MIRROR not in (bound.metadata.annotations or {})
