"""What the API server asks of the daemon; the reconciler implements it, tests fake it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from volmgr.model.meta import ObjectRef
    from volmgr.report.drain import Drained
    from volmgr.report.events import EventLog
    from volmgr.report.mounts import MountsReport
    from volmgr.report.orphans import OrphansReport
    from volmgr.report.world import Hold, World

T = TypeVar("T")


class Action(StrEnum):
    """What became of an object that was sent."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyResult:
    """One object that was sent, and what became of it; `uid` is empty for what has none."""

    kind: str
    namespace: str
    name: str
    uid: str
    action: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """The Pod that leaves, and what there is to say of that."""

    uid: str
    note: str = ""


class Engine(Protocol):
    """The daemon as its API server sees it. Every method may be called on any thread, and may block it."""

    def ask(self, query: Callable[[World], T], timeout: float = 10.0) -> T:
        """Run a query on the reconciler's thread between two events; raises TimeoutError, or what it raised."""
        ...

    def wait(self, pod: str, condition: str, timeout: float) -> str | None:
        """Block until a Pod is `mounted` or `unmounted`; None when it is, else why not at the timeout (seconds)."""
        ...

    def apply(self, data: bytes) -> tuple[ApplyResult, ...]:
        """Accept Pods, durably; raises ManifestError or SpecError for bad input, such as an object that is no Pod."""
        ...

    def delete(self, pod: str) -> Deleted:
        """Let a Pod leave; raises KeyError (unknown) or ConflictError (it comes from a source that is read)."""
        ...

    def hold(self, pod: str, pid: int, who: str) -> Hold:
        """Keep a Pod's volumes while a process lives; raises KeyError (unknown Pod) or OperationError."""
        ...

    def release(self, hold_id: str) -> bool:
        """Give a hold back; False when there is none of that name."""
        ...

    def mounts(self, pod: str, container: str, timeout: float) -> MountsReport:
        """Bind the subPaths of a Pod's containers (or of one), and give what they are to be given.

        Raises KeyError (unknown Pod), SpecError (it leaves, or has no such container), or OperationError when it
        could not be begun or ended within `timeout` seconds.
        """
        ...

    def release_volume(self, name: str) -> str:
        """Let another claim have a PersistentVolume whose claim is gone; gives what was done, in words.

        Raises KeyError (unknown) or OperationError (a Pod uses it, its claim is there, or it cannot be recorded).
        """
        ...

    def delete_volume(self, claim: ObjectRef | None, volume: str, timeout: float) -> str:
        """Delete, with what is on it, the volume that a claim had, or the one of a name; gives what was done, in words.

        Raises KeyError (unknown), OperationError (it must stay), or UncertainError: it goes on, but was not done within
        `timeout` seconds, or failed so far.
        """
        ...

    def orphans(self) -> OrphansReport:
        """Report what was kept without a Pod or a claim, and volumes that storage has and nobody knows."""
        ...

    def drain(self, timeout: float) -> Drained:
        """Take everything down and give what is left at the timeout (seconds), and why: nothing when all is gone."""
        ...

    def adopt(self) -> str:
        """Take over a root directory that somebody else filled; gives what was done, in words."""
        ...

    def reload(self) -> str:
        """Check the installed packages in a child, then execute the daemon anew; PluginError when refused."""
        ...

    def accept_manifests(self) -> str:
        """Confirm that the manifests directory really moved to another device or file system."""
        ...

    def accept_cluster(self) -> str:
        """Confirm that the API server is the right one, and that Pods which it has not have gone."""
        ...

    @property
    def events(self) -> EventLog:
        """What happened."""
        ...
