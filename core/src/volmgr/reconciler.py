"""The reconciler: owns both worlds, hears messages, and starts what next_step() says for dirty volumes.

One thread only. Nothing here blocks: operations and chores run on workers and come back as messages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from volmgr.actual import ActualVolume, Cause, Facts, settle
from volmgr.admission import Held, holds_of
from volmgr.config import Config
from volmgr.errors import OperationError, VolmgrError
from volmgr.executor import Executor, Job, Result
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, Object, ref_of
from volmgr.model.pod import Pod
from volmgr.model.volume import Attachable, Presence
from volmgr.next_step import Readiness, next_step
from volmgr.operations import Ending, Operation, Verb
from volmgr.populator import Lookup, Stance, resolve, stance
from volmgr.report.events import Severity
from volmgr.report.world import Hold, ObjectEntry, Orphan, PodEntry, Running, World
from volmgr.sources.changes import (
    Complaints,
    ObjectChanged,
    ObjectLeft,
    PodAccepted,
    PodLeft,
    SourceState,
)
from volmgr.tidy import Tidied, tidy
from volmgr.timers import Timer, Timers

if TYPE_CHECKING:
    from volmgr.desired import DesiredVolume
    from volmgr.host.interface import Host

log = logging.getLogger("volmgr.reconciler")


@dataclass(frozen=True, slots=True)
class Ask:
    """Run a query or a change between two events."""

    action: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Reconstructed:
    """What reconstruction found on disk."""

    volumes: tuple[ActualVolume, ...]


@dataclass(frozen=True, slots=True)
class ProgressMade:
    """What a running operation says of itself."""

    operation: Operation
    text: str


@dataclass(frozen=True, slots=True)
class MountsRead:
    """The mount table was compared with what is expected: (volume, Pod) that vanished, or turned read-only.

    `at` is the Unix time in seconds at which the comparison was asked for.
    """

    at: float
    vanished: tuple[tuple[str, str], ...]
    read_only: tuple[tuple[str, str], ...]
    seconds: float = 0.0
    """What reading and comparing took."""


@dataclass(frozen=True, slots=True)
class OrphansFound:
    """UIDs that have a directory below `pods/`."""

    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HoldTaken:
    """Somebody holds a Pod."""

    hold: Hold


@dataclass(frozen=True, slots=True)
class HoldGone:
    """A hold was given back, or its process has ended."""

    hold_id: str
    pod_uid: str


@dataclass(frozen=True, slots=True)
class HoldersAsked:
    """What the installed packages answered: who still runs a Pod's containers; empty when nobody."""

    pod_uid: str
    answer: str


@dataclass(frozen=True, slots=True)
class NodeStatusRead:
    """The node's status was read: what is attached and reported in use; by a source that has one."""

    node: Node


Message = (
    PodAccepted
    | PodLeft
    | ObjectChanged
    | ObjectLeft
    | SourceState
    | Complaints
    | Result
    | Ask
    | Reconstructed
    | ProgressMade
    | MountsRead
    | OrphansFound
    | HoldTaken
    | HoldGone
    | HoldersAsked
    | NodeStatusRead
    | Tidied
)

HOOKS = "hooks"
"""The id of the hold that stands for what the installed packages answered."""

TABLE_SHARE = 20
"""Reading the mount table takes at most one part in so many of the time."""

DUE = "due"
"""The revision of a mount that is to be made again: it equals no real one."""

Submit = Callable[[Callable[[], Message]], None]

_FAILURE_REASONS = {Verb.ATTACH: "FailedAttachVolume", Verb.DETACH: "FailedDetachVolume"}
_SUCCESS_REASONS = {
    Verb.ATTACH: "SuccessfulAttachVolume",
    Verb.MOUNT: "SuccessfulMountVolume",
    Verb.UNMOUNT: "SuccessfulUnmountVolume",
    Verb.EXPAND: "FileSystemResizeSuccessful",
}


@dataclass(slots=True)
class Waiter:
    """Somebody waits until `reached` is true of the world; looked at when one of its Pod's volumes changed."""

    selector: str
    reached: Callable[[World, str], bool]
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What the reconciler needs of the rest: time, workers, and who remembers Pods."""

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    submit: Submit
    forget: Callable[[str], bool]
    """Forget a Pod that has left and whose last mount is gone; False when it has returned meanwhile."""
    retain: Callable[[frozenset[ObjectRef]], None] = field(default=lambda _refs: None)
    """Keep exactly these objects on disk."""
    keep: Callable[[frozenset[ObjectRef]], None] = field(default=lambda _refs: None)
    """Keep these objects on disk, too; called on a worker before what needs them is mounted."""
    wake: Callable[[], None] = field(default=lambda: None)
    stuck: Callable[[], None] = field(default=lambda: None)
    """Told when an operation is quarantined: its worker is lost for a while."""
    unstuck: Callable[[], None] = field(default=lambda: None)
    """Told when a quarantined operation has ended."""
    held: Callable[[Hold], None] = field(default=lambda _hold: None)
    """Told of a hold whose process is to be watched."""


class Reconciler:
    """Drives the actual state of the world towards the desired one."""

    def __init__(self, world: World, host: Host, config: Config, outside: Outside) -> None:
        self.world = world
        self.timers = Timers()
        self._host = host
        self._config = config
        self._outside = outside
        self._executor = Executor(host, outside.wall)
        self._inbox: deque[Message] = deque()
        self._dirty: dict[str, None] = {}
        self._touched: dict[str, None] = {}
        self._jobs: dict[Operation, Job] = {}
        self._deadlines: dict[Operation, Timer] = {}
        self._living: dict[str, Pod] = {}
        self._users: dict[ObjectRef, set[str]] = {}
        self._references: dict[str, set[ObjectRef]] = {}
        self._waiters: dict[str, list[Waiter]] = {}
        self._expected: dict[tuple[str, str], tuple[Path, bool]] = {}
        self._table_timer: Timer | None = None
        self._table_seconds = 0.0
        self._retain_timer: Timer | None = None
        self._health_timer: Timer | None = None
        self._stopped: Callable[[], None] | None = None
        self._attached: dict[str, str] = {}
        self._hear = self._handlers()
        world.readiness = self._readiness()

    # --- the seam to other threads ---

    def post(self, message: Message) -> None:
        """Hand a message over, from any thread."""
        self._inbox.append(message)
        self._outside.wake()

    def step(self) -> None:
        """Handle every message and everything due, then start what can be started."""
        self.world.clock = self._outside.wall()
        self.world.monotonic = self._outside.monotonic()
        self.timers.run_due(self._outside.monotonic())
        while self._inbox or self._dirty:
            while self._inbox:
                message = self._inbox.popleft()
                self._hear[type(message)](message)
            while self._dirty:
                name = next(iter(self._dirty))
                del self._dirty[name]
                self._look_at(name)
        touched, self._touched = self._touched, {}
        for uid in touched:
            self._check_gone(uid)
            self._notify(uid)

    def _handlers(self) -> dict[type[Any], Callable[[Any], None]]:
        """Say who hears which message; a test holds this against the union Message."""
        return {
            PodAccepted: self._accept,
            PodLeft: self._leave,
            ObjectChanged: self._set_object,
            ObjectLeft: self._drop_object,
            SourceState: self._set_source,
            Complaints: self._complain,
            Result: self._settle,
            Ask: self._answer,
            Reconstructed: self._take_over,
            ProgressMade: self._note_progress,
            MountsRead: self._compare_mounts,
            OrphansFound: self._tidy_orphans,
            HoldTaken: self._take_hold,
            HoldGone: self._drop_hold,
            HoldersAsked: self._hear_holders,
            NodeStatusRead: self._read_node_status,
            Tidied: self._tidied,
        }

    def _answer(self, message: Ask) -> None:
        message.action()

    # --- Pods ---

    def _accept(self, change: PodAccepted) -> None:
        uid = change.pod.uid
        entry = self.world.pods.get(uid)
        if entry is None:
            entry = PodEntry(pod=change.pod, source=change.source, origin=change.origin, since=self.world.clock)
            self.world.pods[uid] = entry
            self.world.orphans = {path: orphan for path, orphan in self.world.orphans.items() if orphan.pod_uid != uid}
        else:
            entry.pod, entry.source, entry.origin = change.pod, change.source, change.origin
            entry.leaving = entry.torn_down = entry.released = False
        self._populate(uid)

    def _leave(self, change: PodLeft) -> None:
        uid = change.uid
        entry = self.world.pods.get(uid)
        if entry is not None:
            entry.leaving = True
            self._populate(uid)

    def _stance(self, entry: PodEntry) -> Stance:
        return stance(
            entry.pod,
            leaving=entry.leaving or self.world.draining,
            held=bool(entry.holds),
            sources_ready=self.world.sources_ready,
            keep_finished=self._config.keep_terminated_pod_volumes,
        )

    def _populate(self, uid: str) -> None:
        """Bring what one Pod wants up to date."""
        entry = self.world.pods[uid]
        standing = self._stance(entry)
        if standing is Stance.REMOVE and self._ask_holders(uid, entry):
            standing = Stance.KEEP
        self._touched[uid] = None
        if standing is Stance.REMOVE:
            self._living.pop(uid, None)
            self._refer(uid, set())
            entry.errors = {}
            for name in self.world.desired.remove_pod(uid):
                self._dirty[name] = None
            self._cancel_makings(uid)
        else:
            self._living[uid] = entry.pod
            self._want(uid, entry, keep_only=standing is Stance.KEEP)
        for volume in self.world.actual.of_pod(uid):
            self._dirty[volume.name] = None

    def _want(self, uid: str, entry: PodEntry, *, keep_only: bool) -> None:
        resolution = resolve(entry.pod, self._lookup(), keep_only=keep_only)
        if resolution.errors != entry.errors:
            for name, problem in resolution.errors.items():
                if entry.errors.get(name) != problem:
                    self._event(Severity.WARNING, "FailedMount", problem, uid=uid)
            entry.errors = dict(list(resolution.errors.items())[-self._config.pod_error_limit :])
        entry.processed = not resolution.errors or entry.processed
        self._refer(uid, resolution.references)
        resolved = {name for _, mount in resolution.wanted for name in mount.outer_names}
        wanted = {volume.name for volume, _ in resolution.wanted}
        for volume in self.world.desired.of_pod(uid):  # an unresolved one stays as it was
            if volume.name not in wanted and resolved.issuperset(volume.mounts[uid].outer_names):
                self.world.desired.remove(volume.name, uid)
                self._dirty[volume.name] = None
        for volume, mount in resolution.wanted:
            if self.world.desired.add(volume, mount):
                self.world.admission.forget(volume.name, uid)
                self.world.admission.forget(volume.name, "", final_only=True)
            self._dirty[volume.name] = None

    def _lookup(self) -> Lookup:
        objects = self.world.objects

        def get(ref: ObjectRef) -> Object | None:
            entry = objects.get(ref)
            return entry.item if entry else None

        def revision(ref: ObjectRef) -> str:
            entry = objects.get(ref)
            return entry.revision if entry else ""

        return Lookup(get=get, revision=revision, plugins=self.world.plugins, node=self.world.node)

    def _refer(self, uid: str, references: set[ObjectRef]) -> None:
        """Keep the index from objects to the Pods that use them."""
        old = self._references.get(uid, set())
        if references == old:
            return
        for ref in old - references:
            users = self._users[ref]
            users.discard(uid)
            if not users:
                del self._users[ref]
        for ref in references - old:
            self._users.setdefault(ref, set()).add(uid)
        if references:
            self._references[uid] = references
        else:
            self._references.pop(uid, None)
        self._retain_soon()

    def _retain_soon(self) -> None:
        """Let the objects in use be kept on disk, once for many changes."""
        if self._retain_timer is None:
            when = self._outside.monotonic() + self._config.retain_debounce
            self._retain_timer = self.timers.at(when, self._retain)

    def _retain(self) -> None:
        self._retain_timer = None
        refs = frozenset(self._users)
        self._outside.retain(refs)

    def _cancel_makings(self, uid: str) -> None:
        for operation, job in self._jobs.items():
            if operation.pod_uid == uid and operation.verb.is_making:
                job.cancel.set()

    # --- objects and sources ---

    def _set_object(self, change: ObjectChanged) -> None:
        ref = ref_of(change.item)
        self.world.objects[ref] = ObjectEntry(item=change.item, revision=change.revision, origin=change.origin)
        if isinstance(change.item, Node) and change.item.metadata.name == self._config.node_name:
            self.world.node = change.item
            for uid in tuple(self.world.pods):
                self._populate(uid)
        self._resolve_users(ref)

    def _drop_object(self, change: ObjectLeft) -> None:
        self.world.objects.pop(change.ref, None)
        self._resolve_users(change.ref)

    def _resolve_users(self, ref: ObjectRef) -> None:
        for uid in sorted(self._users.get(ref, ())):
            if uid in self.world.pods:
                self._populate(uid)

    def _set_source(self, state: SourceState) -> None:
        was_ready = self.world.sources_ready
        old = self.world.sources.get(state.source)
        self.world.sources[state.source] = "" if state.ready else state.problem or "not read yet"
        if not state.ready and state.problem and old != state.problem:
            self._event(Severity.WARNING, "SourceNotReady", f"source {state.source}: {state.problem}")
        if self.world.sources_ready != was_ready:
            self._readiness_changed()

    def _complain(self, complaints: Complaints) -> None:
        old = self.world.complaints.get(complaints.origin, ())
        if complaints.errors:
            self.world.complaints[complaints.origin] = complaints.errors
        else:
            self.world.complaints.pop(complaints.origin, None)
        for error in complaints.errors:
            if str(error) not in map(str, old):
                self._event(Severity.WARNING, "InvalidManifest", str(error))

    def _readiness(self) -> Readiness:
        return Readiness(
            unmount=self.world.sources_ready and self.world.reconstructed,
            living=self._living,
            controller_attach=self._config.controller_attach,
            attached=self._attached,
            read_only=self.world.readiness.read_only,
        )

    def _readiness_changed(self) -> None:
        """Look at everything: what was held back may be due now."""
        before = self.world.readiness
        self.world.readiness = self._readiness()
        for uid in tuple(self.world.pods):
            self._populate(uid)
        for volume in (*self.world.actual, *self.world.desired):
            self._dirty[volume.name] = None
        if self.world.readiness.unmount and not before.unmount:
            self.look_for_orphans()
        for selector in tuple(self._waiters):
            self._notify_selector(selector)

    def set_read_only(self, *, read_only: bool) -> None:
        """Stop or start changing anything (a foreign root that is not adopted yet)."""
        self.world.readiness = replace(self.world.readiness, read_only=read_only)
        self._readiness_changed()
        if not read_only:
            self.look_for_orphans()

    def drain(self) -> None:
        """Want nothing any more; holds are respected."""
        self.world.draining = True
        self._readiness_changed()

    def stop_admitting(self, then: Callable[[], None]) -> None:
        """Start nothing any more, and call `then` when every running operation has ended or is overdue."""
        self._stopped = then
        if not self.world.running:
            self.timers.at(self._outside.monotonic() + self._config.reload_delay, then)

    # --- reconstruction, node status ---

    def _take_over(self, message: Reconstructed) -> None:
        for volume in message.volumes:
            self._put(volume.name, volume)
            for uid in volume.mounts:
                self._refresh_later(volume.name, uid)
        self.world.reconstructed = True
        self._readiness_changed()

    def _read_node_status(self, message: NodeStatusRead) -> None:
        self.world.node = node = message.node
        self._attached.clear()
        self._attached.update({attached.name: attached.device_path for attached in node.volumes_attached})
        for name in self.world.desired.report_in_use(node.volumes_in_use):
            self._dirty[name] = None
        for volume in tuple(self.world.actual):
            if volume.attachable is Attachable.UNKNOWN:
                found = volume.name in self._attached
                path = self._attached.get(volume.name, "")
                self._put(
                    volume.name,
                    replace(
                        volume,
                        attachable=Attachable.YES if found else Attachable.NO,
                        device_path=path if found and volume.device is Presence.UNCERTAIN else volume.device_path,
                    ),
                )
        self._readiness_changed()

    # --- one volume ---

    def _look_at(self, name: str) -> None:
        """Start every operation of a volume that is due and may run now."""
        if self._stopped is not None or not self.world.reconstructed:
            return
        desired, actual = self.world.desired.get(name), self.world.actual.get(name)
        if desired is None and actual is not None and self._is_left_to_others(actual):
            self._put(name, None)
            return
        for operation in next_step(desired, actual, self.world.readiness):
            self._try(operation, desired, actual)

    def _is_left_to_others(self, actual: ActualVolume) -> bool:
        """Say whether only an attachment is left that the node itself does not take back."""
        others = self._config.controller_attach or actual.attachable is Attachable.NO
        return (
            others
            and self.world.readiness.unmount
            and not actual.mounts
            and actual.device is Presence.NO
            and not self.world.admission.is_held(actual.name)
        )

    def _try(self, operation: Operation, desired: DesiredVolume | None, actual: ActualVolume | None) -> None:
        world = self.world
        world.admission.turn(operation)
        backoff = world.admission.backoff(operation)
        if backoff is not None and self._outside.monotonic() < backoff.until:
            return
        plugin = desired.plugin if desired and operation.verb.is_making else actual.plugin if actual else ""
        volume_type = world.plugins.types.get(plugin)
        if volume_type is None or self._must_wait(operation):
            return
        facets = desired.facets if desired else actual.facets if actual else None
        exclusive = desired.exclusive if desired else self._exclusive(actual)
        endpoint = desired.endpoint if desired else ""
        held = holds_of(operation, facets, exclusive, endpoint)
        if not world.admission.try_hold(held):
            return
        self._start(operation, held, desired, actual)

    def _exclusive(self, actual: ActualVolume | None) -> tuple[str, ...]:
        if actual is None or actual.spec is None:
            return ()
        volume_type = self.world.plugins.types.get(actual.plugin)
        try:
            return volume_type.ask("exclusive", actual.spec) if volume_type else ()
        except VolmgrError:
            return ()

    def _must_wait(self, operation: Operation) -> bool:
        """Say whether a Pod's leftovers are being cleared away, or an older volume of that name is still there."""
        uid = operation.pod_uid
        entry = self.world.pods.get(uid)
        if entry is None or operation.verb is not Verb.MOUNT:
            return entry is not None and entry.tidying
        desired = self.world.desired.get(operation.volume)
        name = desired.mounts[uid].spec.name if desired else ""
        older = (volume for volume in self.world.actual.of_pod(uid) if volume.name != operation.volume)
        return entry.tidying or any(volume.mounts[uid].spec_name == name for volume in older)

    def _start(
        self, operation: Operation, held: Held, desired: DesiredVolume | None, actual: ActualVolume | None
    ) -> None:
        plugin = desired.plugin if desired and operation.verb.is_making else actual.plugin if actual else ""
        mount = desired.mounts.get(operation.pod_uid) if desired else None
        wishes = (mount,) if mount else tuple(desired.mounts.values()) if desired else ()
        references = {reference.ref for wish in wishes for reference in wish.references}
        allowed = self._config.operation_deadline
        job = Job(
            operation=operation,
            type=self.world.plugins.types[plugin],
            held=held,
            desired=desired,
            actual=actual,
            objects={ref: entry.item for ref in references if (entry := self.world.objects.get(ref)) is not None},
            node=self.world.node,
            node_name=self._config.node_name,
            attached_path=self._attached.get(operation.volume, ""),
            allowed=allowed,
            progress=lambda text: self.post(ProgressMade(operation, text)),
        )
        now = self._outside.monotonic()
        self._jobs[operation] = job
        self.world.running[operation] = Running(
            operation=operation, since=self.world.clock, deadline=self.world.clock + allowed
        )
        grace = self._config.quarantine_grace
        self._deadlines[operation] = self.timers.at(now + allowed + grace, lambda: self._quarantine(operation))
        self._touch(operation)
        uids = (operation.pod_uid,) if operation.pod_uid else tuple(desired.mounts if desired else ())
        needed = frozenset(ref for uid in uids for ref in self._references.get(uid, ()))
        self._outside.submit(lambda: self._perform(job, needed))

    def _perform(self, job: Job, needed: frozenset[ObjectRef]) -> Result:
        """Run on a worker."""
        try:
            if needed and job.operation.verb.is_making:
                self._outside.keep(needed)
        except OperationError as error:
            return Result(job=job, ending=Ending.UNCHANGED, facts=Facts(plugin=job.type.name), error=str(error))
        result = self._executor.perform(job)
        operation = job.operation
        self.world.plugins.finished(
            operation.volume, operation.verb.value, operation.pod_uid, result.ending.value, result.seconds
        )
        return result

    def _quarantine(self, operation: Operation) -> None:
        """Let an overdue operation leave the caps and name it; it keeps its keys until it has really ended."""
        running = self.world.running.get(operation)
        job = self._jobs.get(operation)
        if running is None or job is None:
            return
        self.world.running[operation] = replace(running, quarantined=True)
        for name in self.world.admission.quarantine(job.held):
            self._dirty[name] = None
        self._outside.stuck()
        message = f"{operation.verb} does not return; it is left alone until it does"
        self._event(Severity.WARNING, "OperationStuck", message, uid=operation.pod_uid, volume=operation.volume)
        self._touch(operation)

    def _settle(self, result: Result) -> None:
        operation = result.job.operation
        name = operation.volume
        running = self.world.running.pop(operation, None)
        self._jobs.pop(operation, None)
        timer = self._deadlines.pop(operation, None)
        if timer is not None:
            timer.cancel()
        if running is not None and running.quarantined:
            self._outside.unstuck()
        for again in self.world.admission.release(result.job.held):
            self._dirty[again] = None
        self._put(name, settle(self.world.actual.get(name), operation, result.ending, result.facts))
        if result.ending is Ending.DONE:
            self.world.admission.forget(name, operation.pod_uid, operation.verb)
            self._refresh_later(name, operation.pod_uid)
            if operation.verb is Verb.UNMOUNT:  # another volume of that Pod may have waited for its name
                for volume in self.world.desired.of_pod(operation.pod_uid):
                    self._dirty[volume.name] = None
            reason = _SUCCESS_REASONS.get(operation.verb)
            if reason:
                self._event(Severity.NORMAL, reason, f"{operation.verb}: done", uid=operation.pod_uid, volume=name)
        else:
            self._back_off(result)
        self._touch(operation)
        if self._stopped is not None and all(other.quarantined for other in self.world.running.values()):
            self.timers.at(self._outside.monotonic() + self._config.reload_delay, self._stopped)

    def _refresh_later(self, name: str, uid: str) -> None:
        """Let a mount be made again when its plugin says that it is due (an expiring token)."""
        volume = self.world.actual.get(name)
        mount = volume.mounts.get(uid) if volume else None
        volume_type = self.world.plugins.types.get(volume.plugin) if volume else None
        if volume is None or volume.spec is None or mount is None or volume_type is None:
            return
        try:
            due = volume_type.ask("refresh_at", volume.spec, mount.mounted_at)
        except VolmgrError:
            return
        if due is not None:
            delay = max(0.0, due - self._outside.wall())
            self.timers.at(self._outside.monotonic() + delay, lambda: self._refresh(name, uid, mount.mounted_at))

    def _refresh(self, name: str, uid: str, mounted_at: float) -> None:
        volume = self.world.actual.get(name)
        mount = volume.mounts.get(uid) if volume else None
        if volume is not None and mount is not None and mount.mounted_at == mounted_at:
            self._put(name, volume.with_mount(replace(mount, revision=DUE)))
            self._dirty[name] = None

    def _back_off(self, result: Result) -> None:
        operation = result.job.operation
        now = self._outside.monotonic()
        backoff = self.world.admission.failed(operation, result.error, now, final=result.final)
        if not result.final:
            self.timers.at(backoff.until, lambda: self._dirty.__setitem__(operation.volume, None))
        if result.job.cancel.is_set():
            return
        block = result.facts.spec is not None and result.facts.mode.value == "Block"
        reason = _FAILURE_REASONS.get(operation.verb, "FailedMapVolume" if block else "FailedMount")
        if not operation.verb.is_making:
            reason = _FAILURE_REASONS.get(operation.verb, "FailedUnmount")
        message = f"{operation.verb}: {result.error}"
        self._event(Severity.WARNING, reason, message, uid=operation.pod_uid, volume=operation.volume)

    def _note_progress(self, message: ProgressMade) -> None:
        running = self.world.running.get(message.operation)
        if running is not None:
            self.world.running[message.operation] = replace(running, progress=message.text)

    def _put(self, name: str, volume: ActualVolume | None) -> None:
        """Replace what is known of a volume, and what is expected in the mount table."""
        old = self.world.actual.get(name)
        self.world.actual.put(name, volume)
        for uid in old.mounts if old else ():
            self._expected.pop((name, uid), None)
            self._touched[uid] = None
        self._expected.pop((name, ""), None)
        if volume is None:
            return
        for uid, mount in volume.mounts.items():
            self._touched[uid] = None
            if mount.state is Presence.YES and mount.is_mount and mount.path is not None:
                self._expected[(name, uid)] = (mount.path, volume.spec is None or volume.spec.read_only)
        if volume.device is Presence.YES and self._health_timer is None:
            self._watch_health()
        if volume.device is Presence.YES and volume.device_target is not None and volume.mode.value == "Filesystem":
            self._expected[(name, "")] = (volume.device_target, volume.spec is None or volume.spec.read_only)

    def _touch(self, operation: Operation) -> None:
        """Remember whose state may have changed."""
        if operation.pod_uid:
            self._touched[operation.pod_uid] = None
            return
        desired, actual = self.world.desired.get(operation.volume), self.world.actual.get(operation.volume)
        for uid in (*(desired.mounts if desired else ()), *(actual.mounts if actual else ())):
            self._touched[uid] = None

    # --- the end of a Pod ---

    def _check_gone(self, uid: str) -> None:
        """Clear a Pod's directory away when its last mount is gone."""
        entry = self.world.pods.get(uid)
        if entry is None or entry.tidying or not self.world.readiness.unmount or self.world.readiness.read_only:
            return
        if uid in self._living or self.world.actual.of_pod(uid) or self._is_busy(uid):
            return
        if not entry.leaving and entry.torn_down:
            return
        entry.tidying = True
        leaving = entry.leaving
        self._outside.submit(lambda: self._tidy(uid, leaving=leaving))

    def _is_busy(self, uid: str) -> bool:
        return any(operation.pod_uid == uid for operation in self.world.running)

    def _tidy(self, uid: str, *, leaving: bool) -> Tidied:
        """Run on a worker."""
        try:
            kept = tidy(self._host, uid)
        except Exception as error:  # noqa: BLE001 - whatever it is, the Pod's directory is kept and named
            kept = (Orphan(pod_uid=uid, path=str(self._host.paths.pod(uid)), reason=str(error)),)
        return Tidied(uid=uid, kept=kept, forgotten=leaving and self._outside.forget(uid))

    def _tidied(self, message: Tidied) -> None:
        uid = message.uid
        for path in [path for path, orphan in self.world.orphans.items() if orphan.pod_uid == uid]:
            del self.world.orphans[path]
        for orphan in message.kept:
            self.world.orphans[orphan.path] = orphan
            self._event(Severity.WARNING, "OrphanKept", f"{orphan.path} is kept: {orphan.reason}", uid=uid)
        entry = self.world.pods.get(uid)
        if entry is not None:
            entry.tidying = False
            entry.torn_down = True
            if message.forgotten:
                del self.world.pods[uid]
                self._event(Severity.NORMAL, "PodGone", f"pod {entry.pod.key} is gone", uid=uid, pod=entry.pod.key)
                self._notify_selector(entry.pod.key)
            else:
                self._populate(uid)
        self._touched[uid] = None

    def look_for_orphans(self) -> None:
        """Look for directories of Pods that nobody knows."""
        if self.world.readiness.unmount and not self.world.readiness.read_only:
            host = self._host
            self._outside.submit(lambda: OrphansFound(host.files.names(host.paths.pods)))

    def _tidy_orphans(self, message: OrphansFound) -> None:
        for uid in message.uids:
            known = uid in self.world.pods
            served = any(volume.plugin in self.world.plugins.types for volume in self.world.actual.of_pod(uid))
            if not known and not served:
                self._outside.submit(partial(self._tidy, uid, leaving=False))

    # --- holds ---

    def _take_hold(self, message: HoldTaken) -> None:
        hold = message.hold
        entry = self.world.pods.get(hold.pod_uid)
        if entry is not None:
            entry.holds[hold.id] = hold
            self._outside.held(hold)
            self._populate(hold.pod_uid)

    def _drop_hold(self, message: HoldGone) -> None:
        entry = self.world.pods.get(message.pod_uid)
        if entry is not None and entry.holds.pop(message.hold_id, None) is not None:
            self._populate(message.pod_uid)

    def _ask_holders(self, uid: str, entry: PodEntry) -> bool:
        """Ask the installed packages, before a teardown begins, who still runs the Pod; True until nobody does."""
        plugins = self.world.plugins
        if entry.released or not plugins.modules or not self.world.actual.of_pod(uid):
            return False
        self._outside.submit(lambda: HoldersAsked(uid, plugins.holders(uid)))
        return True

    def _hear_holders(self, message: HoldersAsked) -> None:
        uid = message.pod_uid
        entry = self.world.pods.get(uid)
        if entry is None or self._stance(replace(entry, holds={})) is not Stance.REMOVE:
            return
        if message.answer:
            entry.holds[HOOKS] = Hold(id=HOOKS, pod_uid=uid, who=message.answer)
            when = self._outside.monotonic() + self._config.holders_recheck
            self.timers.at(when, lambda: self.post(HoldGone(HOOKS, uid)))
        else:
            entry.released = True
            self._populate(uid)

    # --- the mount table ---

    def mounts_changed(self) -> None:
        """Compare the mount table soon, once for many changes: it changed, by us or by others."""
        if self._table_timer is None and self._expected:
            # A long table is read less often: our own mounts change it, too, and must not be paid for twice.
            pause = max(self._config.mount_table_debounce, self._table_seconds * TABLE_SHARE)
            when = self._outside.monotonic() + pause
            self._table_timer = self.timers.at(when, self._read_table)

    def _watch_health(self) -> None:
        """Compare the mount table now and then while a block device is mounted.

        A file system that turns itself read-only after an I/O error is the one change that the kernel does not tell.
        """
        when = self._outside.monotonic() + self._config.health_interval
        self._health_timer = self.timers.at(when, self._check_health)

    def _check_health(self) -> None:
        self._health_timer = None
        if any(uid == "" for _, uid in self._expected):
            self._read_table()
            self._watch_health()

    def _read_table(self) -> None:
        self._table_timer = None
        expected = dict(self._expected)
        at = self._outside.wall()
        self._outside.submit(lambda: compare(self._host, expected, at))

    def _compare_mounts(self, message: MountsRead) -> None:
        self._table_seconds = message.seconds
        for name, uid in message.vanished:
            self._doubt(name, uid, message.at, "its mount has vanished: somebody unmounted it")
        for name, uid in message.read_only:
            self._doubt(name, uid, message.at, "its mount has turned read-only")

    def _doubt(self, name: str, uid: str, at: float, problem: str) -> None:
        """Take a mount for uncertain, so that it is made again."""
        volume = self.world.actual.get(name)
        if volume is None or (name, uid) not in self._expected or self.world.admission.is_held(name):
            return
        if not uid:
            self._put(name, replace(volume, device=Presence.UNCERTAIN, device_cause=Cause.VANISHED))
        else:
            mount = volume.mounts[uid]
            if mount.mounted_at > at:
                return
            doubted = replace(mount, state=Presence.UNCERTAIN, cause=Cause.VANISHED, problem=problem)
            self._put(name, volume.with_mount(doubted))
        self._event(Severity.WARNING, "VolumeVanished", problem, uid=uid, volume=name)
        self._dirty[name] = None

    # --- waiting, events ---

    def add_waiter(self, waiter: Waiter) -> None:
        """Subscribe; done at once when it is true already."""
        if waiter.reached(self.world, waiter.selector):
            waiter.done.set()
            return
        for key in _keys(waiter.selector):
            self._waiters.setdefault(key, []).append(waiter)

    def remove_waiter(self, waiter: Waiter) -> None:
        """Unsubscribe."""
        for key in _keys(waiter.selector):
            left = [other for other in self._waiters.pop(key, []) if other is not waiter]
            if left:
                self._waiters[key] = left

    def _notify(self, uid: str) -> None:
        entry = self.world.pods.get(uid)
        self._notify_selector(uid)
        if entry is not None:
            self._notify_selector(entry.pod.key)

    def _notify_selector(self, selector: str) -> None:
        for waiter in tuple(self._waiters.get(selector, ())):
            if waiter.reached(self.world, waiter.selector):
                self.remove_waiter(waiter)
                waiter.done.set()

    def _event(
        self, severity: Severity, reason: str, message: str, *, uid: str = "", volume: str = "", pod: str = ""
    ) -> None:
        entry = self.world.pods.get(uid)
        key = entry.pod.key if entry else pod
        self.world.events.record(severity, reason, message, pod=key, pod_uid=uid, volume=volume)
        level = logging.WARNING if severity is Severity.WARNING else logging.DEBUG
        log.log(level, "%s: %s", reason, message, extra={"pod": key, "pod_uid": uid, "volume": volume})


def _keys(selector: str) -> tuple[str, ...]:
    """Give the texts under which a waiter is found: a UID, `namespace/name`, or a name in namespace default."""
    return (selector,) if "/" in selector else (selector, f"default/{selector}")


def compare(host: Host, expected: Mapping[tuple[str, str], tuple[Path, bool]], at: float) -> MountsRead:
    """Find what is expected and not in the mount table, or read-only against the wish; on a worker."""
    started = time.monotonic()
    table = host.mounts.read_only_below(host.paths.root)
    vanished: list[tuple[str, str]] = []
    turned: list[tuple[str, str]] = []
    for key, (path, allowed) in expected.items():
        read_only = table.get(str(path))
        if read_only is None:
            vanished.append(key)
        elif read_only and not allowed:
            turned.append(key)
    return MountsRead(at, tuple(vanished), tuple(turned), time.monotonic() - started)
