"""The own Node: what is attached to it is read, and what is in use is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from volmgr.kube.api import PatchKind
from volmgr.kube.pace import longer
from volmgr.kube.reflector import Reflector
from volmgr.kube.resources import NODES
from volmgr.kube.wire import Seen
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
        self._in_use: tuple[str, ...] | None = None
        """What the status is to say; None as long as what is mounted was not looked for."""
        self._lists = 0
        """How many lists of volumes in use we were told."""
        self._sent: tuple[int, tuple[str, ...]] = (0, ())
        """Which of them was patched last, or is being."""
        self._doubted = ""
        """The resourceVersion that a patch without an answer goes by: while it is the Node's, that list may come."""
        self._shown = 0
        """How many of them the server had when it said what we know of the Node."""
        self._node: Node | None = None
        self._timer: Timer | None = None
        self._patching = False
        self._pause = 0.0
        self._marking = False
        self._complaints: dict[str, str] = {}
        self.reflector = Reflector(thread, api, NODES, self, settings, field_selector=f"metadata.name={name}")

    def start(self) -> None:
        """Begin to watch it."""
        self.reflector.start()

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
        if self._node is not None and self._in_use not in {None, self._node.volumes_in_use}:
            overwritten = self._shown == self._lists  # whoever does so again and again must not make us spin
            self._patch_soon(self._settings.await_initial if overwritten else 0.0)

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
            node = self._node  # a watch may lag behind what a patch was answered with, and an answer behind a watch
        if self._node is not None and (anew := set(node.volumes_attached).difference(self._node.volumes_attached)):
            self._attached(sorted(volume.name for volume in anew))
        self._node = node
        self._saw(node.metadata.uid)  # which server this is must be decided before its Node lets unmounts begin
        self._tell(node)
        self._mark(node)

    def _tell(self, node: Node) -> None:
        if self._is_there(node) and not self._patching:  # else an older list is still on its way there
            self._shown = self._lists
        self._post(NodeStatusRead(node, reports=self._shown))

    def _is_there(self, node: Node) -> bool:
        """Say whether a Node shows what is to be shown, and an older list cannot come after it."""
        return node.volumes_in_use == self._in_use and node.metadata.resource_version != self._doubted

    def _patch_soon(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._thread.later(seconds, self._patch)

    def _patch(self) -> None:
        self._timer = None
        node, wanted = self._node, self._in_use
        if self._patching or node is None or wanted is None:
            return
        if self._is_there(node):
            if self._shown != self._lists:
                self._tell(node)
            return
        if node.volumes_in_use != wanted:  # else the last list may still come: to tell it again ends that doubt
            self._sent = self._lists, wanted
        self._patching = True
        path = NODES.path(name=self._name, subresource="status")
        version = node.metadata.resource_version  # a patch that is late must not undo what came after it
        body = {"metadata": {"resourceVersion": version}, "status": {"volumesInUse": list(self._sent[1])}}
        self._thread.ask(
            lambda: self._api.patch(path, body, kind=PatchKind.MERGE),
            self._patched,
            lambda error: self._not_patched(error, version),
        )

    def _patched(self, raw: bytes) -> None:
        self._patching = False
        if self._node is None:
            return  # it was deleted meanwhile
        self._doubted = ""
        self._complaints.pop("volumesInUse", None)
        self._shown, sent = self._sent
        self._take(raw)
        agreed = self._node.volumes_in_use == sent
        self._pause = 0.0 if agreed else self._longer(self._settings.await_initial)
        self._patch_soon(self._pause)  # what is in use may have changed meanwhile; another writer must not make us spin

    def _not_patched(self, error: ApiError, version: str) -> None:
        self._patching = False
        if error.is_conflict:  # somebody wrote meanwhile
            self._pause = self._longer(self._settings.status_debounce)
            self._patching = True  # until it is read what: behind a proxy no watch says so
            self._thread.later(self._pause, self._read)
            return
        self._doubted = self._doubted if error.is_denied else version
        self._pause = self._longer(self._settings.await_initial)
        self._complain("volumesInUse", error)
        self._patch_soon(max(self._pause, error.retry_after))

    def _read(self) -> None:
        path = NODES.path(name=self._name)
        self._thread.ask(lambda: self._api.get(path), self._was_read, lambda error: self._not_patched(error, ""))

    def _was_read(self, raw: bytes) -> None:
        self._patching = False
        if self._node is not None:
            self._take(raw)
            self._patch_soon(0.0)

    def _longer(self, first: float) -> float:
        return longer(self._pause, first, self._settings.await_max)

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
        if self._node is not None:
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
        if self._node is not None:
            self._mark(self._node)


def _is_older(node: Node, known: Node) -> bool:
    """Say whether a state of the Node is older than what is known; resourceVersions of one object can be compared."""
    version, before = node.metadata.resource_version, known.metadata.resource_version
    same = node.metadata.uid == known.metadata.uid and version.isdigit() and before.isdigit()
    return same and int(version) < int(before)
