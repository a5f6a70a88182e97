"""What the daemon can be asked to do: the API server's Engine, over the reconciler and the sources."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from volmgr import manifest, root
from volmgr.desk import NODE
from volmgr.errors import ManifestError, OperationError, SpecError, UncertainError, VolmgrError
from volmgr.host.capacity import capacity
from volmgr.messages import Ask, HoldGone, HoldTaken
from volmgr.model.volume import PersistentVolume
from volmgr.preparations import Preparation
from volmgr.reconciler import Reconciler
from volmgr.report.claims import check_unused
from volmgr.report.contact import is_unserved
from volmgr.report.deletion import check_deletable, deletable
from volmgr.report.drain import Drained, drained
from volmgr.report.orphans import OrphansReport, orphans_report, storage_of, with_strangers
from volmgr.report.waiting import is_mounted, is_unmounted
from volmgr.report.why import summary_for_timeout
from volmgr.server.engine import Action, ApplyResult, Deleted
from volmgr.sources.offers import pod_of
from volmgr.sources.stock import volume_ref
from volmgr.waiters import Waiter

if TYPE_CHECKING:
    from volmgr.holds import Holds
    from volmgr.host.interface import Host
    from volmgr.model.meta import ObjectRef
    from volmgr.report.events import EventLog
    from volmgr.report.mounts import MountsReport
    from volmgr.report.world import Hold, PodEntry, World
    from volmgr.sources.directory import DirectorySource
    from volmgr.sources.registry import Registry

T = TypeVar("T")

LISTING = 5.0
"""Seconds in which storage has to say which volumes it has, for who looks for orphans."""
_CONDITIONS = {"mounted": is_mounted, "unmounted": is_unmounted}
_ACTIONS = {"created": Action.CREATED, "pending": Action.CREATED, "changed": Action.UPDATED}


@dataclass(slots=True)
class _Reply(Generic[T]):
    """The answer to a query, on its way from the reconciler's thread."""

    done: threading.Event = field(default_factory=threading.Event)
    value: T | None = None
    error: BaseException | None = None


class Service:
    """Implements `volmgr.server.engine.Engine`; every method runs on a thread of the API server."""

    def __init__(
        self,
        *,
        reconciler: Reconciler,
        registry: Registry,
        holds: Holds,
        host: Host,
        directory: DirectorySource | None,
        reload: Callable[[], str],
        accept_cluster: Callable[[], str] | None,
    ) -> None:
        self._reconciler = reconciler
        self._registry = registry
        self._holds = holds
        self._host = host
        self._directory = directory
        self._reload = reload
        self._accept_cluster = accept_cluster

    @property
    def events(self) -> EventLog:
        """What happened."""
        return self._reconciler.world.events

    def ask(self, query: Callable[[World], T], timeout: float = 10.0) -> T:
        """Run a query on the reconciler's thread between two events; raises TimeoutError, or what it raised."""
        reply = _Reply[T]()

        def run() -> None:
            try:
                reply.value = query(self._reconciler.world)
            except Exception as error:  # noqa: BLE001 - it is raised again where it was asked
                reply.error = error
            reply.done.set()

        self._reconciler.post(Ask(run))
        if not reply.done.wait(timeout):
            raise TimeoutError(f"the reconciler did not answer within {timeout} s")
        if reply.error is not None:
            raise reply.error
        return cast("T", reply.value)

    def wait(self, pod: str, condition: str, timeout: float) -> str | None:
        """Block until a Pod is mounted or unmounted; None when it is, else why not."""
        waiter = Waiter(pod, _CONDITIONS[condition])
        self._reconciler.post(Ask(lambda: self._reconciler.waiters.add(waiter)))
        if waiter.done.wait(timeout):
            return None

        def leave(world: World) -> str | None:
            self._reconciler.waiters.remove(waiter)
            # It may have come true between the timeout and now.
            return None if waiter.done.is_set() else summary_for_timeout(world, pod, condition)

        return self.ask(leave)

    def apply(self, data: bytes) -> tuple[ApplyResult, ...]:
        """Accept Pods, durably; what a document says is checked for all of them before the first is taken."""
        parsed = manifest.parse(data, "", self._reconciler.world.plugins)
        if parsed.errors:
            raise parsed.errors[0]
        if not parsed.items:
            raise ManifestError("holds no Pod", remedy="send a Kubernetes Pod as YAML or JSON")
        for item in parsed.items:
            pod_of(item)
        return tuple(self._apply_item(item) for item in parsed.items)

    def _apply_item(self, item: manifest.Item) -> ApplyResult:
        applied = self._registry.apply(item)
        meta = applied.pod.metadata
        return ApplyResult(
            kind="Pod",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            action=_ACTIONS.get(applied.action, Action.UNCHANGED),
        )

    def _find(self, selector: str) -> PodEntry:
        found = self.ask(lambda world: world.find_pods(selector))
        if not found:
            raise KeyError(selector)
        return found[0]

    def delete(self, pod: str) -> Deleted:
        """Let a Pod of the API leave, or one of a source that nobody reads."""
        entry = self._find(pod)
        unserved = self.ask(lambda world: is_unserved(world, entry))
        if not self._registry.delete(entry.pod.uid, unserved=unserved):
            raise KeyError(pod)
        note = f"it was of source {entry.source}, which this daemon does not read" if unserved else ""
        return Deleted(entry.pod.uid, note)

    def hold(self, pod: str, pid: int, who: str) -> Hold:
        """Keep a Pod's volumes while a process lives."""
        entry = self._find(pod)
        hold = self._holds.add(entry.pod.uid, pid, who)
        self._reconciler.post(HoldTaken(hold))
        return hold

    def mounts(self, pod: str, container: str, timeout: float) -> MountsReport:
        """Bind a Pod's subPaths, and give what its containers are to be given."""
        preparation = Preparation(pod, container, capacity(self._host))
        self._reconciler.post(Ask(lambda: self._reconciler.preparations.begin(preparation)))
        if not preparation.done.wait(timeout):
            self.ask(lambda _world: self._reconciler.preparations.give_up(preparation))
        return preparation.result()

    def release(self, hold_id: str) -> bool:
        """Give a hold back."""

        def find(world: World) -> str:
            return next((uid for uid, entry in world.pods.items() if hold_id in entry.holds), "")

        uid = self.ask(find)
        if not uid:
            return False
        self._holds.remove(hold_id)
        self._reconciler.post(HoldGone(hold_id, uid))
        return True

    def release_volume(self, name: str) -> str:
        """Let a PersistentVolume whose claim is gone be given to another claim."""
        self.ask(lambda world: check_unused(world, name))
        self._registry.release(name)
        return f"PersistentVolume {name} is free; what is on it is as it was"

    def delete_volume(self, claim: ObjectRef | None, volume: str, timeout: float) -> str:
        """Delete the volume that a claim had, or that has this name, with what is on it."""

        def look(world: World) -> PersistentVolume:
            found = deletable(world, claim) if claim is not None else world.objects[volume_ref(volume)].item
            if not isinstance(found, PersistentVolume):
                raise KeyError(volume)
            check_deletable(world, found)
            return found

        provisions = self._registry.provisions
        if provisions is None:
            raise OperationError("a controller makes and deletes volumes here; ask it")
        name = self.ask(look).metadata.name
        deleting = provisions.begin_deletion(name)
        outcome = _Reply[str]()

        def heard(why: str) -> None:
            outcome.value = why
            outcome.done.set()

        self._reconciler.post(Ask(lambda: self._reconciler.provisioning.delete(name, deleting.ref, heard)))
        if not outcome.done.wait(timeout):
            why = self.ask(lambda world: world.unfinished.get(name, "the call still runs"))
            raise UncertainError(f"deleting PersistentVolume {name} goes on; volmgr orphans lists it until then: {why}")
        if outcome.value:
            raise UncertainError(f"deleting PersistentVolume {name}: {outcome.value}; it is tried again")
        return f"PersistentVolume {name} is deleted, with what was on it"

    def orphans(self) -> OrphansReport:
        """Report what was kept without a Pod or a claim, and what storage has that nobody knows."""
        report, storage = self.ask(lambda world: (orphans_report(world), storage_of(world)))
        provisions = self._registry.provisions
        if provisions is None:
            return report
        known = storage.known | provisions.names()
        found: list[tuple[str, str]] = []
        problems: list[str] = []
        for name in storage.provisioners:
            try:
                maker = self._reconciler.world.plugins.provisioner(name)
                deadline = self._host.clock() + LISTING
                strangers = maker.strangers(name, known, self._host, deadline) if maker is not None else ()
            except VolmgrError as error:
                problems.append(f"what {name} has cannot be listed: {error}")
            else:
                found += ((name, stranger) for stranger in strangers)
        return with_strangers(report, found, problems)

    def drain(self, timeout: float) -> Drained:
        """Take everything down, and give what is left, and why."""
        waiter = Waiter(NODE, lambda world, _selector: len(world.actual) == 0)

        def begin() -> None:
            self._reconciler.drain()
            self._reconciler.waiters.add(waiter)

        self._reconciler.post(Ask(begin))
        if waiter.done.wait(timeout):
            return Drained()
        return self.ask(drained)

    def adopt(self) -> str:
        """Take over a root directory that somebody else filled."""
        if not self.ask(lambda world: world.readiness.read_only):
            return "this root is volmgr's already"
        root.refuse_kubelet(self._host)  # one may have been started meanwhile
        root.mark_adopted(self._host)
        self._reconciler.post(Ask(lambda: self._reconciler.set_read_only(read_only=False)))
        return f"{self._host.paths.root} is adopted; what no Pod wants is taken away now"

    def reload(self) -> str:
        """Check the installed packages, then execute the daemon anew."""
        return self._reload()

    def accept_manifests(self) -> str:
        """Confirm that the manifests directory really moved."""
        if self._directory is None:
            raise SpecError("this daemon has no manifests directory; start it with --manifests DIR")
        try:
            self._directory.accept_moved()
        except VolmgrError as error:
            raise OperationError(f"accepting the manifests directory: {error}") from error
        return "the manifests directory is accepted as it is now"

    def accept_cluster(self) -> str:
        """Confirm that the API server is the right one, whatever it has not."""
        if self._accept_cluster is None:
            raise SpecError("this daemon asks no API server; start it with --kubeconfig FILE")
        return self._accept_cluster()
