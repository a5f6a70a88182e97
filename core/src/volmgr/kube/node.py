"""The own Node: what is attached to it is read, and what is in use is told. What is next, `node_state` says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from volmgr.kube.api import PatchKind
from volmgr.kube.node_state import NodeState
from volmgr.kube.reflector import Reflector
from volmgr.kube.resources import NODES
from volmgr.kube.wire import Seen
from volmgr.manifest import read_object
from volmgr.messages import Message, NodeMissing, NodeStatusRead
from volmgr.model.objects import MANAGED
from volmgr.model.schema import SchemaError, Unknown

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.errors import ApiError
    from volmgr.kube.thread import KubeThread
    from volmgr.model.kube import KubeSettings
    from volmgr.model.objects import Node
    from volmgr.timers import Timer

log = logging.getLogger("volmgr.kube")


class OwnNode:
    """Watches the own Node and patches its status; on the thread of Kubernetes mode. `post` reaches the main one.

    `saw` is told of the UID of each state that is new; `attached` of the volumes that a later status than the first
    lists anew, before that status is posted.
    """

    def __init__(
        self,
        thread: KubeThread,
        api: Api,
        settings: KubeSettings,
        name: str,
        post: Callable[[Message], None],
        saw: Callable[[str], None] = lambda _uid: None,
        attached: Callable[[Sequence[str]], None] = lambda _volumes: None,
        *,
        controller_attach: bool,
    ) -> None:
        self._thread = thread
        self._api = api
        self._settings = settings
        self._name = name
        self._post = post
        self._saw = saw
        self._attached = attached
        self._controller_attach = controller_attach
        self._state = NodeState()
        self._timer: Timer | None = None
        self._marking = False
        self._complaints: dict[str, str] = {}
        self.reflector = Reflector(thread, api, NODES, self, settings, field_selector=f"metadata.name={name}")

    def start(self) -> None:
        """Begin to watch it."""
        self.reflector.start()

    def report(self, in_use: tuple[str, ...]) -> None:
        """Let the status say which volumes are in use."""
        self._state = self._state.wanting(in_use)
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
        after = self._state.patch_after(self._settings)
        if after is not None:
            self._patch_soon(after)

    def gone(self, seen: Seen) -> None:
        """Take note that the Node was deleted."""
        del seen
        self._miss()

    def troubled(self, error: ApiError | None) -> None:
        """Say why the Node is not known; once it is, that stands."""
        if error is not None and self._state.node is None:
            self._post(NodeMissing(str(error)))

    def _miss(self) -> None:
        self._state = self._state.missing()
        self._post(NodeMissing(f"{self._api.address} has no Node {self._name}; register it, volmgrd never does"))

    def _take(self, raw: bytes) -> None:
        document = msgspec.json.decode(raw, type=dict[str, object])
        document |= {"kind": NODES.kind, "apiVersion": NODES.api_version}
        try:
            node = cast("Node", read_object(document, unknown=Unknown.ALLOW, status=True))
        except SchemaError as error:
            log.warning("the Node %s cannot be read: %s", self._name, error)
            return
        before, self._state = self._state, self._state.seeing(node)
        if anew := self._state.anew(before):
            self._attached(anew)
        self._saw(node.metadata.uid)  # which server this is must be decided before its Node lets unmounts begin
        self._tell()
        self._mark()

    def _tell(self) -> None:
        if self._state.node is not None:
            self._post(NodeStatusRead(self._state.node, reports=self._state.shown))

    def _patch_soon(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._thread.later(seconds, self._patch)

    def _patch(self) -> None:
        self._timer = None
        sending, told = self._state.sending(), self._state.telling()
        if sending is not None:
            self._state = sending
            path, body = NODES.path(name=self._name, subresource="status"), sending.patch
            self._thread.ask(
                lambda: self._api.patch(path, body, kind=PatchKind.MERGE), self._patched, self._not_patched
            )
        elif told.shown != self._state.shown:
            self._state = told
            self._tell()

    def _patched(self, raw: bytes) -> None:
        self._state = self._state.answered()
        if self._state.node is None:
            return  # it was deleted meanwhile
        self._complaints.pop("volumesInUse", None)
        self._take(raw)
        self._state = self._state.paced(self._settings)
        self._patch_soon(self._state.pause)  # what is in use may have changed meanwhile

    def _not_patched(self, error: ApiError) -> None:
        if error.is_conflict:
            self._state = self._state.conflicted(self._settings)
            self._thread.later(self._state.pause, self._read)
            return
        self._state = self._state.failed(error, self._settings)
        self._complain("volumesInUse", error)
        self._patch_soon(max(self._state.pause, error.retry_after))

    def _read(self) -> None:
        path = NODES.path(name=self._name)
        self._thread.ask(lambda: self._api.get(path), self._was_read, self._not_patched)

    def _was_read(self, raw: bytes) -> None:
        self._state = self._state.was_read()
        if self._state.node is not None:
            self._take(raw)
            self._patch_soon(0.0)

    def _mark(self) -> None:
        """Say by the annotation who attaches, as kubelet does."""
        node = self._state.node
        wanted = "true" if self._controller_attach else None
        if self._marking or node is None or node.metadata.annotations.get(MANAGED) == wanted:
            return
        self._marking = True
        body = {"metadata": {"annotations": {MANAGED: wanted}}}
        path = NODES.path(name=self._name)
        self._thread.ask(lambda: self._api.patch(path, body, kind=PatchKind.MERGE), self._marked, self._not_marked)

    def _marked(self, raw: bytes) -> None:
        self._marking = False
        if self._state.node is not None:
            self._take(raw)

    def _not_marked(self, error: ApiError) -> None:
        self._complain(f"the annotation {MANAGED}", error)
        self._thread.later(self._settings.backoff_max, self._mark_again)

    def _complain(self, what: str, error: ApiError) -> None:
        """Say why something of the Node cannot be written: once, however often it is tried again."""
        if self._complaints.get(what) != str(error):
            self._complaints[what] = str(error)
            log.warning("%s of node %s: %s; it is tried again", what, self._name, error)

    def _mark_again(self) -> None:
        self._marking = False
        self._mark()
