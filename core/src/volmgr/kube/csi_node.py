"""The CSINode of this node: made with the first contact, with an entry for each CSI driver that there is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import msgspec

from volmgr.kube.api import PatchKind
from volmgr.kube.csi_entries import (
    MIGRATED_PLUGINS,
    Document,
    collisions,
    csi_node_steps,
    is_owned,
    new_csi_node,
    node_patch,
)
from volmgr.kube.errors import ApiError
from volmgr.kube.resources import CSI_NODES, NODES

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.thread import KubeThread
    from volmgr.model.driver_info import DriverInfo
    from volmgr.model.kube import KubeSettings
    from volmgr.timers import Timer

log = logging.getLogger("volmgr.kube")


@dataclass(frozen=True, slots=True)
class _Pauses:
    """Seconds until the next try: the first pause, and by what each is longer than the last."""

    first: float
    factor: float

    def after(self, failures: int, longest: float) -> float:
        return min(self.first * self.factor**failures, longest)


_INITIAL = _Pauses(0.03, 8.0)
"""kubelet's initBackoff, 30 ms and 8 times the last. It ends itself after 6 tries; here they go on."""
_UPDATE = _Pauses(0.01, 5.0)
"""kubelet's updateBackoff of nodeinfomanager, 10 ms and 5 times the last."""

_CONFLICT = _Pauses(0.01, 1.25)
"""After another writer came first: who writes often would come first again and again if the pauses grew fast."""

_REFUSALS = frozenset({400, 403, 422})
"""HTTP statuses of a server that takes what is said of one driver from nobody: a label that is none, or is not ours."""

_WARNED_AFTER = 3
"""Tries that may fail before it is logged: two conflicts with another writer are nobody's concern."""


@dataclass(frozen=True, slots=True)
class _Published:
    """What was published: of which Node, and what is wrong with which driver."""

    node_uid: str
    problems: Mapping[str, str]


class CsiNodes:
    """Keeps the CSINode, and what its Node says of drivers, as they are declared; all else that is there stays.

    What is public may be called, and read, on any thread.
    """

    def __init__(
        self,
        thread: KubeThread,
        api: Api,
        settings: KubeSettings,
        node_name: str,
        changed: Callable[[], None] = lambda: None,
        *,
        migrated: Sequence[str] = MIGRATED_PLUGINS,
    ) -> None:
        """Call `changed` on the thread whenever `missing` may be another; `migrated`: in-tree types served as csi."""
        self.is_ready = False
        """It was published once: the node may take volumes of CSI drivers."""
        self.problem = f"CSINode {node_name} is not yet initialized"
        """Why what is declared is not published; empty when it is."""
        self._changed = changed
        self._thread = thread
        self._api = api
        self._settings = settings
        self._node_name = node_name
        self._migrated = migrated
        self._drivers: dict[str, DriverInfo] = {}
        self._gone: dict[str, None] = {}
        self._problems: Mapping[str, str] = {}
        self._node_uid = ""
        self._started = False
        self._busy = False
        self._again = False
        self._failures = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to publish."""
        self._thread.post(self._start)

    def declare(self, info: DriverInfo) -> None:
        """Let there be an entry for a driver, new or changed."""
        self._thread.post(lambda: self._declare(info))

    def withdraw(self, name: str) -> None:
        """Let there be no entry for a driver any more."""
        self._thread.post(lambda: self._withdraw(name))

    def saw_node(self, uid: str) -> None:
        """Take note of the Node that there is: one that was made anew has no CSINode yet."""
        self._thread.post(lambda: self._saw_node(uid))

    @property
    def missing(self) -> str:
        """Say why the node may take no volumes of CSI drivers yet; empty when it may."""
        return "" if self.is_ready else self.problem

    @property
    def driver_problems(self) -> Mapping[str, str]:
        """Say by name which drivers have no entry, and why; when nothing is published at all, `problem` says it."""
        return self._problems

    def _start(self) -> None:
        self._started = True
        self._publish()

    def _declare(self, info: DriverInfo) -> None:
        self._gone.pop(info.name, None)
        old = self._drivers.get(info.name)
        self._drivers[info.name] = info
        if old is None or old.published != info.published:
            self._publish()

    def _withdraw(self, name: str) -> None:
        self._drivers.pop(name, None)
        self._gone[name] = None
        self._publish()

    def _saw_node(self, uid: str) -> None:
        if uid != self._node_uid:
            self._publish()

    def _publish(self) -> None:
        """Publish what is declared; once more afterwards if that changes meanwhile."""
        if not self._started:
            return
        if self._busy:
            self._again = True
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._busy, self._again = True, False
        drivers, gone = tuple(self._drivers.values()), tuple(self._gone)
        self._thread.ask(
            lambda: _publish(self._api, self._node_name, drivers, gone, self._migrated),
            lambda published: self._is_published(published, gone),
            self._failed,
        )

    def _is_published(self, published: _Published, gone: tuple[str, ...]) -> None:
        self._busy = False
        self._failures = 0
        self._node_uid = published.node_uid
        for name, problem in published.problems.items():
            if self._problems.get(name) != problem:
                log.warning("%s", problem)
        self._problems = published.problems
        self.problem = "; ".join(published.problems.values())
        self.is_ready = True
        self._changed()
        if not self._again:
            for name in gone:
                self._gone.pop(name, None)
            if published.problems:
                self._later(self._settings.object_lifetime)
        else:
            self._publish()

    def _failed(self, error: ApiError) -> None:
        self._busy = False
        pauses = _CONFLICT if error.is_conflict else _UPDATE if self.is_ready else _INITIAL
        pause = pauses.after(self._failures, self._settings.backoff_max)
        self._failures += 1
        words = "is not up to date" if self.is_ready else "is not yet initialized"
        self.problem = f"CSINode {self._node_name} {words}: {error}"
        self._changed()
        if self._failures == _WARNED_AFTER:
            log.warning("%s", self.problem)
        self._later(max(pause, error.retry_after))

    def _later(self, seconds: float) -> None:
        def due() -> None:
            self._timer = None
            self._publish()

        self._timer = self._thread.later(seconds, due)


def _publish(
    api: Api, node_name: str, drivers: tuple[DriverInfo, ...], gone: tuple[str, ...], migrated: Sequence[str]
) -> _Published:
    """Bring Node and CSINode in line; on a request thread, raises ApiError."""
    node = _node(api, node_name)
    uid = str(cast("Document", node.get("metadata", {})).get("uid", ""))
    problems = collisions(node, drivers)
    good = tuple(info for info in drivers if info.name not in problems)
    if refused := _tell_node(api, node_name, node, good, gone):
        problems = {**problems, **refused}
        good = tuple(info for info in drivers if info.name not in problems)
    document = _own(api, new_csi_node(node_name, uid, migrated), uid)
    for step in csi_node_steps(document, good, gone, migrated):
        metadata = {**cast("Document", step["metadata"]), "resourceVersion": _version(document)}
        document = _decoded(api.update(CSI_NODES.path(name=node_name), {**step, "metadata": metadata}))
    return _Published(uid, problems)


def _tell_node(
    api: Api, node_name: str, node: Document, drivers: tuple[DriverInfo, ...], gone: tuple[str, ...]
) -> Mapping[str, str]:
    """Let the Node have ids and topology; give what is wrong with drivers of which it does not: others have theirs."""
    try:
        _patch_node(api, node_name, node_patch(node, drivers, gone))
    except ApiError as error:
        if error.status not in _REFUSALS or not drivers:
            raise
        if len(drivers) == 1:
            text = f"the Node does not take what csi driver {drivers[0].name} says of it: {error}"
            return {drivers[0].name: text}
    else:
        return {}
    found: dict[str, str] = {}
    for info in drivers:
        found |= _tell_node(api, node_name, _node(api, node_name), (info,), gone)
    return found


def _patch_node(api: Api, node_name: str, patch: Document) -> None:
    if patch:
        api.patch(NODES.path(name=node_name), patch, kind=PatchKind.MERGE)


def _node(api: Api, node_name: str) -> Document:
    try:
        return _read(api, NODES.path(name=node_name))
    except ApiError as error:
        if not error.is_missing:
            raise
        raise ApiError(f"{error}; create the Node, which volmgrd never does", status=error.status) from error


def _own(api: Api, new: Document, uid: str) -> Document:
    """Give the CSINode of this Node, else make `new`; what an earlier Node of its name left is replaced."""
    node_name = str(cast("Document", new["metadata"])["name"])
    path = CSI_NODES.path(name=node_name)
    try:
        found = _read(api, path)
        if is_owned(found, node_name, uid):
            return found
        api.delete(path)
    except ApiError as error:
        if not error.is_missing:
            raise
    return _decoded(api.create(CSI_NODES.path(), new))


def _read(api: Api, path: str) -> Document:
    return _decoded(api.get(path))


def _decoded(raw: bytes) -> Document:
    return msgspec.json.decode(raw, type=dict[str, object])


def _version(document: Document) -> object:
    return cast("Document", document["metadata"]).get("resourceVersion", "")
