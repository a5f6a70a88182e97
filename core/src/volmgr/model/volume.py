"""Volumes: one value says what is wanted, whatever manifest it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, TypeVar

from volmgr.model.meta import ObjectMeta, ObjectRef
from volmgr.model.quantity import Quantity

S = TypeVar("S")


class VolumeMode(StrEnum):
    """How a volume reaches a container."""

    FILESYSTEM = "Filesystem"
    BLOCK = "Block"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimVolumeSource:
    """The source of a Pod volume `persistentVolumeClaim`: the claim in the Pod's namespace."""

    claim_name: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EphemeralVolumeSource:
    """The source of a Pod volume `ephemeral`: a claim named `<pod>-<volume>` that lives as long as the Pod."""

    volume_claim_template: Mapping[str, object]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """What one volume needs of its type.

    attach, device, block, expand: which operations it takes part in. selinux: mounts with `-o context=`.
    multi_attach: several nodes at once. remount: mounted again whenever a referenced object changes.
    directory: has a directory below the Pod's (hostPath has none).
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


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that a volume needs; an optional one may be absent."""

    ref: ObjectRef
    optional: bool = False
