"""Making, growing and deleting volumes for claims, as far as that is on disk: each step is recorded before it is taken.

The calls themselves are others' (`volmgr.provisioning`). Every method may be called from any thread but the main one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import cast

import msgspec

from volmgr import pairing
from volmgr.errors import OperationError, SpecError, UncertainError
from volmgr.manifest import recall
from volmgr.model.meta import ObjectRef
from volmgr.model.names import source_revision
from volmgr.model.objects import Object, PersistentVolumeClaim, StorageClass, ref_of
from volmgr.model.quantity import Quantity
from volmgr.model.volume import PersistentVolume
from volmgr.provisioner import Provisioned
from volmgr.sources.binder import Binder
from volmgr.sources.made_volumes import Document, MadeVolume, MadeVolumes, Stage, first_name, is_being_made
from volmgr.sources.objects import Objects
from volmgr.sources.offers import PROVISIONED, ObjectOffer, Place
from volmgr.sources.stock import volume_ref

DELETED = "Delete"
"""The reclaim policy of volumes that may be deleted."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A volume that is to be made now; `fresh`: no call for it was ever made."""

    volume: MadeVolume
    fresh: bool


class Provisions:
    """The records, and what follows from them for claims and volumes.

    Whatever changes a record raises OperationError when it cannot be written.
    """

    def __init__(
        self, lock: RLock, volumes: MadeVolumes, binder: Binder, objects: Objects, tell: Callable[[], None]
    ) -> None:
        """Belong to a registry, whose lock this is; `tell` says what has changed."""
        self._lock = lock
        self._volumes = volumes
        self._binder = binder
        self._objects = objects
        self._tell = tell

    def start(self) -> None:
        """Let every volume that was made be there; those whose records are gone are not.

        One whose record is damaged is as it was when it was last used.
        """
        for place in [place for place in self._objects.places() if place.source == PROVISIONED]:
            kept = Path(place.origin).name in self._volumes.damaged
            if not kept and all(self._place(each.name) != place for each in self._volumes.all()):
                self._objects.replace(place, {})
        for volume in self._volumes.all():
            self._offer(volume)

    def begin(self, ref: ObjectRef, uid: str) -> Begun | None:
        """Record that the volume of a claim is being made; None when none is wanted any more. Raises OperationError.

        What was begun is asked for as it was then: another provisioner, or other words, would miss what there is of it.
        """
        with self._lock:
            wanted = self._binder.makings.wanted(ref)
            if wanted is None or wanted[0].metadata.uid != uid:
                return None
            held = self._volumes.begun(ref, uid)
            volume = held or self._as_wanted(self._free_name(uid), *wanted)
            if held is None:
                self._volumes.put(volume)
            self._binder.begin(ref)
            return Begun(volume, fresh=held is None)

    def begin_anew(self, name: str) -> Begun | None:
        """Record that a volume is being made as its claim and class are now, by the same provisioner.

        None where that is nothing else than before, or not wanted. Raises OperationError.
        """
        with self._lock:
            held = self._volumes.find(name)
            wanted = self._binder.makings.wanted(held.ref) if held is not None and is_being_made(held) else None
            if held is None or wanted is None or wanted[0].metadata.uid != held.claim.metadata.uid:
                return None
            volume = self._as_wanted(name, *wanted)
            if volume == held or volume.storage_class.provisioner != held.storage_class.provisioner:
                return None
            self._volumes.put(volume)
            return Begun(volume, fresh=False)

    def _as_wanted(self, name: str, claim: PersistentVolumeClaim, storage_class: StorageClass) -> MadeVolume:
        owner = self._binder.makings.owner_of(ref_of(claim), claim)
        return MadeVolume(name=name, stage=Stage.MAKING, claim=claim, storage_class=storage_class, owner=owner)

    def find(self, name: str) -> MadeVolume | None:
        """Give what is recorded of a volume."""
        with self._lock:
            return self._volumes.find(name)

    def names(self) -> frozenset[str]:
        """Give the PersistentVolume's name of every volume that is being made, or was."""
        with self._lock:
            return frozenset(each.name for each in self._volumes.all())

    def complete(self, name: str, made: Provisioned) -> PersistentVolume:
        """Let a volume be there that was made.

        Raises OperationError, SpecError when what was made is no volume, UncertainError when it is one already.
        """
        with self._lock:
            begun = self._volumes.find(name)
            if begun is None or not is_being_made(begun):
                raise OperationError(f"PersistentVolume {name} is not being made")
            volume = replace(begun, stage=Stage.MADE, manifest=_manifest(begun, made))
            is_taken = self._objects.standing(volume_ref(name)) is not None
            twin = name if is_taken else self._binder.twin_of(persistent_volume(volume))
            if twin:
                maker = begun.storage_class.provisioner
                raise UncertainError(
                    f"what {maker} made as PersistentVolume {name} is PersistentVolume {twin} already, which may be"
                    " somebody's: no second one is made of it; remove that one, or have the driver mended"
                )
            return self._put(volume)

    def abandon(self, name: str) -> None:
        """Forget a volume that was not made: nothing is left of it. Raises OperationError."""
        with self._lock:
            begun = self._volumes.find(name)
            if begun is None or not is_being_made(begun):
                return
            self._volumes.remove(name)
            self._binder.abandon(begun.ref)
            self._tell()

    def report(self, ref: ObjectRef, text: str) -> None:
        """Say of a claim what is done for it; empty: nothing any more."""
        with self._lock:
            self._binder.report(ref, text)
            self._tell()

    def look_again(self) -> None:
        """Say anew of each claim without a volume why: it is known now who makes volumes here."""
        with self._lock:
            self._binder.look_at_pending()
            self._tell()

    def objects(self, refs: Iterable[ObjectRef]) -> Mapping[ObjectRef, Object]:
        """Give the objects that there are."""
        with self._lock:
            return {ref: found for ref in refs if (found := self._objects.standing(ref)) is not None}

    # --- growing ---

    def begin_growth(self, name: str, size: int) -> MadeVolume | None:
        """Record that a volume is being grown to `size` bytes; None when it has them, or is not there."""
        with self._lock:
            volume = self._volumes.find(name)
            if volume is None or volume.stage is not Stage.MADE or persistent_volume(volume).size >= size:
                return None
            growing = replace(volume, growing=size)
            if growing != volume:
                self._volumes.put(growing)
            return growing

    def grown(self, name: str, size: int, *, by_nodes: bool) -> None:
        """Let a volume have `size` bytes; without `by_nodes`, nothing is left to be done for that."""
        with self._lock:
            volume = self._volumes.find(name)
            if volume is None or volume.stage is not Stage.MADE:
                return
            spec = {**cast("Document", volume.manifest["spec"]), "capacity": {"storage": str(Quantity.of_bytes(size))}}
            if not by_nodes:
                self._binder.grown(name, size)  # first: who hears of the new capacity need not do anything for it
            self._put(replace(volume, growing=0, manifest={**volume.manifest, "spec": spec}))

    # --- deleting ---

    def begin_deletion(self, name: str) -> MadeVolume:
        """Record that a volume is being deleted, with what is on it: nobody gets it any more, and it is not given up.

        Raises OperationError when it must not be deleted.
        """
        with self._lock:
            volume = self._volumes.find(name)
            if volume is None or is_being_made(volume):
                raise OperationError(f"PersistentVolume {name} was not made by volmgr, which deletes nothing of it")
            if volume.stage is Stage.DELETING:
                return volume
            why = self._why_kept(volume)
            if why:
                raise OperationError(f"PersistentVolume {name} is not deleted: {why}")
            metadata = {
                **cast("Document", volume.manifest["metadata"]),
                "deletionTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            deleting = replace(volume, stage=Stage.DELETING, manifest={**volume.manifest, "metadata": metadata})
            self._put(deleting)
            return deleting

    def go_on_deleting(self, name: str) -> MadeVolume | None:
        """Begin to delete a volume that goes with its Pod, or whose deletion was begun; None: it is to stay.

        Raises OperationError when that cannot be recorded.
        """
        with self._lock:
            volume = self._volumes.find(name)
            if volume is None or not self._binder.makings.is_to_go(volume):
                return None
            if volume.stage is not Stage.DELETING and self._why_kept(volume):
                return None
            return self.begin_deletion(name)

    def deleted(self, name: str) -> None:
        """Forget a volume that was deleted. Raises OperationError."""
        with self._lock:
            self._volumes.remove(name)
            self._objects.replace(self._place(name), {})
            self._tell()

    def released(self, name: str) -> None:
        """Let a volume that was released be anybody's: it was made for a claim that is gone. Raises OperationError."""
        with self._lock:
            volume = self._volumes.find(name)
            if volume is None or volume.stage is not Stage.MADE:
                return
            spec = {key: value for key, value in cast("Document", volume.manifest["spec"]).items() if key != "claimRef"}
            self._put(replace(volume, manifest={**volume.manifest, "spec": spec}))

    def _why_kept(self, volume: MadeVolume) -> str:
        pv = persistent_volume(volume)
        if pv.reclaim_policy != DELETED:
            policy = f"its reclaim policy is {pv.reclaim_policy}"
            return f"{policy}; volmgr release pv/{volume.name} lets another claim have it"
        if self._binder.is_released(volume.name):
            return ""
        return "its claim is there; remove that from the manifests first, and let its Pods end"

    # --- what follows ---

    def _put(self, volume: MadeVolume) -> PersistentVolume:
        pv = persistent_volume(volume)
        self._volumes.put(volume)
        self._offer(volume)
        self._tell()
        return pv

    def _offer(self, volume: MadeVolume) -> None:
        place = self._place(volume.name)
        if is_being_made(volume):
            self._objects.replace(place, {})
            return
        raw = msgspec.json.encode(volume.manifest)
        revision = source_revision("PersistentVolume", volume.manifest)
        offer = ObjectOffer(persistent_volume(volume), place, 1, revision, raw)
        self._objects.replace(place, {volume_ref(volume.name): offer})

    def _place(self, name: str) -> Place:
        return Place(PROVISIONED, str(self._volumes.path(name)))

    def _free_name(self, uid: str) -> str:
        """Give the name for a claim's volume: one that no volume has, so that nobody gets an earlier claim's data."""
        first = first_name(uid)
        name, number = first, 1
        while not self._is_free(name):
            number += 1
            name = f"{first}-{number}"
        return name

    def _is_free(self, name: str) -> bool:
        if self._volumes.find(name) is not None or self._objects.standing(volume_ref(name)) is not None:
            return False
        return not self._binder.knows(name)


def persistent_volume(volume: MadeVolume) -> PersistentVolume:
    """Give a volume that was made; raises SpecError when it is none."""
    found = recall(msgspec.json.encode(volume.manifest))
    if not isinstance(found, PersistentVolume):
        raise SpecError(
            f"what was made as PersistentVolume {volume.name} names no volume type; its provisioner is wrong"
        )
    return found


def _manifest(begun: MadeVolume, made: Provisioned) -> Document:
    claim, storage_class = begun.claim, begun.storage_class
    asked = claim.requests.get("storage")
    spec: dict[str, object] = {
        **made.source,
        "capacity": {"storage": str(Quantity.of_bytes(made.size) if made.size else asked or 0)},
        "accessModes": list(claim.access_modes or ("ReadWriteOnce",)),
        "volumeMode": claim.volume_mode.value,
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "storageClassName": storage_class.metadata.name,
        "mountOptions": list(storage_class.mount_options),
        "claimRef": _claim_ref(claim),
    }
    if made.node_affinity is not None:
        spec["nodeAffinity"] = made.node_affinity
    annotations = {**made.annotations, pairing.PROVISIONED_BY: storage_class.provisioner}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": begun.name, "annotations": annotations},
        "spec": spec,
    }


def _claim_ref(claim: PersistentVolumeClaim) -> Document:
    meta = claim.metadata
    return {"kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
