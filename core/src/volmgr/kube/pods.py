"""The Pods of this node: an API server's list and watch, as a source of the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from volmgr.errors import ManifestError
from volmgr.kube.intake import SOURCE, Intake, origin_of
from volmgr.kube.reflector import Reflector
from volmgr.kube.resources import PODS
from volmgr.kube.wire import Seen

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.custody import Custody
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
        self,
        thread: KubeThread,
        api: Api,
        settings: KubeSettings,
        node_name: str,
        intake: Intake,
        registry: Registry,
        custody: Custody,
        *,
        record_retry: float,
    ) -> None:
        """Try again after `record_retry` seconds what could not be recorded (a full disk)."""
        self._thread = thread
        self._node_name = node_name
        self._custody = custody
        self._kept: dict[str, Seen | None] = {}
        """Origins whose Pods stay although the server has none of their UIDs there, and what it has there."""
        self._intake = intake
        self._registry = registry
        self._read = False
        """The list was read whole once."""
        self._retrying = False
        self._record_retry = record_retry
        self.reflector = Reflector(thread, api, PODS, self, settings, field_selector=f"spec.nodeName={node_name}")

    def start(self) -> None:
        """Begin to read; the registry is told when the list was read whole."""
        self.reflector.start()

    def listed(self, seen: Sequence[Seen]) -> None:
        """Take the whole set: what is not in it has left."""
        there = {origin_of(PODS, each.namespace, each.name): each for each in seen if self._is_ours(each)}
        self._custody.heard(self.reflector.version_before)
        pods = self._registry.pods(SOURCE).items()
        missing = {origin: uid for origin, uid in pods if origin not in there or there[origin].uid != uid}
        self._kept = {origin: there.get(origin) for origin in self._custody.keep(missing, self.reflector.version)}
        left = self._intake.standing(PODS) - there.keys() - self._kept.keys()
        done = [self._intake.withdraw_origin(origin) for origin in left]
        done += [self._intake.offer(PODS, each) for origin, each in there.items() if origin not in self._kept]
        self._complain()
        self._read = True
        self._tell()
        self._recorded(all(done))

    def changed(self, seen: Seen) -> None:
        """Take one Pod as it is now."""
        origin = origin_of(PODS, seen.namespace, seen.name)
        if not self._is_ours(seen):
            return
        self._custody.heard(self.reflector.version)
        if origin in self._kept and seen.uid != self._registry.pod_at(SOURCE, origin):
            self._kept[origin] = seen
        else:
            self._kept.pop(origin, None)
            self._recorded(self._intake.offer(PODS, seen))

    def gone(self, seen: Seen) -> None:
        """Take note that the server no longer has a Pod; another that has its name by now stays."""
        origin = origin_of(PODS, seen.namespace, seen.name)
        if origin in self._kept:
            self._kept[origin] = None
        elif self._is_ours(seen) and self._registry.pod_at(SOURCE, origin) == seen.uid:
            self._recorded(self._intake.withdraw_origin(origin))

    def saw_node(self, uid: str) -> None:
        """Learn the UID of the own Node, which says whether this is the server that it was."""
        if self._custody.saw_node(uid) and self._read:
            self._review()

    def accept(self) -> int:
        """Believe the server that Pods which it has not have gone, and say how many; raises OperationError."""
        before = len(self._kept)
        self._custody.accept()
        self._review()
        return before - len(self._kept)

    def troubled(self, error: ApiError | None) -> None:
        """Say that the server does not answer; what was read stays as it is."""
        self._tell(str(error) if error is not None else "")

    def _review(self) -> None:
        """Let those leave, or be what the server has in their place, that are kept no longer."""
        pods = self._registry.pods(SOURCE)
        missing = {origin: pods[origin] for origin in self._kept if origin in pods}
        still = self._custody.keep(missing, self.reflector.version)
        free = {origin: seen for origin, seen in self._kept.items() if origin not in still}
        self._kept = {origin: seen for origin, seen in self._kept.items() if origin in still}
        for origin, seen in free.items():
            done = self._intake.offer(PODS, seen) if seen is not None else self._intake.withdraw_origin(origin)
            self._recorded(done)
        self._complain()

    def _complain(self) -> None:
        """Say of each Pod that is kept why."""
        doubt = self._custody.doubt
        for origin in self._kept if doubt else ():
            problem = f"the API server has this Pod no longer, and may not be the one that had it: {doubt}"
            remedy = "let such Pods go by `volmgr doctor --accept-cluster`, or name the right server by --kubeconfig"
            self._registry.complain(SOURCE, origin, (ManifestError(problem, file=origin, remedy=remedy),))

    def _tell(self, problem: str = "") -> None:
        self._registry.state(SOURCE, ready=self._read, problem=problem, contact=self.reflector.last_contact)

    def _recorded(self, done: bool) -> None:  # noqa: FBT001 - the answer of the registry
        """Try again later what could not be recorded (a full disk)."""
        if done or self._retrying:
            return
        self._retrying = True
        self._thread.later(self._record_retry, self._retry)

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
