"""What a source tells the reconciler: small values, sent in order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from volmgr.errors import ManifestError
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Object
from volmgr.model.pod import Pod


class Standing(StrEnum):
    """Where an accepted Pod stands."""

    PRESENT = "present"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True)
class PodAccepted:
    """A Pod is there, new or changed; its record is on disk. `origin` is the file, or `api`."""

    pod: Pod
    source: str
    origin: str


@dataclass(frozen=True, slots=True)
class PodLeft:
    """A Pod has left its source; its record says so. It is forgotten when its last mount is gone."""

    uid: str


@dataclass(frozen=True, slots=True)
class RecordDamaged:
    """The record of an accepted Pod cannot be read: what it wants is not known, so nothing of it is taken away."""

    uid: str
    error: ManifestError


@dataclass(frozen=True, slots=True)
class ObjectChanged:
    """Another object is there, new or changed; `revision` differs whenever its content may differ."""

    item: Object
    revision: str
    origin: str
    read_at: float = 0.0
    """When an API server said so: Unix time in seconds; 0 for what comes from files."""


@dataclass(frozen=True, slots=True)
class ObjectLeft:
    """Another object is gone from its source."""

    ref: ObjectRef


@dataclass(frozen=True, slots=True)
class ObjectAwaited:
    """It is not known whether there is such an object, and why: the API server is silent, or refuses."""

    ref: ObjectRef
    why: str


@dataclass(frozen=True, slots=True)
class ObjectAbsent:
    """The API server has no such object.

    With an empty name the reference stands for all objects of its kind: which there are was told before this.
    """

    ref: ObjectRef


@dataclass(frozen=True, slots=True)
class SourceState:
    """Whether a source was read whole once; `problem` says why it is not, or why it is not current now."""

    source: str
    ready: bool
    problem: str = ""
    contact: float = 0.0
    """When the source last heard of an API server: Unix time in seconds; 0 never, or where it asks none."""


@dataclass(frozen=True, slots=True)
class Complaints:
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
    | Complaints
)
