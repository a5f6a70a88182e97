"""What every Kubernetes object carries: its name, identity and owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerReference:
    """Who owns an object."""

    api_version: str = ""
    kind: str
    name: str
    uid: str
    controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    """Name, identity and owners of an object."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    annotations: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """Names one object of the API; `namespace` is empty for cluster-wide kinds."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def absent(what: str, absence: str) -> str:
    """Say that an object does not exist; `absence` says who would have it, empty: the manifests would."""
    return f"{what} does not exist" + (f": {absence}" if absence else "; add it to the manifests")
