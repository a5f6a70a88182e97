"""Who makes volumes for claims where no controller does, and what it is asked: one frozen value per call.

Every call is recorded before it is made, and made again with the same name until it is known how it ended. So whoever
answers remembers nothing about volumes, and finds by its name what an earlier call made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from volmgr.host.interface import Host
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, PersistentVolumeClaim, StorageClass
from volmgr.model.volume import PersistentVolume
from volmgr.requests import Objects

_NO_OBJECTS: Objects = MappingProxyType({})
_NO_TEXTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """Make the volume of a claim, or find what an earlier call for it made; `name` is its PersistentVolume's to be."""

    name: str
    claim: PersistentVolumeClaim
    storage_class: StorageClass
    node_name: str = ""
    node: Node | None = None
    objects: Objects = field(default_factory=lambda: _NO_OBJECTS, repr=False)
    deadline: float = float("inf")
    """Seconds on the host's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioned:
    """The volume that was made. What its claim and class say of it need not be repeated.

    `source` is that of its PersistentVolume, by the field (`{"csi": {…}}`), `size` in bytes (0: as asked).
    """

    source: Mapping[str, Mapping[str, object]]
    size: int = 0
    node_affinity: Mapping[str, object] | None = None
    annotations: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVolume:
    """Delete a volume that was made, with what is on it; one that is not there is deleted."""

    volume: PersistentVolume
    storage_class: StorageClass
    objects: Objects = field(default_factory=lambda: _NO_OBJECTS, repr=False)
    deadline: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowVolume:
    """Give a volume that was made `size` bytes or more; nodes do their part later, by `expand` of its type."""

    volume: PersistentVolume
    storage_class: StorageClass
    size: int
    objects: Objects = field(default_factory=lambda: _NO_OBJECTS, repr=False)
    deadline: float = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """The volume has `size` bytes now; `by_nodes`: a node that has it mounted has something to do, too."""

    size: int
    by_nodes: bool = True


ProvisionerRequest = Provision | DeleteVolume | GrowVolume


class Provisioner(Protocol):
    """Makes volumes for the classes whose `provisioner` it serves. May be called on any thread, and at once.

    An error says what is left: OperationError nothing, so that the volume may be forgotten; UncertainError perhaps
    something, so that the same call comes again; TransientError that nothing has changed, and what it waits for.
    """

    def serves(self, provisioner: str) -> bool:
        """Say whether it makes volumes for classes with this provisioner now; must not block."""
        ...

    def references(self, request: ProvisionerRequest) -> tuple[ObjectRef, ...]:
        """Name the objects (Secrets) that a call needs: it is handed those that there are; raises SpecError; pure."""
        ...

    def provision(self, request: Provision, host: Host) -> Provisioned:
        """Make a volume."""
        ...

    def delete(self, request: DeleteVolume, host: Host) -> None:
        """Delete a volume."""
        ...

    def grow(self, request: GrowVolume, host: Host) -> Grown:
        """Give a volume more room."""
        ...

    def strangers(self, provisioner: str, known: frozenset[str], host: Host, deadline: float) -> tuple[str, ...]:
        """Name volumes that the storage has and that look made by a `provision`, but are of no volume in `known`.

        `known` has the names of PersistentVolumes, and the texts of their sources: one of them names each in the
        storage. Asked when somebody looks for orphans; nothing is deleted for that.
        """
        ...
