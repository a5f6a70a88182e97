"""What a manifest says of a volume of `csi` or `flexVolume`: the source that whoever serves a driver reads. Pure.

Source: `CSIVolumeSource`, `CSIPersistentVolumeSource`, `FlexVolumeSource` and `FlexPersistentVolumeSource` of the API
of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from volmgr.model.meta import ObjectRef

CSI_FIELD = "csi"
FLEX_FIELD = "flexVolume"
"""The fields of a Pod volume or PersistentVolume that name a driver."""

_NO_TEXTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    """A Secret; without a namespace it is in the Pod's."""

    name: str = ""
    namespace: str = ""


def secrets_of(source: object) -> set[ObjectRef]:
    """Name the Secrets that a source of whatever type refers to with a namespace."""
    if not is_dataclass(source):
        return set()
    values = (getattr(source, each.name) for each in fields(source))
    found = (value for value in values if isinstance(value, SecretReference) and value.name and value.namespace)
    return {ObjectRef("Secret", reference.namespace, reference.name) for reference in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiSource:
    """`csi` of a PersistentVolume, and of a Pod volume (ephemeral), which has no handle and one Secret at most."""

    driver: str
    volume_handle: str = ""
    fs_type: str = ""
    read_only: bool = False
    volume_attributes: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlexVolumeSource:
    """`flexVolume`: a driver's name, and what only the driver understands."""

    driver: str
    fs_type: str = ""
    secret_ref: SecretReference | None = None
    read_only: bool = False
    options: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)


STANDARD: Mapping[str, type[Any]] = {CSI_FIELD: CsiSource, FLEX_FIELD: FlexVolumeSource}
"""What is read of a volume whose class names no source of its own, by field."""
