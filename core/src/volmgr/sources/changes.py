"""What a source tells the reconciler: small values, sent in order."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from volmgr.errors import ManifestError
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Object
from volmgr.model.pod import Pod


class Standing(StrEnum):
    """Where an accepted Pod stands."""

    PRESENT = "present"
    LEAVING = "leaving"


class PodAccepted(msgspec.Struct, frozen=True):
    """A Pod is there, new or changed; its record is on disk. `origin` is the file, or `api`."""

    pod: Pod
    source: str
    origin: str


class PodLeft(msgspec.Struct, frozen=True):
    """A Pod has left its source; its record says so. It is forgotten when its last mount is gone."""

    uid: str


class RecordDamaged(msgspec.Struct, frozen=True):
    """The record of an accepted Pod cannot be read: what it wants is not known, so nothing of it is taken away."""

    uid: str
    error: ManifestError


class ObjectChanged(msgspec.Struct, frozen=True):
    """Another object is there, new or changed; `revision` differs whenever its content may differ."""

    item: Object
    revision: str
    origin: str
    read_at: float = 0.0
    """When an API server said so: Unix time in seconds; 0 for what comes from files."""

    def of(self, item: Object) -> ObjectChanged:
        """Give the same change of an object of which more is known."""
        return msgspec.structs.replace(self, item=item)


class ObjectLeft(msgspec.Struct, frozen=True):
    """Another object is gone from its source."""

    ref: ObjectRef


class ObjectAwaited(msgspec.Struct, frozen=True):
    """It is not known whether there is such an object, and why: the API server is silent, or refuses."""

    ref: ObjectRef
    why: str


class ObjectAbsent(msgspec.Struct, frozen=True):
    """The API server has no such object.

    With an empty name the reference stands for all objects of its kind: which there are was told before this.
    """

    ref: ObjectRef


class SourceState(msgspec.Struct, frozen=True):
    """Whether a source was read whole once; `problem` says why it is not, or why it is not current now."""

    source: str
    ready: bool
    problem: str = ""
    contact: float = 0.0
    """When the source last heard of an API server: Unix time in seconds; 0 never, or where it asks none."""


class VolumeUnfinished(msgspec.Struct, frozen=True):
    """Something is still to be done for a volume that is made here, by the name of its PersistentVolume.

    It was begun for a claim that is gone, is being deleted, or was made for a Pod's own claim that went with the Pod.
    `claim` is whom it was made for, `provisioner` by whom, `why` what people are told of it while it is not finished.
    """

    volume: str
    claim: ObjectRef
    provisioner: str
    why: str


class Complaints(msgspec.Struct, frozen=True):
    """What is wrong with one file now (empty: nothing any more)."""

    origin: str
    errors: tuple[ManifestError, ...]


Change = (
    PodAccepted
    | PodLeft
    | RecordDamaged
    | ObjectChanged
    | ObjectLeft
    | ObjectAwaited
    | ObjectAbsent
    | SourceState
    | VolumeUnfinished
    | Complaints
)
