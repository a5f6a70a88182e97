"""The own Node: what is attached to it is read, and what is in use is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from volmgr.kube.api import PatchKind
from volmgr.kube.reflector import Reflector, Seen
from volmgr.kube.resources import NODES
from volmgr.manifest import read_object
from volmgr.messages import Message, NodeMissing, NodeStatusRead
from volmgr.model.objects import MANAGED, Node
from volmgr.model.schema import SchemaError, Unknown

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.errors import ApiError
    from volmgr.kube.thread import KubeThread
    from volmgr.model.kube import KubeSettings
    from volmgr.timers import Timer

log = logging.getLogger("volmgr.kube")


class OwnNode:
    """Watches the own Node and patches its status; on the thread of Kubernetes mode. `post` reaches the main one."""

    def __init__(
        self,
        thread: KubeThread,
        api: Api,
        settings: KubeSettings,
        name: str,
        post: Callable[[Message], None],
        *,
        controller_attach: bool,
    ) -> None:
        self._thread = thread
        self._api = api
        self._settings = settings
        self._name = name
        self._post = post
        self._controller_attach = controller_attach
        self._in_use: tuple[str, ...] | None = None
        """What the status is to say; None as long as what is mounted was not looked for."""
        self._lists = 0
        """How many lists of volumes in use we were told."""
        self._sent: tuple[int, tuple[str, ...]] = (0, ())
        """Which of them is being patched."""
        self._shown = 0
        """How many of them the server had when it said what we know of the Node."""
        self._node: Node | None = None
        self._timer: Timer | None = None
        self._patching = False
        self._pause = 0.0
        self._marking = False
        self.reflector = Reflector(thread, api, NODES, self, settings, field_selector=f"metadata.name={name}")

    def start(self) -> None:
        """Begin to watch it."""
        self.reflector.start()

    def stop(self) -> None:
        """Watch it no longer."""
        self.reflector.stop()

    def report(self, in_use: tuple[str, ...]) -> None:
        """Let the status say which volumes are in use."""
        self._in_use = in_use
        self._lists += 1
        self._patch_soon(self._settings.status_debounce)

    def listed(self, seen: Sequence[Seen]) -> None:
        """Take the Node, or that there is none."""
        for each in seen:
            self.changed(each)
        if not seen:
            self._miss()

    def changed(self, seen: Seen) -> None:
        """Take the Node as it is now."""
        self._take(seen.raw)
        self._patch_soon(0.0)

    def gone(self, seen: Seen) -> None:
        """Take note that the Node was deleted."""
        del seen
        self._miss()

    def troubled(self, error: ApiError | None) -> None:
        """Say why the Node is not known; once it is, that stands."""
        if error is not None and self._node is None:
            self._post(NodeMissing(str(error)))

    def _miss(self) -> None:
        self._node = None
        self._post(NodeMissing(f"{self._api.address} has no Node {self._name}; register it, volmgrd never does"))

    def _take(self, raw: bytes) -> None:
        document = msgspec.json.decode(raw, type=dict[str, object])
        document |= {"kind": NODES.kind, "apiVersion": NODES.api_version}
        try:
            node = cast("Node", read_object(document, unknown=Unknown.ALLOW, status=True))
        except SchemaError as error:
            log.warning("the Node %s cannot be read: %s", self._name, error)
            return
        if self._node is not None and _is_older(node, self._node):
            return  # a watch may lag behind what a patch was answered with
        self._node = node
        if not self._patching and node.volumes_in_use == self._in_use:  # else an older list is still on its way there
            self._shown = self._lists
        self._post(NodeStatusRead(node, reports=self._shown))
        self._mark(node)

    def _patch_soon(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._thread.later(seconds, self._patch)

    def _patch(self) -> None:
        self._timer = None
        node, wanted = self._node, self._in_use
        if self._patching or node is None or wanted is None:
            return
        if node.volumes_in_use == wanted:
            if self._shown != self._lists:
                self._shown = self._lists
                self._post(NodeStatusRead(node, reports=self._shown))
            return
        self._patching = True
        self._sent = self._lists, wanted
        path = NODES.path(name=self._name, subresource="status")
        version = node.metadata.resource_version  # a patch that is late must not undo what came after it
        body = {"metadata": {"resourceVersion": version}, "status": {"volumesInUse": list(wanted)}}
        self._thread.ask(lambda: self._api.patch(path, body, kind=PatchKind.MERGE), self._patched, self._not_patched)

    def _patched(self, raw: bytes) -> None:
        self._patching = False
        self._shown, sent = self._sent
        self._take(raw)
        agreed = self._node is not None and self._node.volumes_in_use == sent
        self._pause = 0.0 if agreed else self._longer(self._settings.await_initial)
        self._patch_soon(self._pause)  # what is in use may have changed meanwhile; another writer must not make us spin

    def _not_patched(self, error: ApiError) -> None:
        self._patching = False
        if error.is_conflict:  # somebody wrote meanwhile: the watch shows what, if it has not already
            self._pause = self._longer(self._settings.status_debounce)
            self._patch_soon(self._pause)
            return
        self._pause = self._longer(self._settings.await_initial)
        log.warning("volumesInUse of node %s: %s; tried again in %g s", self._name, error, self._pause)
        self._patch_soon(max(self._pause, error.retry_after))

    def _longer(self, first: float) -> float:
        return min(max(self._pause * 2, first), self._settings.await_max)

    def _mark(self, node: Node) -> None:
        """Say by the annotation who attaches, as kubelet does."""
        said = node.metadata.annotations.get(MANAGED)
        wanted = "true" if self._controller_attach else None
        if self._marking or said == wanted:
            return
        self._marking = True
        body = {"metadata": {"annotations": {MANAGED: wanted}}}
        path = NODES.path(name=self._name)
        self._thread.ask(lambda: self._api.patch(path, body, kind=PatchKind.MERGE), self._marked, self._not_marked)

    def _marked(self, raw: bytes) -> None:
        self._marking = False
        self._take(raw)

    def _not_marked(self, error: ApiError) -> None:
        log.warning("the annotation %s of node %s: %s", MANAGED, self._name, error)
        self._thread.later(self._settings.backoff_max, self._mark_again)

    def _mark_again(self) -> None:
        self._marking = False
        if self._node is not None:
            self._mark(self._node)


def _is_older(node: Node, known: Node) -> bool:
    """Say whether a state of the Node is older than what is known; resourceVersions of one object can be compared."""
    version, before = node.metadata.resource_version, known.metadata.resource_version
    same = node.metadata.uid == known.metadata.uid and version.isdigit() and before.isdigit()
    return same and int(version) < int(before)
