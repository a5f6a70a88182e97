"""One Kubernetes object: plain data to the noun of its kind. Pure.

The dataclasses here are the structure on the wire where it differs from the model's. `status` does not count,
except a Pod's phase and a Node's allocatable amounts, unless `status` says that an API server keeps it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar, cast

from volmgr.manifest.pods import read_pod
from volmgr.manifest.volumes import PV_FIELDS, NoTypes, SourceTypes, read_source
from volmgr.model.meta import ObjectMeta
from volmgr.model.names import is_bundle, is_label, is_subdomain, is_uid
from volmgr.model.objects import (
    CLUSTER_WIDE,
    AttachedVolume,
    ClusterTrustBundle,
    ConfigMap,
    CSIDriver,
    Node,
    Object,
    PersistentVolumeClaim,
    Secret,
    ServiceAccount,
    StorageClass,
    TokenRequest,
    VolumeAttachment,
)
from volmgr.model.quantity import Quantity
from volmgr.model.schema import Problem, SchemaError, Unknown, load, read_base64
from volmgr.model.volume import ClaimRef, ClaimSpec, PersistentVolume, VolumeMode

GROUPS: Mapping[str, str] = {
    "Pod": "",
    "PersistentVolume": "",
    "PersistentVolumeClaim": "",
    "ConfigMap": "",
    "Secret": "",
    "ServiceAccount": "",
    "Node": "",
    "ClusterTrustBundle": "certificates.k8s.io",
    "StorageClass": "storage.k8s.io",
    "CSIDriver": "storage.k8s.io",
    "VolumeAttachment": "storage.k8s.io",
}
"""The kinds that volumes need, and the API group of each."""

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


_Amounts = Mapping[str, Quantity]


def _no_amounts() -> _Amounts:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _How:
    """How to read: which types are installed, what becomes of unknown fields, and whether `status` counts."""

    types: SourceTypes
    unknown: Unknown
    status: bool


_Document = Mapping[str, object]


def read_object(
    document: _Document,
    types: SourceTypes | None = None,
    *,
    unknown: Unknown = Unknown.MARKED,
    status: bool = False,
) -> Object:
    """Read an object of one of the kinds of `GROUPS`; raises SchemaError with every problem.

    `unknown=ALLOW` is for objects that were accepted before (records) or by an API server: only names that could
    lead out of our directories are refused then.
    """
    how = _How(types or NoTypes(), unknown, status)
    kind = str(document.get("kind"))
    if kind == "Pod":
        return read_pod(document, how.types, unknown, status=status)
    item = _READERS[kind](document, how)
    problems = list(_name_problems(kind, item.metadata))
    if problems:
        raise SchemaError(problems)
    return item


def _name_problems(kind: str, metadata: ObjectMeta) -> list[Problem]:
    problems: list[Problem] = []
    if not (is_bundle(metadata.name) if kind == "ClusterTrustBundle" else is_subdomain(metadata.name)):
        remedy = "write lower-case letters, digits, '-' and '.'"
        problems.append(Problem("metadata.name", f"{metadata.name[:80]!r} is no valid name", remedy))
    if kind not in CLUSTER_WIDE and not is_label(metadata.namespace):
        remedy = "write lower-case letters, digits and '-'"
        problems.append(Problem("metadata.namespace", f"{metadata.namespace[:80]!r} is no valid name", remedy))
    if metadata.uid and not is_uid(metadata.uid):
        remedy = "leave it out, or write letters, digits and '-'"
        problems.append(Problem("metadata.uid", f"{metadata.uid[:80]!r} is no valid UID", remedy))
    return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class _VolumeStatus:
    phase: str = ""
    capacity: _Amounts = field(default_factory=_no_amounts)
    allocated_resource_statuses: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _PersistentVolumeSpec:
    capacity: _Amounts = field(default_factory=_no_amounts)
    access_modes: tuple[str, ...] = ()
    volume_mode: VolumeMode = VolumeMode.FILESYSTEM
    mount_options: tuple[str, ...] = ()
    claim_ref: ClaimRef | None = None
    storage_class_name: str = ""
    reclaim_policy: str = field(default="Retain", metadata={"name": "persistentVolumeReclaimPolicy"})
    node_affinity: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PersistentVolume:
    metadata: ObjectMeta
    spec: _PersistentVolumeSpec


RECLAIM_POLICIES = ("Retain", "Delete", "Recycle")
"""What may become of a volume whose claim is gone; the last two are somebody else's to do."""

_PV_OWN = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)
"""The fields of a PersistentVolume's spec that name no volume type."""


def _persistent_volume(document: _Document, how: _How) -> PersistentVolume:
    wire = load(_PersistentVolume, document, unknown=how.unknown)
    fields = cast("dict[str, object]", document["spec"])
    sources = [name for name in fields if fields[name] is not None and (name in PV_FIELDS or how.types.known(name))]
    if not sources and how.unknown is Unknown.ALLOW:
        sources = [name for name in fields if name not in _PV_OWN and isinstance(fields[name], Mapping)]
        sources = sources[:1]  # an accepted one whose type was known once
    if len(sources) != 1:
        found = f"has the sources {' and '.join(sources)}" if sources else "names no volume type"
        raise SchemaError([Problem("spec", found, _source_remedy(fields, how.types, found=bool(sources)))])
    policy = wire.spec.reclaim_policy
    if policy not in RECLAIM_POLICIES and how.unknown is not Unknown.ALLOW:
        remedy = f"write one of {', '.join(RECLAIM_POLICIES)}"
        raise SchemaError([Problem("spec.persistentVolumeReclaimPolicy", f"{policy[:40]!r} is no choice here", remedy)])
    source = read_source(sources[0], fields[sources[0]], how.types, how.unknown, f"spec.{sources[0]}")
    spec = wire.spec
    return PersistentVolume(
        metadata=wire.metadata,
        type=sources[0],
        source=source,
        capacity=spec.capacity,
        access_modes=spec.access_modes,
        volume_mode=spec.volume_mode,
        mount_options=spec.mount_options,
        claim_ref=spec.claim_ref,
        storage_class_name=spec.storage_class_name,
        reclaim_policy=spec.reclaim_policy,
        node_affinity=spec.node_affinity,
        phase=_status(document, _VolumeStatus, how).phase,
    )


def _source_remedy(fields: Mapping[str, object], types: SourceTypes, *, found: bool) -> str:
    """Say what to write where there is not just one source: that of a broken package looks like none."""
    strangers = () if found else sorted(fields.keys() - _PV_OWN)
    repair = next((text for field in strangers if (text := types.repair(field))), "")
    other = types.repair("") if strangers else ""
    return repair or _meant(fields, PV_FIELDS) or other or "write exactly one source, such as nfs or csi"


def _meant(fields: Mapping[str, object], known: frozenset[str]) -> str:
    """Name the known source that an unknown field was probably meant to be."""
    for name in fields.keys() - _PV_OWN:
        near = difflib.get_close_matches(name, known, n=1)
        if near and near[0] != name:
            return f"{name}: did you mean {near[0]}?"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    metadata: ObjectMeta
    spec: ClaimSpec


def _claim(document: _Document, how: _How) -> PersistentVolumeClaim:
    wire = load(_Claim, document, unknown=how.unknown)
    known = _status(document, _VolumeStatus, how)
    return PersistentVolumeClaim(
        metadata=wire.metadata,
        access_modes=wire.spec.access_modes,
        volume_name=wire.spec.volume_name,
        volume_mode=wire.spec.volume_mode,
        storage_class_name=wire.spec.storage_class_name,
        requests=wire.spec.resources.requests,
        selector=wire.spec.selector,
        data_source=wire.spec.content,
        phase=known.phase,
        status_capacity=known.capacity,
        resize_status=known.allocated_resource_statuses,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DriverSpec:
    attach_required: bool = True
    pod_info_on_mount: bool = False
    fs_group_policy: str = "ReadWriteOnceWithFSType"
    volume_lifecycle_modes: tuple[str, ...] = ("Persistent",)
    requires_republish: bool = False
    se_linux_mount: bool = False
    token_requests: tuple[TokenRequest, ...] = ()
    service_account_token_in_secrets: bool = False
    node_allocatable_update_period_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Driver:
    metadata: ObjectMeta
    spec: _DriverSpec


def _driver(document: _Document, how: _How) -> CSIDriver:
    wire = load(_Driver, document, unknown=how.unknown)
    spec = wire.spec
    return CSIDriver(
        metadata=wire.metadata,
        attach_required=spec.attach_required,
        pod_info_on_mount=spec.pod_info_on_mount,
        fs_group_policy=spec.fs_group_policy,
        volume_lifecycle_modes=spec.volume_lifecycle_modes,
        requires_republish=spec.requires_republish,
        se_linux_mount=spec.se_linux_mount,
        token_requests=spec.token_requests,
        service_account_token_in_secrets=spec.service_account_token_in_secrets,
        node_allocatable_update_period_seconds=spec.node_allocatable_update_period_seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AttachmentSource:
    persistent_volume_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _AttachmentSpec:
    attacher: str
    node_name: str
    source: _AttachmentSource


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attachment:
    metadata: ObjectMeta
    spec: _AttachmentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class _AttachError:
    message: str = ""
    error_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _AttachmentStatus:
    attached: bool = False
    attachment_metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    attach_error: _AttachError = field(default_factory=_AttachError)


def _attachment(document: _Document, how: _How) -> VolumeAttachment:
    wire = load(_Attachment, document, unknown=how.unknown)
    known = _status(document, _AttachmentStatus, how)
    return VolumeAttachment(
        metadata=wire.metadata,
        attacher=wire.spec.attacher,
        node_name=wire.spec.node_name,
        pv_name=wire.spec.source.persistent_volume_name,
        attached=known.attached,
        attachment_metadata=known.attachment_metadata,
        attach_error=known.attach_error.message,
        error_code=known.attach_error.error_code,
    )


def _secret_bytes(value: object) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    for key, entry in _secret_members(value):
        try:
            found[key] = read_base64(entry)
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from None
    return found


def _secret_texts(value: object) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    for key, entry in _secret_members(value):
        if not isinstance(entry, str):
            raise ValueError(f"{key}: not a text; put it in quotes")  # noqa: TRY004 - a message must not show the value
        found[key] = entry.encode()
    return found


def _secret_members(value: object) -> list[tuple[str, object]]:
    if not isinstance(value, Mapping):
        raise ValueError("not a mapping; write `key: value` lines below it")  # noqa: TRY004 - as above
    return [(str(key), entry) for key, entry in cast("Mapping[object, object]", value).items() if entry is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Secret:
    metadata: ObjectMeta
    type: str = "Opaque"
    data: Mapping[str, bytes] = field(default_factory=dict[str, bytes], metadata={"read": _secret_bytes}, repr=False)
    string_data: Mapping[str, bytes] = field(
        default_factory=dict[str, bytes], metadata={"read": _secret_texts}, repr=False
    )


def _secret(document: _Document, how: _How) -> Secret:
    wire = load(_Secret, document, unknown=how.unknown)
    kept = {key: text for key, text in wire.metadata.annotations.items() if key != _LAST_APPLIED}
    metadata = replace(wire.metadata, annotations=MappingProxyType(kept))  # that annotation repeats the data
    return Secret(metadata=metadata, type=wire.type, data=MappingProxyType({**wire.data, **wire.string_data}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _BundleSpec:
    signer_name: str = ""
    trust_bundle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bundle:
    metadata: ObjectMeta
    spec: _BundleSpec


def _bundle(document: _Document, how: _How) -> ClusterTrustBundle:
    wire = load(_Bundle, document, unknown=how.unknown)
    return ClusterTrustBundle(
        metadata=wire.metadata, signer_name=wire.spec.signer_name, trust_bundle=wire.spec.trust_bundle
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeStatus:
    allocatable: _Amounts = field(default_factory=_no_amounts)
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    metadata: ObjectMeta
    status: _NodeStatus = field(default_factory=_NodeStatus)


def _node(document: _Document, how: _How) -> Node:
    wire = load(_Node, document, unknown=how.unknown)
    return Node(
        metadata=wire.metadata,
        allocatable=wire.status.allocatable,
        volumes_attached=wire.status.volumes_attached if how.status else (),
        volumes_in_use=wire.status.volumes_in_use if how.status else (),
    )


_S = TypeVar("_S")


def _status(document: _Document, cls: type[_S], how: _How) -> _S:
    value = document.get("status") if how.status else None
    return load(cls, {} if value is None else value, unknown=Unknown.ALLOW, path="status")


_Reader = Callable[[_Document, _How], Object]


def _as_it_is(cls: type[Object]) -> _Reader:
    def read(document: _Document, how: _How) -> Object:
        return load(cls, document, unknown=how.unknown)

    return read


_READERS: Mapping[str, _Reader] = {
    "PersistentVolume": _persistent_volume,
    "PersistentVolumeClaim": _claim,
    "ConfigMap": _as_it_is(ConfigMap),
    "Secret": _secret,
    "ServiceAccount": _as_it_is(ServiceAccount),
    "ClusterTrustBundle": _bundle,
    "StorageClass": _as_it_is(StorageClass),
    "CSIDriver": _driver,
    "VolumeAttachment": _attachment,
    "Node": _node,
}
