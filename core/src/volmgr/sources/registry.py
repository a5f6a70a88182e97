"""The set of accepted Pods and objects: what every source offers goes in, ordered changes come out.

A Pod's record is on disk before PodAccepted is sent, and says that it leaves before PodLeft is. Every method may be
called from any thread but the main one: they write to disk under one lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Literal

from volmgr.errors import ManifestError, OperationError
from volmgr.host.interface import Files
from volmgr.host.paths import Paths
from volmgr.manifest import Item, Parsed, prepare
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import ref_of
from volmgr.model.pod import Pod
from volmgr.sources import offers as rules
from volmgr.sources.binder import Binder
from volmgr.sources.bindings import Bindings
from volmgr.sources.changes import (
    Change,
    Complaints,
    ObjectAbsent,
    ObjectAwaited,
    RecordDamaged,
    SourceState,
    Standing,
)
from volmgr.sources.contact import Contact
from volmgr.sources.ledger import Ledger
from volmgr.sources.made_volumes import MadeVolumes
from volmgr.sources.objects import Objects
from volmgr.sources.offers import API_PLACE, API_SERVER, ConflictError, ObjectOffer, Place, PodOffer
from volmgr.sources.pods import Pods
from volmgr.sources.provisions import Provisions

Sink = Callable[[Change], None]


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a Pod that came by the API; `pending` waits for the teardown of an earlier one of its UID."""

    pod: Pod
    action: Literal["created", "changed", "unchanged", "pending"]


class Registry:
    """Decides what stands, records it, and tells `sink` in order (called under the lock: it must only enqueue)."""

    def __init__(
        self,
        files: Files,
        paths: Paths,
        sink: Sink,
        *,
        node_name: str = "",
        binds_claims: bool = True,
        keeps_secrets: bool = False,
        serves: Callable[[str], bool] = lambda _provisioner: False,
    ) -> None:
        """Use the host's files; `serves` says whether somebody here makes volumes for classes with a provisioner."""
        self._lock = RLock()
        self.keeps_secrets = keeps_secrets
        self._ledger = Ledger(files, paths, keeps_secrets=keeps_secrets)
        self._contact = Contact(files, paths)
        self._sink = sink
        self._made = MadeVolumes(files, paths)
        self._binder = Binder(Bindings(files, paths), self._made, sink, node_name, serves) if binds_claims else None
        emit = self._binder.hear if self._binder else sink
        self._absent: set[Place] = set()
        self._faults: dict[Place, tuple[ManifestError, ...]] = {}
        self._told: dict[Place, tuple[str, ...]] = {}
        self._pods = Pods(self._ledger, emit, self._absent.__contains__)
        self._objects = Objects(self._ledger, emit, self._absent.__contains__)
        self.provisions: Provisions | None = None
        """Volumes that are made here for claims; None where a controller gives volumes to claims."""
        if self._binder is not None:
            self.provisions = Provisions(self._lock, self._made, self._binder, self._objects, self._tell)

    def start(self) -> None:
        """Read all records and tell of everything in them, so that it stands even when its source is gone."""
        prepare()
        with self._lock:
            if self._binder:
                self._binder.start()
                self._made.load()
                for path, error in self._made.complaints():
                    self._sink(Complaints(path, (error,)))
            for offer in self._ledger.objects():
                if isinstance(offer, ManifestError):
                    self._sink(Complaints(offer.file, (offer,)))
                else:
                    self._objects.recall(offer)
            if self.provisions:
                self.provisions.start()
            recorded = list(self._ledger.pods())
            if self._binder:
                self._binder.foresee(each.offer.pod for each in recorded if not isinstance(each, ManifestError))
            for accepted in recorded:
                if isinstance(accepted, ManifestError):
                    self._sink(Complaints(accepted.file, (accepted,)))
                    self._sink(RecordDamaged(Path(accepted.file).stem, accepted))
                    if self._binder:
                        self._binder.seal(Path(accepted.file).stem)
                else:
                    self._pods.recall(accepted)
            self._pods.finish_replacements()
            self._tell()

    def offer(self, source: str, origin: str, identity: str, parsed: Parsed, *, read_at: float = 0.0) -> bool:
        """Take what a stable read of a file says, in place of what it said before.

        `identity` is that of the file (the revision of its objects), `read_at` when an API server said so (Unix time
        in seconds). False when something could not be recorded: call `retry` later.
        """
        place = Place(source, origin)
        with self._lock:
            self._absent.discard(place)
            pods, objects, doubles = _sorted_out(place, identity, parsed.items, read_at)
            for uid, pod_offer in self._pods.offered(place).items():
                if uid not in pods and not (parsed.whole and ref_of(pod_offer.pod) not in parsed.broken):
                    pods[uid] = pod_offer  # its document is wrong now: the last good one stays
            for ref, object_offer in self._objects.offered(place).items():
                if ref not in objects and not (parsed.whole and ref not in parsed.broken):
                    objects[ref] = object_offer
            self._faults[place] = (*parsed.errors, *doubles)
            self._objects.replace(place, objects)  # before the Pods that refer to them
            self._pods.replace(place, pods)
            self._tell(place)
            if source == API_SERVER:
                self._contact.heard(read_at)
            return self._all_recorded

    def has_pod(self, source: str, origin: str, raw: bytes) -> bool:
        """Say whether a place offers just this Pod, word by word, and it stands: to offer it again is in vain."""
        place = Place(source, origin)
        with self._lock:
            return place not in self._absent and not self._faults.get(place) and self._pods.stands_as(place, raw)

    def digest(self, source: str, origin: str) -> str:
        """Give a digest of what a file says, or of what is recorded that it said; both alike for the same.

        Empty unless all of it stands and is such that a record brings it back.
        """
        place = Place(source, origin)
        with self._lock:
            faults = (*self._faults.get(place, ()), *self._pods.refusals(place), *self._objects.refusals(place))
            if faults or place in self._absent:
                return ""
            return rules.digest(self._pods.offered(place).values(), self._objects.offered(place).values())

    def complain(self, source: str, origin: str, errors: tuple[ManifestError, ...]) -> None:
        """Say what is wrong with a file that could not be read; its last good objects stay."""
        place = Place(source, origin)
        with self._lock:
            self._faults[place] = errors
            self._tell(place)

    def absent(self, source: str, origin: str) -> None:
        """Note that a file is missing, perhaps for a moment: another may take its Pods over at once."""
        place = Place(source, origin)
        with self._lock:
            self._absent.add(place)
            for ref in self._objects.offered(place):
                self._objects.decide(ref)
            for uid in self._pods.offered(place):
                self._pods.decide(uid)
            self._tell(place)

    def withdraw(self, source: str, origin: str) -> bool:
        """Take note that a file is deleted. False when something could not be recorded: call `retry` later."""
        place = Place(source, origin)
        with self._lock:
            self._faults.pop(place, None)
            self._pods.replace(place, {})
            self._objects.replace(place, {})
            self._absent.discard(place)
            self._tell(place)
            return self._all_recorded

    def retry(self) -> bool:
        """Decide again what could not be recorded; False when something still cannot."""
        with self._lock:
            for uid in tuple(self._pods.unrecorded):
                self._pods.decide(uid)
            self._tell()
            return self._all_recorded

    @property
    def _all_recorded(self) -> bool:
        return not self._pods.unrecorded and not (self._binder and self._binder.unrecorded)

    def origins(self, source: str) -> frozenset[str]:
        """Give the files of a source from which something stands or is offered."""
        with self._lock:
            return frozenset(
                place.origin for place in (*self._pods.places(), *self._objects.places()) if place.source == source
            )

    def pod_at(self, source: str, origin: str) -> str:
        """Give the UID of the Pod that a file offers; empty when it offers none."""
        with self._lock:
            return next(iter(self._pods.offered(Place(source, origin))), "")

    def pods(self, source: str) -> dict[str, str]:
        """Give the files of a source that offer a Pod, each with the Pod's UID (of several, the last)."""
        with self._lock:
            return {
                place.origin: uid
                for place in self._pods.places()
                if place.source == source
                for uid in self._pods.offered(place)
            }

    def holds(self, source: str, origin: str) -> bool:
        """Say whether something stands, or is offered, from a file."""
        place = Place(source, origin)
        with self._lock:
            return place in self._pods.places() or place in self._objects.places()

    def state(self, source: str, *, ready: bool, problem: str = "", contact: float = 0.0) -> None:
        """Pass on whether a source was read whole, why it is not current now, and when it last heard of a server."""
        with self._lock:
            if self._binder:
                self._binder.set_source(source, ready=ready)
                self._binder.settle()
            if source == API_SERVER:
                self._contact.heard(contact, lost=bool(problem))
                contact = contact or self._contact.recorded
            self._sink(SourceState(source, ready, problem, contact))

    def await_object(self, ref: ObjectRef, why: str) -> None:
        """Pass on why it is not known whether there is an object."""
        with self._lock:
            self._sink(ObjectAwaited(ref, why))

    def absent_object(self, ref: ObjectRef) -> None:
        """Pass on that an API server has no such object; with an empty name, that all of the kind were offered."""
        with self._lock:
            self._sink(ObjectAbsent(ref))

    def expect(self, source: str) -> None:
        """Take note of a source that will say when it was read whole: until then no claim chooses a volume."""
        with self._lock:
            if self._binder:
                self._binder.set_source(source, ready=False)

    def release(self, volume: str) -> None:
        """Let a PersistentVolume whose claim is gone be given to another claim.

        Raises KeyError when there is none, OperationError when it is not released or that cannot be recorded.
        """
        with self._lock:
            if self._binder is None:
                raise OperationError("a controller gives volumes to claims here; ask it")
            self._binder.release(volume)
            if self.provisions:
                self.provisions.released(volume)

    def grown(self, volume: str, size: int) -> None:
        """Take note that a PersistentVolume has this many bytes now. Raises OperationError."""
        with self._lock:
            if self._binder is not None:
                self._binder.grown(volume, size)

    def apply(self, item: Item) -> Applied:
        """Take a Pod from the API; raises ConflictError, or OperationError when it cannot be recorded."""
        pod = rules.pod_of(item)
        offer = PodOffer(pod, API_PLACE, item.document, item.raw)
        with self._lock:
            held = self._pods.find(pod.uid)
            changes: dict[str, PodOffer | None] = {}
            namesake = self._pods.present(pod.key)
            if namesake is not None and namesake.offer.place == API_PLACE and namesake.offer.pod.uid != pod.uid:
                changes[namesake.offer.pod.uid] = None
                if held is None:
                    self._pods.record_replacement(offer, namesake.offer.pod.uid)
            before = self._pods.update(API_PLACE, {**changes, pod.uid: offer})
            refusal = self._pods.refusal(API_PLACE, pod.uid)
            involved = [pod.uid, *([namesake.offer.pod.uid] if namesake else [])]
            failure = next((self._pods.unrecorded[uid] for uid in involved if uid in self._pods.unrecorded), None)
            after = self._pods.find(pod.uid)
            pending = after is not None and after.successor == offer
            if (refusal is not None and not pending) or failure is not None:
                self._pods.update(API_PLACE, before)
                self._pods.take_back_replacement(offer)
            self._tell()
            if failure is not None:
                raise failure
            if pending:
                return Applied(pod, "pending")
            if refusal is not None:
                raise refusal
            if held is None or held.standing is Standing.LEAVING:
                return Applied(pod, "created")
            return Applied(pod, "unchanged" if held.offer.pod == pod else "changed")

    def delete(self, uid: str, *, unserved: bool = False) -> bool:
        """Let a Pod of the API leave; False when there is none, ConflictError when it comes from a file.

        `unserved`: wherever it comes from, since nobody reads that any more.
        """
        with self._lock:
            held = self._pods.find(uid)
            if held is None:
                return False
            place = held.offer.place if unserved else API_PLACE
            if held.standing is Standing.PRESENT and held.offer.place != place:
                problem = f"the Pod {held.offer.pod.key} comes from {held.offer.place}"
                raise ConflictError(problem, remedy="remove it there")
            before = self._pods.update(place, {uid: None})
            self._tell()
            failure = self._pods.unrecorded.pop(uid, None)
            if failure is not None:
                self._pods.update(place, before)
                raise failure
            return True

    def forget(self, uid: str) -> bool:
        """Let go of a Pod that left, when the last of its volumes is gone; what waited for it is accepted now.

        False when the Pod is not (or no longer) leaving. Raises OperationError when its record cannot be removed.
        """
        with self._lock:
            forgotten = self._pods.forget(uid)
            if forgotten and self._binder and self._pods.find(uid) is None:
                self._binder.forget_pod(uid)
            self._tell()
            return forgotten

    def retain(self, refs: Iterable[ObjectRef]) -> None:
        """Keep the objects in use on disk, and no others; of Secrets as the ledger says. Raises OperationError."""
        with self._lock:
            self._objects.retain(frozenset(refs))
            self._tell()

    def knows(self, uid: str) -> bool:
        """Say whether there is a Pod, present or leaving, with this UID."""
        with self._lock:
            return self._pods.find(uid) is not None

    def keep(self, refs: Iterable[ObjectRef]) -> None:
        """Keep these objects on disk, too, before a volume that needs them is mounted; of Secrets as the ledger says.

        Raises OperationError.
        """
        wanted = frozenset(refs)
        if not self._objects.lacks(wanted):
            return  # each mount asks: those of a whole node must not queue behind the list that brought them
        with self._lock:
            self._objects.keep(wanted)
            self._tell()

    def _tell(self, *places: Place) -> None:
        """Say which claims have which volumes now, and what is wrong with each place where that changed."""
        if self._binder:
            self._binder.settle()
        for path in self._ledger.take_mended():
            self._sink(Complaints(str(path), ()))
        for place in sorted({*places, *self._pods.touched, *self._objects.touched}):
            errors = (*self._faults.get(place, ()), *self._pods.refusals(place), *self._objects.refusals(place))
            said = tuple(map(str, errors))
            if place != API_PLACE and said != self._told.pop(place, ()):
                self._sink(Complaints(place.origin, errors))
            if said:
                self._told[place] = said
        self._pods.touched.clear()
        self._objects.touched.clear()


def _sorted_out(
    place: Place, identity: str, items: tuple[Item, ...], read_at: float
) -> tuple[dict[str, PodOffer], dict[ObjectRef, ObjectOffer], list[ManifestError]]:
    """Make offers of a file's items; the second of two that are the same is an error."""
    pods: dict[str, PodOffer] = {}
    objects: dict[ObjectRef, ObjectOffer] = {}
    doubles: list[ManifestError] = []
    for item in items:
        value = item.value
        if isinstance(value, Pod):
            pod_offer = PodOffer(value, place, item.document, item.raw)
            first = pods.setdefault(value.uid, pod_offer)
            if first is not pod_offer:
                doubles.append(rules.in_two_places(pod_offer, first))
            continue
        revision = value.metadata.resource_version or f"{identity}#{item.document}"
        object_offer = ObjectOffer(value, place, item.document, revision, item.raw, read_at)
        first_object = objects.setdefault(ref_of(value), object_offer)
        if first_object is not object_offer:
            doubles.append(rules.object_in_two_places(object_offer, first_object))
    return pods, objects, doubles
