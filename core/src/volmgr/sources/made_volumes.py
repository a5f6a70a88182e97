"""Volumes that are made here: one record each in `ROOT/volmgr/provisioned`, from before the first call. No decisions.

While a volume is being made nobody knows whether the storage has it, so its record outlives its claim.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import cast

from volmgr import records
from volmgr.errors import ManifestError
from volmgr.host.interface import Files
from volmgr.host.paths import Paths
from volmgr.manifest import recall
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import PersistentVolumeClaim, StorageClass, ref_of
from volmgr.model.volume import PersistentVolume
from volmgr.sources.changes import VolumeUnfinished

_KIND = "provisioned volume"

Document = Mapping[str, object]


class Stage(StrEnum):
    """How far a volume has come."""

    MAKING = "making"
    MADE = "made"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeVolume:
    """A volume that is made, or was; `name` is its PersistentVolume's, and `manifest` that, once it is known.

    `claim` is whom it was made for, `owner` the UID of the Pod whose own claim that is, if it is one's. `growing` is to
    how many bytes it is just being grown.
    """

    name: str
    stage: Stage
    claim: PersistentVolumeClaim
    storage_class: StorageClass
    manifest: Document = field(default_factory=dict[str, object])
    growing: int = 0
    owner: str = ""

    @property
    def goes_with_pod(self) -> bool:
        """Say whether it is deleted once the Pod is gone that it was made for."""
        return bool(self.owner) and self.storage_class.reclaim_policy == "Delete"

    @property
    def ref(self) -> ObjectRef:
        """Name the claim that it was made for."""
        return ref_of(self.claim)


class MadeVolumes:
    """The records by name and by claim; every write raises OperationError when it fails, and then changed nothing."""

    def __init__(self, files: Files, paths: Paths) -> None:
        """Use the host's files."""
        self._files = files
        self._top = paths.state / "provisioned"
        self._by_name: dict[str, MadeVolume] = {}
        self._by_claim: dict[ObjectRef, dict[str, None]] = {}
        self.damaged: set[str] = set()
        """File names of records that cannot be read."""

    def load(self) -> None:
        """Read every record."""
        for path, body in records.every(self._files, self._top, _KIND):
            volume = _read(body or {})
            if volume is None or self.path(volume.name) != path:
                self.damaged.add(path.name)
            else:
                self._index(volume)

    def complaints(self) -> Iterator[tuple[str, ManifestError]]:
        """Say of each record that cannot be read what follows from that."""
        for name in sorted(self.damaged):
            path = str(self._top / name)
            remedy = "restore it, or write the PersistentVolume into the manifests; the storage has the volume still"
            yield (
                path,
                ManifestError("the record is damaged or was written by a newer volmgr", file=path, remedy=remedy),
            )

    def damaged_for(self, uid: str) -> Path | None:
        """Give a record that cannot be read of a volume that was, or was being, made for a claim of this UID."""
        first = self.path(first_name(uid)).name
        begins = first.rsplit(".", 2)[0]  # those of later volumes have a number there
        found = sorted(name for name in self.damaged if name.startswith(begins))
        return self._top / found[0] if found else None

    def find(self, name: str) -> MadeVolume | None:
        """Give a record by the name of its PersistentVolume."""
        return self._by_name.get(name)

    def of(self, claim: ObjectRef) -> tuple[MadeVolume, ...]:
        """Give every volume that was made for claims of this name."""
        return tuple(self._by_name[name] for name in self._by_claim.get(claim, ()))

    def begun(self, claim: ObjectRef, uid: str) -> MadeVolume | None:
        """Give the volume that is being made for a claim."""
        return next((each for each in self.of(claim) if is_being_made(each) and each.claim.metadata.uid == uid), None)

    def all(self) -> tuple[MadeVolume, ...]:
        """Give every record."""
        return tuple(self._by_name.values())

    def path(self, name: str) -> Path:
        """Give the path of a record."""
        return self._top / records.file_name(f"pv.{name}")

    def put(self, volume: MadeVolume) -> None:
        """Write a record, so that it survives a power cut."""
        body: dict[str, object] = {
            "name": volume.name,
            "stage": volume.stage.value,
            "claim": claim_document(volume.claim),
            "storage_class": class_document(volume.storage_class),
            "manifest": dict(volume.manifest),
            "growing": volume.growing,
            "owner": volume.owner,
        }
        records.write(self._files, self.path(volume.name), _KIND, body, durable=True)
        self.damaged.discard(self.path(volume.name).name)
        self._index(volume)

    def remove(self, name: str) -> None:
        """Remove a record."""
        self._files.remove_file(self.path(name), durable=True)
        old = self._by_name.pop(name, None)
        if old is not None:
            names = self._by_claim[old.ref]
            names.pop(name, None)
            if not names:
                del self._by_claim[old.ref]

    def _index(self, volume: MadeVolume) -> None:
        self._by_name[volume.name] = volume
        self._by_claim.setdefault(volume.ref, {})[volume.name] = None


def first_name(uid: str) -> str:
    """Give the name of the volume that is made for a claim, unless an earlier claim of this UID has one."""
    return f"pvc-{uid}"


def unfinished(volume: MadeVolume) -> VolumeUnfinished:
    """Say that something is still to be done for a volume."""
    claim = f"claim {volume.ref.namespace}/{volume.ref.name}"
    maker = volume.storage_class.provisioner
    why = f"it is being deleted, with what is on it: its {claim} is gone"
    if is_being_made(volume):
        why = f"it was being made for {claim}, which is gone; whether {maker} has it is found out"
    return VolumeUnfinished(volume.name, volume.ref, maker, why)


def is_being_made(volume: MadeVolume) -> bool:
    """Say whether it is not known yet which volume the storage has, if any."""
    return volume.stage is Stage.MAKING


def claim_document(claim: PersistentVolumeClaim) -> Document:
    """Give what of a claim counts when its volume is made, as a manifest."""
    meta = claim.metadata
    spec: dict[str, object] = {
        "accessModes": list(claim.access_modes),
        "volumeMode": claim.volume_mode.value,
        "resources": {"requests": {name: str(amount) for name, amount in claim.requests.items()}},
    }
    if claim.storage_class_name is not None:
        spec["storageClassName"] = claim.storage_class_name
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "labels": dict(meta.labels),
            "annotations": dict(meta.annotations),
        },
        "spec": spec,
    }


def class_document(storage_class: StorageClass) -> Document:
    """Give a class as a manifest."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": storage_class.metadata.name},
        "provisioner": storage_class.provisioner,
        "parameters": dict(storage_class.parameters),
        "reclaimPolicy": storage_class.reclaim_policy,
        "mountOptions": list(storage_class.mount_options),
        "allowVolumeExpansion": storage_class.allow_volume_expansion,
        "volumeBindingMode": storage_class.volume_binding_mode,
        "allowedTopologies": [dict(term) for term in storage_class.allowed_topologies],
    }


def _read(body: Mapping[str, object]) -> MadeVolume | None:
    claim, storage_class = (recall(json.dumps(body.get(key)).encode()) for key in ("claim", "storage_class"))
    name, stage, manifest = (body.get(key) for key in ("name", "stage", "manifest"))
    growing, owner = body.get("growing"), body.get("owner")
    known = next((each for each in Stage if each.value == stage), None)
    if not (isinstance(claim, PersistentVolumeClaim) and isinstance(storage_class, StorageClass)):
        return None
    if not (isinstance(name, str) and name and known and isinstance(growing, int) and isinstance(manifest, dict)):
        return None
    if not isinstance(owner, str):
        return None
    said = cast("dict[str, object]", manifest)
    if known is not Stage.MAKING and not isinstance(recall(json.dumps(said).encode()), PersistentVolume):
        return None
    return MadeVolume(
        name=name, stage=known, claim=claim, storage_class=storage_class, manifest=said, growing=growing, owner=owner
    )
