"""What the status of claims says of the growth of their volumes: the node's part of it.

Source: `behaviours.md` §2.13, which is `resize_util.go` of kubelet 1.37.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from volmgr.kube.api import PatchKind
from volmgr.kube.event_texts import second_time, shortened
from volmgr.kube.pace import longer
from volmgr.kube.resources import CLAIMS
from volmgr.model.growth import IN_PROGRESS, INFEASIBLE, PENDING, Growth, GrowthStep
from volmgr.model.meta import ObjectRef
from volmgr.model.quantity import Quantity

if TYPE_CHECKING:
    from volmgr.kube.api import Api
    from volmgr.kube.errors import ApiError
    from volmgr.kube.thread import KubeThread
    from volmgr.model.kube import KubeSettings

FAILED = "NodeResizeError"
"""The condition of a claim whose volume a node could not let grow."""
_OF_GROWTH = frozenset({"Resizing", "FileSystemResizePending", "ControllerResizeError", FAILED})
"""The conditions that are over when a volume has grown."""
_ITS = "storage"
log = logging.getLogger("volmgr.kube")

Condition = dict[str, object]


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class Status(msgspec.Struct, rename="camel"):
    """A claim's status, as far as it is about its size."""

    capacity: dict[str, str | int] = {}
    allocated_resources: dict[str, str | int] = {}
    allocated_resource_statuses: dict[str, str] = {}
    conditions: list[Condition] = []


class _Claim(msgspec.Struct):
    metadata: _Metadata
    status: Status = msgspec.field(default_factory=Status)


def change(status: Status, growth: Growth, now: str) -> dict[str, object]:
    """Give what is to become of a claim's status; nothing where it says so, or is about a later wish. Pure.

    `now` is the time as the API has it.
    """
    if _bytes(status.allocated_resources) > growth.size:  # the controller is further: its word is of another size
        return _grown(growth.size) if growth.step is GrowthStep.DONE and _bytes(status.capacity) < growth.size else {}
    said = status.allocated_resource_statuses.get(_ITS, "")
    match growth.step:
        case GrowthStep.BEGUN:
            return {"allocatedResourceStatuses": {_ITS: IN_PROGRESS}} if said == PENDING else {}
        case GrowthStep.FAILED:
            return _troubled(status, growth, now)
        case GrowthStep.INFEASIBLE:
            refused = {} if said == INFEASIBLE else {"allocatedResourceStatuses": {_ITS: INFEASIBLE}}
            return {**refused, **_troubled(status, growth, now)}
        case GrowthStep.DONE:
            kept = [each for each in status.conditions if each.get("type") not in _OF_GROWTH]
            return {
                **(_grown(growth.size) if _bytes(status.capacity) < growth.size else {}),
                **({"allocatedResourceStatuses": {_ITS: None}} if said else {}),
                **({"conditions": kept} if kept != status.conditions else {}),
            }


def _bytes(amounts: dict[str, str | int]) -> int:
    return Quantity.parse(amounts.get(_ITS, 0)).to_int()


def _grown(size: int) -> dict[str, object]:
    return {"capacity": {_ITS: str(Quantity.of_bytes(size))}}


def _troubled(status: Status, growth: Growth, now: str) -> dict[str, object]:
    """Say in a condition why it failed, unless one says that."""
    message = shortened(f"failed to expand pvc with {growth.error}")
    none: Condition = {}
    old = next((each for each in status.conditions if each.get("type") == FAILED), none)
    if (old.get("status"), old.get("message")) == ("True", message):
        return {}
    since = old.get("lastTransitionTime") if old.get("status") == "True" else None
    new: Condition = {"type": FAILED, "status": "True", "lastTransitionTime": since or now, "message": message}
    return {"conditions": [*(each for each in status.conditions if each.get("type") != FAILED), new]}


@dataclass(slots=True)
class _Entry:
    wanted: Growth
    pause: float = 0.0


class ClaimGrowths:
    """Says it by PATCHes of `persistentvolumeclaims/status`, of each claim the last word; `wall` is Unix time."""

    def __init__(
        self, thread: KubeThread, api: Api, settings: KubeSettings, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._thread = thread
        self._api = api
        self._settings = settings
        self._wall = wall
        self._entries: dict[ObjectRef, _Entry] = {}

    def say(self, growth: Growth) -> None:
        """Let a claim say how far it has grown; from any thread."""
        self._thread.post(lambda: self._want(growth))

    def _want(self, growth: Growth) -> None:
        entry = self._entries.get(growth.claim)
        if entry is not None:  # it is being said, or waits for its next try
            entry.wanted = growth if growth != entry.wanted else entry.wanted
            return
        self._entries[growth.claim] = entry = _Entry(growth)
        self._begin(entry)

    def _begin(self, entry: _Entry) -> None:
        growth = entry.wanted
        self._thread.ask(
            lambda: self._said(growth),
            lambda _: self._was_said(entry, growth),
            lambda error: self._failed(entry, error),
        )

    def _said(self, growth: Growth) -> None:
        """Read the claim and change it, if it is still that one; on a request thread."""
        namespace, name = growth.claim.namespace, growth.claim.name
        claim = msgspec.json.decode(self._api.get(CLAIMS.path(namespace, name)), type=_Claim)
        if growth.uid and claim.metadata.uid != growth.uid:
            return
        changed = change(claim.status, growth, second_time(self._wall()))
        if changed:
            seen = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
            body = {"metadata": seen, "status": changed}
            self._api.patch(CLAIMS.path(namespace, name, "status"), body, kind=PatchKind.MERGE)

    def _was_said(self, entry: _Entry, growth: Growth) -> None:
        entry.pause = 0.0
        if entry.wanted is growth:
            del self._entries[growth.claim]
        else:
            self._begin(entry)

    def _failed(self, entry: _Entry, error: ApiError) -> None:
        claim = entry.wanted.claim
        if error.is_missing:
            del self._entries[claim]
            return
        if not entry.pause and not error.is_conflict:
            log.warning("the status of claim %s/%s: %s", claim.namespace, claim.name, error)
        entry.pause = longer(entry.pause, self._settings.backoff_initial, self._settings.backoff_max)
        self._thread.later(max(entry.pause, error.retry_after), lambda: self._begin(entry))
