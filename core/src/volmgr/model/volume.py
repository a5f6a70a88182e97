"""Volumes: one value says what is wanted, whatever manifest it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from volmgr.model.meta import ObjectMeta, ObjectRef
from volmgr.model.quantity import Quantity

S = TypeVar("S")


class VolumeMode(StrEnum):
    """How a volume reaches a container."""

    FILESYSTEM = "Filesystem"
    BLOCK = "Block"


RWOP = ("ReadWriteOncePod",)
"""The access modes of a volume that one Pod has for itself."""


class Attachable(StrEnum):
    """Whether a volume has to be attached to the node first."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Presence(StrEnum):
    """Whether something (an attachment, a device mount, a pod mount) is there."""

    NO = "no"
    UNCERTAIN = "uncertain"
    YES = "yes"


class Applies(StrEnum):
    """Who gives a volume's files to the Pod's fsGroup."""

    CORE = "core"
    PLUGIN = "plugin"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRef:
    """The claim that a persistent volume belongs to."""

    namespace: str = ""
    name: str = ""
    uid: str = ""

    @property
    def ref(self) -> ObjectRef:
        """Name that claim, whichever UID it has."""
        return ObjectRef("PersistentVolumeClaim", self.namespace, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVolumeSource:
    """The source of a Pod volume `persistentVolumeClaim`: the claim in the Pod's namespace."""

    claim_name: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResources:
    """How much a claim asks for."""

    requests: Mapping[str, Quantity] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimDataSource:
    """What a claim's volume is to be filled with."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    api_group: str = ""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSpec:
    """What a claim asks for, as on the wire."""

    access_modes: tuple[str, ...] = ()
    volume_name: str = ""
    volume_mode: VolumeMode = VolumeMode.FILESYSTEM
    storage_class_name: str | None = None
    resources: ClaimResources = field(default_factory=ClaimResources)
    selector: Mapping[str, object] | None = None
    data_source: ClaimDataSource | None = None
    data_source_ref: ClaimDataSource | None = None

    @property
    def content(self) -> str:
        """What its volume is to be filled with; empty when with nothing."""
        return str(self.data_source_ref or self.data_source or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateMeta:
    """What a claim takes over from its template's metadata."""

    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTemplate:
    """What the claim of an ephemeral volume is made from."""

    spec: ClaimSpec
    metadata: TemplateMeta = field(default_factory=TemplateMeta)


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralVolumeSource:
    """The source of a Pod volume `ephemeral`: a claim named `<pod>-<volume>` that lives as long as the Pod."""

    volume_claim_template: ClaimTemplate


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolume:
    """A persistent volume; `type` is the field that names its volume type, `source` its value, not yet typed."""

    metadata: ObjectMeta
    type: str = ""
    source: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    capacity: Mapping[str, Quantity] = field(default_factory=lambda: MappingProxyType({}))
    access_modes: tuple[str, ...] = ()
    volume_mode: VolumeMode = VolumeMode.FILESYSTEM
    mount_options: tuple[str, ...] = ()
    claim_ref: ClaimRef | None = None
    storage_class_name: str = ""
    reclaim_policy: str = "Retain"
    node_affinity: Mapping[str, object] | None = None
    phase: str = ""
    message: str = ""
    """Why it is in this phase, when that is worth knowing."""
    inline: bool = False
    """There is no such object: it stands for a volume that is declared in a Pod (migration to csi)."""

    @property
    def size(self) -> int:
        """The bytes that it has; 0 when it does not say."""
        has = self.capacity.get("storage")
        return has.to_int() if has else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeSpec(Generic[S]):
    """One volume, typed: what every pure method and every request is about.

    `name` is the Pod's volume name for inline volumes and the PersistentVolume's name for claims
    (kubelet's `spec.Name()`). `type` is the field of the manifest (`nfs`). `source` is the plugin's own type.
    `reconstructed` says that the source was rebuilt from disk and may lack fields.
    """

    name: str
    type: str
    source: S
    driver: str | None = None
    pv: PersistentVolume | None = None
    access_modes: tuple[str, ...] = ()
    read_only: bool = False
    mode: VolumeMode = VolumeMode.FILESYSTEM
    mount_options: tuple[str, ...] = ()
    reconstructed: bool = False

    @property
    def inline(self) -> bool:
        """Whether it is declared in a Pod, be it that a PersistentVolume stands for it."""
        return self.pv is None or self.pv.inline


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """What one volume needs of its type.

    attach, device, block, expand: which operations it takes part in. selinux: mounts with `-o context=`.
    multi_attach: several nodes at once. remount: mounted again whenever a referenced object changes.
    directory: has a directory below the Pod's (hostPath has none; what such a type mounts below `ROOT/volmgr` is
    watched, too). read_only: containers may only read it, whatever their volumeMounts say.
    relabel: its files may be given the SELinux label of a container (not what the node shares).
    """

    attach: bool = False
    device: bool = False
    block: bool = False
    expand: bool = False
    selinux: bool = False
    multi_attach: bool = True
    fs_group: Applies = Applies.CORE
    remount: bool = False
    directory: bool = True
    read_only: bool = False
    relabel: bool = True


class Selector(Protocol):
    """Says which objects of a kind are meant; a frozen dataclass, since wishes are compared."""

    def accepts(self, item: object) -> bool:
        """Say whether an object of the kind is one of them; pure."""
        ...


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that a volume needs; an optional one may be absent. It may be the Pod itself, if files show it.

    With a `selector` it stands for every object of the kind that this accepts, at least one unless it is optional;
    the name in `ref` is then what people read while there is none (`of signer example.com/ca`).
    """

    ref: ObjectRef
    optional: bool = False
    selector: Selector | None = None
    attaching: bool = False
    """It is needed to attach the volume: where a controller does that, the node neither needs it nor may read it."""
