"""azureFile: shares of Azure, which file.csi.azure.com serves. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from volmgr.errors import SpecError
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

_DRIVER = "file.csi.azure.com"
_SHARE = "sharename"
_SECRET = "secretname"  # noqa: S105 - the name of an attribute
_SECRET_NAMESPACE = "secretnamespace"  # noqa: S105 - as above
"""Attributes that the driver reads."""
_RESOURCE_GROUP = "kubernetes.io/azure-file-resource-group"
"""The annotation of a PersistentVolume."""
_ACCOUNT = re.compile("azure-storage-account-(.+)-secret")
"""What a Secret is called that Kubernetes made for a storage account."""
_DEFAULT_NAMESPACE = "default"
_NEEDED_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureFileSource:
    """`azureFile` of a Pod volume, or of a PersistentVolume, which may name the namespace of its Secret."""

    secret_name: str = field(metadata=NAME)
    share_name: str = field(metadata=NAME)
    read_only: bool = False
    secret_namespace: str | None = None


def _translated(
    pv: PersistentVolume, source: AzureFileSource, *, owner: str, namespace: str, group: str = ""
) -> PersistentVolume:
    handle = _handle(group, source, owner, namespace)
    secrets = {"nodeStageSecretRef": secret(source.secret_name, namespace)}
    attributes = {_SHARE: source.share_name}
    return csi_volume(pv, _DRIVER, handle, read_only=source.read_only, attributes=attributes, secrets=secrets)


def _handle(group: str, source: AzureFileSource, owner: str, namespace: str) -> str:
    """Name a share as it is used here: by whose volume it is, too, since two may have other Secrets."""
    account = _ACCOUNT.search(source.secret_name)
    return "#".join((group, account[1] if account else source.secret_name, source.share_name, owner, namespace))


def _inline(declared: PodVolumeSource) -> PersistentVolume:
    source, owner = read(AzureFileSource, declared.source), declared.volume
    namespace = declared.namespace or _DEFAULT_NAMESPACE
    pv = of_pod(_handle("", source, owner, namespace), "ReadWriteMany")
    return _translated(pv, source, owner=owner, namespace=namespace)


def _to_csi(pv: PersistentVolume) -> PersistentVolume:
    source = read(AzureFileSource, pv.source)
    namespace = source.secret_namespace
    if namespace is None:
        namespace = pv.claim_ref.namespace if pv.claim_ref else ""
    if not namespace:
        raise SpecError("secretNamespace: is missing, and no claim says it; name the namespace of the Secret")
    group = pv.metadata.annotations.get(_RESOURCE_GROUP, "")
    return _translated(pv, source, owner=pv.metadata.name, namespace=namespace, group=group)


def _to_in_tree(pv: PersistentVolume) -> PersistentVolume:
    source = read_csi(pv)
    attributes = {key.lower(): value for key, value in sorted(source.volume_attributes.items())}
    share, name = attributes.get(_SHARE, ""), attributes.get(_SECRET, "")
    namespace = attributes.get(_SECRET_NAMESPACE, _DEFAULT_NAMESPACE)
    if source.node_stage_secret_ref is not None and source.node_stage_secret_ref.name:
        name, namespace = source.node_stage_secret_ref.name, source.node_stage_secret_ref.namespace
    if not share or not name:
        group, account, shared = _parts(source.volume_handle)
        share, name = share or shared, name or f"azure-storage-account-{account}-secret"
        pv = _annotated(pv, group)
    written = {
        "secretName": name,
        "shareName": share,
        **compact(readOnly=source.read_only),
        "secretNamespace": namespace,
    }
    return replace(pv, type="azureFile", source=written)


def _parts(handle: str) -> tuple[str, str, str]:
    """Give the resource group, the storage account and the share that a handle names."""
    parts = handle.split("#")
    if len(parts) < _NEEDED_PARTS:
        raise SpecError(f"volumeHandle: {handle!r} names no share; write GROUP#ACCOUNT#SHARE")
    return parts[0], parts[1], parts[2]


def _annotated(pv: PersistentVolume, group: str) -> PersistentVolume:
    if not group:
        return pv
    return replace(pv, metadata=replace(pv.metadata, annotations={**pv.metadata.annotations, _RESOURCE_GROUP: group}))


def _provisioning(given: Provisioning) -> Provisioning:
    return given


AZURE_FILE = Translation(
    driver=_DRIVER,
    source=AzureFileSource,
    inline=_inline,
    to_csi=_to_csi,
    to_in_tree=_to_in_tree,
    provisioning=_provisioning,
)
