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
from volmgr.model.objects import Node
from volmgr.model.schema import SchemaError, Unknown

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.errors import ApiError
    from volmgr.kube.thread import KubeThread
    from volmgr.model.kube import KubeSettings
    from volmgr.timers import Timer

log = logging.getLogger("volmgr.kube")

MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"
"""The annotation by which a node says that a controller attaches its volumes; kubelet's."""


class OwnNode:
    """Watches the own Node and patches its status; on the thread of kube mode.

    `hear` is told of the Node whenever it changed; None: the server has none of this name.
    """

    def __init__(
        self,
        thread: KubeThread,
        api: Api,
        settings: KubeSettings,
        name: str,
        hear: Callable[[Node | None], None],
        *,
        controller_attach: bool,
    ) -> None:
        self._thread = thread
        self._api = api
        self._settings = settings
        self._name = name
        self._hear = hear
        self._controller_attach = controller_attach
        self._in_use: tuple[str, ...] | None = None
        """What the status is to say; None as long as what is mounted was not looked for."""
        self._told: tuple[str, ...] = ()
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
        self._patch_soon(self._settings.status_debounce)

    def listed(self, seen: Sequence[Seen]) -> None:
        """Take the Node, or that there is none."""
        for each in seen:
            self.changed(each)
        if not seen:
            self._node = None
            self._hear(None)

    def changed(self, seen: Seen) -> None:
        """Take the Node as it is now."""
        self._take(seen.raw)
        self._patch_soon(0.0)

    def gone(self, seen: Seen) -> None:
        """Take note that the Node was deleted."""
        del seen
        self._node = None
        self._hear(None)

    def troubled(self, error: ApiError | None) -> None:
        """Nothing to do: the Pods' source says that the server does not answer."""

    def _take(self, raw: bytes) -> None:
        document = msgspec.json.decode(raw, type=dict[str, object])
        document |= {"kind": NODES.kind, "apiVersion": NODES.api_version}
        try:
            node = cast("Node", read_object(document, unknown=Unknown.ALLOW, status=True))
        except SchemaError as error:
            log.warning("the Node %s cannot be read: %s", self._name, error)
            return
        self._node = node
        self._hear(node)
        self._mark(node)

    def _patch_soon(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._thread.later(seconds, self._patch)

    def _patch(self) -> None:
        self._timer = None
        node, wanted = self._node, self._in_use
        if self._patching or node is None or wanted is None or node.volumes_in_use == wanted:
            return
        self._patching = True
        self._told = wanted
        path = NODES.path(name=self._name, subresource="status")
        body = {"status": {"volumesInUse": list(wanted)}}
        self._thread.ask(lambda: self._api.patch(path, body, kind=PatchKind.MERGE), self._patched, self._not_patched)

    def _patched(self, raw: bytes) -> None:
        self._patching = False
        self._take(raw)
        agreed = self._node is not None and self._node.volumes_in_use == self._told
        self._pause = 0.0 if agreed else self._longer()
        self._patch_soon(self._pause)  # what is in use may have changed meanwhile; another writer must not make us spin

    def _not_patched(self, error: ApiError) -> None:
        self._patching = False
        self._pause = self._longer()
        log.warning("volumesInUse of node %s: %s; tried again in %g s", self._name, error, self._pause)
        self._patch_soon(max(self._pause, error.retry_after))

    def _longer(self) -> float:
        return min(max(self._pause * 2, self._settings.await_initial), self._settings.await_max)

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
