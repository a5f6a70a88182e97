"""What a manifest says of a volume of `csi`: the source that whoever serves a driver reads. Pure.

Source: `CSIVolumeSource` and `CSIPersistentVolumeSource` of the API of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

CSI_FIELD = "csi"
"""The field of a Pod volume or PersistentVolume."""

_NO_TEXTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    """A Secret; without a namespace it is in the Pod's."""

    name: str = ""
    namespace: str = ""


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
