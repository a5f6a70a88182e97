"""What one in-tree type is to CSI: its driver, what its manifests say of a volume, and both ways. Pure.

Sources of fact: `csi-translation-lib` 0.37.2 for what becomes of a volume, and the API's own validation for what must
be given at all. Mappings are written as the API writes them: what is empty is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

from volmgr.errors import SpecError
from volmgr.model.driver_sources import CSI_FIELD, CsiSource
from volmgr.model.meta import ObjectMeta
from volmgr.model.schema import Unknown, describe, typed_source
from volmgr.model.volume import PersistentVolume

T = TypeVar("T")
Source = Mapping[str, object]

PARTITION = "partition"
"""The attribute of a CSI volume with the number of its partition."""
_MOST_PARTITIONS = 255
_NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_NO_SECRETS: Source = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolumeSource:
    """A source as it is declared in a Pod: of which of its volumes, and in which namespace."""

    source: Source
    volume: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioning:
    """What a StorageClass says that another driver reads otherwise."""

    provisioner: str
    parameters: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    allowed_topologies: tuple[Source, ...] = ()
    """As in the manifest: terms with `matchLabelExpressions`."""


def _as_it_is(handle: str, node_id: str) -> str:
    del node_id
    return handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """One in-tree type, and how it is said in CSI. Each function raises SpecError, which names the field."""

    driver: str
    source: type[Any]
    """The dataclass that a source is read into, in a Pod or a PersistentVolume."""
    inline: Callable[[PodVolumeSource], PersistentVolume]
    to_csi: Callable[[PersistentVolume], PersistentVolume]
    to_in_tree: Callable[[PersistentVolume], PersistentVolume]
    provisioning: Callable[[Provisioning], Provisioning]
    repaired_handle: Callable[[str, str], str] = _as_it_is
    """Completes a volume's handle by what a node's id says; takes both."""


def read_name(value: object) -> str:
    """Read a text by which the storage is known; raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{describe(value)} where a text is needed; put it in quotes")  # noqa: TRY004 - schemas read it
    if not value:
        raise ValueError("is empty; name the storage")
    return value


def read_partition(value: object) -> int:
    """Read the number of a partition, 0 for the whole disk; raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{describe(value)} where a number is needed; write it without quotes")  # noqa: TRY004 - as above
    if not 0 <= value <= _MOST_PARTITIONS:
        raise ValueError(f"{value} is no partition; write a number from 0, the whole disk, to {_MOST_PARTITIONS}")
    return value


NAME: Mapping[str, object] = {"read": read_name}
"""The metadata of a field by which the storage is known: it is needed."""


def read(cls: type[T], source: Source) -> T:
    """Read a source; raises SchemaError (a SpecError) with every field that is wrong."""
    return typed_source(cls, source, unknown=Unknown.ALLOW)


def read_csi(pv: PersistentVolume) -> CsiSource:
    """Read the source of a PersistentVolume of `csi`; raises SpecError."""
    if pv.type != CSI_FIELD:
        raise SpecError(f"PersistentVolume {pv.metadata.name} is of type {pv.type!r}; only one of csi is led back")
    source = read(CsiSource, pv.source)
    if not source.volume_handle:
        raise SpecError("volumeHandle: is missing; name the storage")
    return source


def partition_of(source: CsiSource) -> int:
    """Give the partition that an attribute names; raises SpecError."""
    text = source.volume_attributes.get(PARTITION, "")
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()):
        raise SpecError(f"volumeAttributes.{PARTITION}: {text!r} is no number; write that of the partition")
    number = int(text)
    if not -(2**31) <= number < 2**31:
        raise SpecError(f"volumeAttributes.{PARTITION}: {text} is too large; write the number of the partition")
    return number


def secret(name: str, namespace: str) -> Source:
    """Write a reference to a Secret."""
    return compact(name=name, namespace=namespace)


def compact(**fields: object) -> dict[str, object]:
    """Write fields, by their names on the wire, as the API does: what is empty is left out, but not an empty mapping.

    That is because what is optional and a mapping is a reference, which may say nothing and still be there.
    """
    return {name: value for name, value in fields.items() if value or isinstance(value, Mapping)}


def csi_volume(
    pv: PersistentVolume,
    driver: str,
    handle: str,
    *,
    fs_type: str = "",
    read_only: bool = False,
    attributes: Mapping[str, str] = _NO_TEXTS,
    secrets: Source = _NO_SECRETS,
) -> PersistentVolume:
    """Give a PersistentVolume that is otherwise the same as one of `csi`; `secrets` are references, by their fields."""
    source = {
        "driver": driver,
        "volumeHandle": handle,
        **compact(readOnly=read_only, fsType=fs_type, volumeAttributes=dict(attributes) or None),
        **secrets,
    }
    return replace(pv, type=CSI_FIELD, source=source)


def of_pod(name: str, *access_modes: str) -> PersistentVolume:
    """Give the PersistentVolume, still without a source, that stands for a volume that is declared in a Pod."""
    return PersistentVolume(metadata=ObjectMeta(name=name, namespace=""), access_modes=access_modes, inline=True)
