"""The accepted Pods: what each one wants, the objects it refers to, and who holds it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volmgr.attachments import ATTACH_LIMIT
from volmgr.giving_way import GivingWay
from volmgr.label_conflicts import LabelConflicts
from volmgr.messages import Ask, HoldersAsked, HoldGone, HoldTaken
from volmgr.model.driver_sources import CSI_FIELD
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, Object, VolumeAttachment, ref_of
from volmgr.model.volume import Attachable
from volmgr.operations import Verb
from volmgr.populator import Lookup, Stance, every, resolve, stance
from volmgr.references import References
from volmgr.report.events import Severity
from volmgr.report.world import Hold, ObjectEntry, Orphan, PodEntry
from volmgr.sources.changes import (
    ObjectAbsent,
    ObjectAwaited,
    ObjectChanged,
    ObjectLeft,
    PodAccepted,
    PodLeft,
    RecordDamaged,
)

if TYPE_CHECKING:
    from volmgr.desired import DesiredVolume
    from volmgr.desk import Desk
    from volmgr.messages import Message
    from volmgr.timers import Timer

HOOKS = "hooks"
"""The id of the hold that stands for what the installed packages answered."""


class Tenancy:
    """Brings the desired state of the world up to date with the accepted Pods."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._world = desk.world
        self.references = References(desk)
        self._label_conflicts = LabelConflicts(desk.world)
        self._added: set[str] = set()
        """Pods that were last looked at as such whose volumes are wanted, by UID."""
        self._rechecks: dict[str, Timer] = {}
        """When holders are asked again, by UID."""
        self._outrun: set[str] = set()
        """Pods whose holders were to be asked again while an answer was on its way: it may be older than that."""

    def accept(self, change: PodAccepted) -> None:
        uid = change.pod.uid
        self._desk.sealed.pop(uid, None)
        entry = self._world.pods.get(uid)
        if entry is None:
            entry = PodEntry(pod=change.pod, source=change.source, origin=change.origin, since=self._world.clock)
            self._world.pods[uid] = entry
            self._world.orphans = {
                path: orphan for path, orphan in self._world.orphans.items() if orphan.pod_uid != uid
            }
        else:
            entry.pod, entry.source, entry.origin = change.pod, change.source, change.origin
            entry.leaving = entry.torn_down = entry.released = False
        self.populate(uid)

    def leave(self, change: PodLeft) -> None:
        uid = change.uid
        entry = self._world.pods.get(uid)
        if entry is not None:
            entry.leaving = True
            self.populate(uid)

    def seal(self, change: RecordDamaged) -> None:
        """Let what is there of a Pod be, since nobody knows what it wants."""
        uid, reason = change.uid, str(change.error)
        if uid not in self._world.pods:
            self._desk.sealed[uid] = reason
            path = str(self._world.paths.pod(uid))
            self._world.orphans[path] = Orphan(pod_uid=uid, path=path, reason=reason)

    def _stance(self, entry: PodEntry) -> Stance:
        return stance(
            entry.pod,
            leaving=entry.leaving or self._world.draining,
            held=entry.is_held,
            sources_ready=self._world.sources_ready or self._world.draining,
            keep_finished=self._world.keeps_finished,
        )

    def reconsider(self, uid: str) -> None:
        """Bring what one Pod wants up to date, when only the readiness of sources or what is mounted has changed.

        A Pod that stays wanted wants what it did: what it refers to is looked up when that changes. Only one with
        errors may wait for the label of a volume that it is found to have.
        """
        entry = self._world.pods[uid]
        if uid in self._added and not (entry.errors or entry.awaited) and self._stance(entry) is Stance.ADD:
            self._desk.touched[uid] = None
            for volume in self._world.desired.of_pod(uid):
                self._detach_no_more(volume)
        else:
            self.populate(uid)

    def populate(self, uid: str) -> None:
        """Bring what one Pod wants up to date."""
        entry = self._world.pods[uid]
        (self._desk.held.add if entry.is_held else self._desk.held.discard)(uid)
        standing = self._stance(entry)
        if standing is Stance.REMOVE and self._ask_holders(uid, entry):
            standing = Stance.KEEP
        self._desk.touched[uid] = None
        (self._added.add if standing is Stance.ADD else self._added.discard)(uid)
        if standing is Stance.REMOVE:
            self._desk.living.pop(uid, None)
            self.references.put(uid, set())
            entry.errors, entry.awaited = {}, {}
            entry.label_troubles = ()
            self._label_conflicts.forget(uid)
            for name in self._world.desired.remove_pod(uid):
                self._desk.dirty[name] = None
                self._label_conflicts.left(name)
            self._cancel_makings(uid)
        else:
            self._desk.living[uid] = entry.pod
            self._want(uid, entry, keep_only=standing is Stance.KEEP)
        for volume in self._world.actual.of_pod(uid):
            self._desk.dirty[volume.name] = None
        for other in self._label_conflicts.due():
            self.populate(other)

    def _want(self, uid: str, entry: PodEntry, *, keep_only: bool) -> None:
        resolution = resolve(entry.pod, self._lookup(), keep_only=keep_only)
        self._label_conflicts.sort_out(uid, resolution)
        entry.label_troubles = tuple(resolution.troubles.values())
        if resolution.errors != entry.errors:
            for name, problem in resolution.errors.items():
                if entry.errors.get(name) != problem:
                    self._desk.event(Severity.WARNING, "FailedMount", problem, uid=uid)
            entry.errors = dict(list(resolution.errors.items())[-self._desk.config.pod_error_limit :])
        entry.awaited = resolution.awaited
        entry.processed = not (resolution.errors or resolution.awaited) or entry.processed
        self.references.put(uid, resolution.references)
        resolved = {name for _, mount in resolution.wanted for name in mount.outer_names}
        wanted = {volume.name for volume, _ in resolution.wanted}
        for volume in self._world.desired.of_pod(uid):  # an unresolved one stays as it was
            if volume.name not in wanted and resolved.issuperset(volume.mounts[uid].outer_names):
                self._world.desired.remove(volume.name, uid)
                self._desk.dirty[volume.name] = None
                self._label_conflicts.left(volume.name)
        for volume, mount in resolution.wanted:
            known = self._world.desired.get(volume.name)
            before = known.mounts.get(uid) if known else None
            if self._world.desired.add(volume, mount):
                self._world.admission.forget(volume.name, uid)
                other = before is not None and (before.spec, before.revision) != (mount.spec, mount.revision)
                spared = None if other or _is_resized(known, volume) else Verb.EXPAND
                self._world.admission.forget(volume.name, "", final_only=not other, spared=spared)
                self._detach_no_more(volume)
            self._desk.dirty[volume.name] = None

    def _detach_no_more(self, wanted: DesiredVolume) -> None:
        """Take over that a driver does not attach any more; the reverse is settled by attaching."""
        actual = self._world.actual.get(wanted.name)
        if actual is not None and actual.attachable is Attachable.YES and not wanted.facets.attach:
            self._desk.put(wanted.name, replace(actual, attachable=Attachable.NO))

    def _lookup(self) -> Lookup:
        objects = self._world.objects

        def get(ref: ObjectRef) -> Object | None:
            entry = objects.get(ref)
            return entry.item if entry else None

        def revision(ref: ObjectRef) -> str:
            entry = objects.get(ref)
            return entry.revision if entry else ""

        def all_of(group: ObjectRef) -> list[Object]:
            return [entry.item for ref, entry in objects.items() if every(ref) == group]

        plugins, node = self._world.plugins, self._world.placed_node
        labelling = self._world.labelling
        return Lookup(
            get=get,
            revision=revision,
            plugins=plugins,
            node=node,
            labelling=labelling,
            all_of=all_of,
            awaited=self.references.awaited,
            absence=self._world.absence,
            searching=self._world.is_looking_for_drivers(CSI_FIELD),
            controller_attach=self._desk.config.controller_attaches,
        )

    def _cancel_makings(self, uid: str) -> None:
        for operation, job in self._desk.jobs.items():
            if operation.pod_uid == uid and operation.verb.is_making:
                job.cancel.set()

    def set_object(self, change: ObjectChanged) -> None:
        ref = ref_of(change.item)
        self._desk.appeared(str(ref))
        old = self._world.objects.get(ref)
        self._world.objects[ref] = ObjectEntry(
            item=change.item, revision=change.revision, origin=change.origin, read_at=change.read_at
        )
        awaited = self._world.awaited_objects.pop(ref, "")
        if not awaited and old is not None and (old.revision, old.item) == (change.revision, change.item):
            return  # it was only read again
        if isinstance(change.item, Node) and change.item.metadata.name == self._desk.config.node_name:
            self._world.node = change.item
            for uid in tuple(self._world.pods):
                self.populate(uid)
        if isinstance(change.item, VolumeAttachment) and change.item.error_code == ATTACH_LIMIT:
            self._tell_of_limit(change.item.attacher)
        self._resolve_users(ref)

    def _tell_of_limit(self, driver: str) -> None:
        """Let the packages hear that the node has less room than the driver said, who may ask it anew."""

        def tell() -> Message:
            self._world.plugins.limit_reached(driver, self._desk.host)
            return Ask(lambda: None)

        self._desk.outside.submit(tell)

    def drop_object(self, change: ObjectLeft) -> None:
        ref = change.ref
        self._world.objects.pop(ref, None)
        self.references.let_go(ref)
        self._resolve_users(ref)

    def await_object(self, change: ObjectAwaited) -> None:
        """Remember why it is not known whether there is an object; one that was there stays as it was."""
        if self.references.wait_for(change.ref, change.why):
            self._resolve_users(change.ref)

    def lack_object(self, change: ObjectAbsent) -> None:
        """Take note that an API server has none, or (without a name) that all of a kind are known."""
        if self._world.awaited_objects.pop(change.ref, None) is not None:
            self._resolve_users(change.ref)

    def _resolve_users(self, ref: ObjectRef) -> None:
        """Look again at the Pods that refer to an object, or select among all of its kind."""
        for uid in self.references.users(ref):
            if uid in self._world.pods:
                self.populate(uid)

    def take_hold(self, message: HoldTaken) -> None:
        hold = message.hold
        entry = self._world.pods.get(hold.pod_uid)
        if entry is not None:
            entry.holds[hold.id] = hold
            self._desk.outside.held(hold)
            self.populate(hold.pod_uid)

    def drop_hold(self, message: HoldGone) -> None:
        self._desk.outside.released(message.hold_id)
        uid = message.pod_uid
        entry = self._world.pods.get(uid)
        asks = message.hold_id == HOOKS
        if asks and (timer := self._rechecks.pop(uid, None)) is not None:
            timer.cancel()
        if entry is None:
            return
        if entry.holds.pop(message.hold_id, None) is not None:
            self.populate(uid)
        elif asks and self._stance(entry) is Stance.REMOVE and not entry.released:
            self._outrun.add(uid)

    def _ask_holders(self, uid: str, entry: PodEntry) -> bool:
        """Ask the installed packages, before a teardown begins, who still runs the Pod; True until nobody does."""
        plugins = self._world.plugins
        if entry.released or not plugins.know_holders or not self._world.actual.of_pod(uid):
            return False
        way = GivingWay(self._desk)  # a runtime may hang
        self._desk.outside.submit(way.noting(lambda: HoldersAsked(uid, plugins.holders(uid), way.over)))
        return True

    def hear_holders(self, message: HoldersAsked) -> None:
        message.over()
        uid = message.pod_uid
        outrun = uid in self._outrun
        self._outrun.discard(uid)
        entry = self._world.pods.get(uid)
        if entry is None or self._stance(replace(entry, holds={})) is not Stance.REMOVE:
            return
        if message.answer and outrun:
            self.populate(uid)
        elif message.answer:
            entry.holds[HOOKS] = Hold(id=HOOKS, pod_uid=uid, who=message.answer)
            self._desk.held.add(uid)
            when = self._desk.outside.monotonic() + self._desk.config.holders_recheck
            if (timer := self._rechecks.pop(uid, None)) is not None:
                timer.cancel()
            self._rechecks[uid] = self._desk.timers.at(when, lambda: self._desk.post(HoldGone(HOOKS, uid)))
        else:
            entry.released = True
            self.populate(uid)


def _is_resized(known: DesiredVolume | None, wanted: DesiredVolume) -> bool:
    """Say whether a volume is to have another size, or whose turn it is to grow it has changed."""
    return known is None or (known.size, known.grows) != (wanted.size or known.size, wanted.grows)
