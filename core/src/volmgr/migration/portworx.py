"""portworxVolume: volumes of Portworx, which pxd.portworx.com serves. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from volmgr.migration.translation import (
    NAME,
    PodVolumeSource,
    Provisioning,
    Translation,
    compact,
    csi_volume,
    of_pod,
    read,
    read_csi,
    secret,
)
from volmgr.model.volume import PersistentVolume

_DRIVER = "pxd.portworx.com"
_SECRET_NAME = "openstorage.io/auth-secret-name"  # noqa: S105 - the name of an annotation
_SECRET_NAMESPACE = "openstorage.io/auth-secret-namespace"  # noqa: S105 - as above
"""Annotations of a PersistentVolume, and parameters of a StorageClass."""
_SECRET_REFS = (
    "controllerPublishSecretRef",
    "nodeStageSecretRef",
    "nodePublishSecretRef",
    "controllerExpandSecretRef",
    "nodeExpandSecretRef",
)
_CALLS = ("provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand", "node-expand")
"""Calls for which a StorageClass may name a Secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortworxSource:
    """`portworxVolume` of a Pod volume or a PersistentVolume."""

    volume_id: str = field(metadata={"name": "volumeID", **NAME})
    fs_type: str = ""
    read_only: bool = False
    """Says how a Pod's volume is attached; of a PersistentVolume, its claim does."""


def _inline(declared: PodVolumeSource) -> PersistentVolume:
    source = read(PortworxSource, declared.source)
    pv = of_pod(f"{_DRIVER}-{source.volume_id}", "ReadOnlyMany" if source.read_only else "ReadWriteOnce")
    return csi_volume(pv, _DRIVER, source.volume_id, fs_type=source.fs_type)


def _to_csi(pv: PersistentVolume) -> PersistentVolume:
    source = read(PortworxSource, pv.source)
    annotations = pv.metadata.annotations
    secrets: dict[str, object] = {}
    if _SECRET_NAME in annotations and _SECRET_NAMESPACE in annotations:
        reference = secret(annotations[_SECRET_NAME], annotations[_SECRET_NAMESPACE])
        secrets = dict.fromkeys(_SECRET_REFS, reference)
    return csi_volume(pv, _DRIVER, source.volume_id, fs_type=source.fs_type, secrets=secrets)


def _to_in_tree(pv: PersistentVolume) -> PersistentVolume:
    source = read_csi(pv)
    written = {"volumeID": source.volume_handle, **compact(fsType=source.fs_type, readOnly=source.read_only)}
    return replace(pv, type="portworxVolume", source=written)


def _provisioning(given: Provisioning) -> Provisioning:
    named = {name: value for key, value in given.parameters.items() for name in _parameters(key)}
    return replace(given, provisioner=_DRIVER, parameters=named)


def _parameters(key: str) -> Iterator[str]:
    """Give the names that a parameter is given by: that of a Secret, for each call."""
    part = {_SECRET_NAME: "secret-name", _SECRET_NAMESPACE: "secret-namespace"}.get(key.lower())
    if part is None:
        yield key
    else:
        yield from (f"csi.storage.k8s.io/{call}-{part}" for call in _CALLS)


PORTWORX = Translation(
    driver=_DRIVER,
    source=PortworxSource,
    inline=_inline,
    to_csi=_to_csi,
    to_in_tree=_to_in_tree,
    provisioning=_provisioning,
)
