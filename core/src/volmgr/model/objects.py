"""The other Kubernetes objects, as far as volumes need them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from volmgr.model.meta import ObjectMeta, ObjectRef
from volmgr.model.pod import Pod
from volmgr.model.quantity import Quantity
from volmgr.model.volume import PersistentVolume, VolumeMode

_NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_NO_BYTES: Mapping[str, bytes] = MappingProxyType({})
_NO_QUANTITIES: Mapping[str, Quantity] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolumeClaim:
    """A claim on storage."""

    metadata: ObjectMeta
    access_modes: tuple[str, ...] = ()
    volume_name: str = ""
    volume_mode: VolumeMode = VolumeMode.FILESYSTEM
    storage_class_name: str | None = None
    requests: Mapping[str, Quantity] = field(default_factory=lambda: _NO_QUANTITIES)
    selector: Mapping[str, object] | None = None
    phase: str = ""
    message: str = ""
    """Why it is in this phase, when that is worth knowing."""
    is_awaited: bool = False
    """It is pending, and nothing is wrong: which volume it gets is not known yet, or that is being made."""
    data_source: str = ""
    """What its volume is to be filled with when it is made (`VolumeSnapshot/today`), if with anything."""
    status_capacity: Mapping[str, Quantity] = field(default_factory=lambda: _NO_QUANTITIES)
    resize_status: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    """How far growing it has come, by resource (`status.allocatedResourceStatuses`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigMap:
    """Configuration by key."""

    metadata: ObjectMeta
    data: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    binary_data: Mapping[str, bytes] = field(default_factory=lambda: _NO_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Secret bytes by key; never printed, logged or recorded."""

    metadata: ObjectMeta
    type: str = "Opaque"
    data: Mapping[str, bytes] = field(default_factory=lambda: _NO_BYTES, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    """The identity a Pod runs under."""

    metadata: ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTrustBundle:
    """Certificates to trust, PEM; `signer_name` says whose, if anybody's."""

    metadata: ObjectMeta
    signer_name: str = ""
    trust_bundle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """How claims of one class are provisioned."""

    metadata: ObjectMeta
    provisioner: str = ""
    parameters: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    reclaim_policy: str = "Delete"
    mount_options: tuple[str, ...] = ()
    allow_volume_expansion: bool = False
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[Mapping[str, object], ...] = ()
    """Where volumes may be made: as in the API, any of these terms (`matchLabelExpressions`), none is anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A service account token that a CSI driver asks for."""

    audience: str = ""
    expiration_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CSIDriver:
    """What a CSI driver says of itself to the cluster."""

    metadata: ObjectMeta
    attach_required: bool = True
    pod_info_on_mount: bool = False
    fs_group_policy: str = "ReadWriteOnceWithFSType"
    volume_lifecycle_modes: tuple[str, ...] = ("Persistent",)
    requires_republish: bool = False
    se_linux_mount: bool = False
    token_requests: tuple[TokenRequest, ...] = ()
    service_account_token_in_secrets: bool = False
    """Tokens reach the driver among its secrets, and not among the volume's attributes."""
    node_allocatable_update_period_seconds: int | None = None
    """How often the driver is asked anew how many volumes a node takes; None: when it registers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeAttachment:
    """What a driver's controller says of attaching a PersistentVolume to a node.

    `attached` and what follows is its status: only that of an API server counts. `error_code` is gRPC's, if known.
    """

    metadata: ObjectMeta
    attacher: str = ""
    node_name: str = ""
    pv_name: str = ""
    """The PersistentVolume; empty for one that is declared in a Pod."""
    attached: bool = False
    attachment_metadata: Mapping[str, str] = field(default_factory=lambda: _NO_TEXTS)
    """What the driver wants to be told when it is mounted (`publish_context`)."""
    attach_error: str = ""
    error_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedVolume:
    """One entry of a node's `status.volumesAttached`."""

    name: str
    device_path: str = ""


MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"
"""The annotation by which a Node says that a controller attaches its volumes; kubelet's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node itself: labels for affinity, allocatable amounts, attached volumes."""

    metadata: ObjectMeta
    allocatable: Mapping[str, Quantity] = field(default_factory=lambda: _NO_QUANTITIES)
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()


Object = (
    Pod
    | PersistentVolume
    | PersistentVolumeClaim
    | ConfigMap
    | Secret
    | ServiceAccount
    | ClusterTrustBundle
    | StorageClass
    | CSIDriver
    | VolumeAttachment
    | Node
)

CLUSTER_WIDE = frozenset(
    {"PersistentVolume", "ClusterTrustBundle", "StorageClass", "CSIDriver", "VolumeAttachment", "Node"}
)


def ref_of(item: Object) -> ObjectRef:
    """Name an object; cluster-wide kinds have an empty namespace."""
    kind = type(item).__name__
    return ObjectRef(kind, "" if kind in CLUSTER_WIDE else item.metadata.namespace, item.metadata.name)
