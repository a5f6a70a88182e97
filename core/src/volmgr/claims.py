"""From a Pod's claim to the persistent volume behind it, with kubelet's checks and messages. Pure.

Source: `behaviours.md` §2.2, which is `desired_state_of_world_populator.go` of kubelet 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from volmgr.errors import OperationError, SpecError
from volmgr.host.mount_options import split_options
from volmgr.model.growth import NODE_RESIZES
from volmgr.model.meta import ObjectMeta, ObjectRef, absent
from volmgr.model.objects import PersistentVolumeClaim
from volmgr.model.selectors import matches_node
from volmgr.model.volume import PersistentVolume, VolumeMode

if TYPE_CHECKING:
    from volmgr.model.objects import Node, Object
    from volmgr.model.pod import Pod, PodVolume

CLAIM_FIELDS = frozenset({"persistentVolumeClaim", "ephemeral"})
"""The fields of a Pod volume that name a claim instead of storage."""
PROTECTION = "kubernetes.io/pvc-protection"
"""The finalizer under which a claim that is being deleted may still be used."""
GROUP = "pv.beta.kubernetes.io/gid"
"""The annotation of a volume whose value is a group that its files belong to."""
MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
"""The annotation of a volume with its mount options, from before its spec had a field for them; it wins."""
NO_NODE_EXPANSION = "volume.kubernetes.io/node-expansion-not-required"
"""The annotation of a claim whose volume needs nothing done on the nodes when it grows."""
BOUND = "Bound"
"""The phase of a claim that has its volume."""


class AwaitedError(OperationError):
    """What a volume is cannot be said yet: it is not known whether an object is there."""


class UnboundError(OperationError):
    """A claim has no volume."""

    def __init__(self, message: str, claim: PersistentVolumeClaim) -> None:
        super().__init__(message)
        self.claim = claim


class Objects(Protocol):
    """Looks objects up by reference."""

    def get(self, ref: ObjectRef, /) -> Object | None:
        """Give an object, or None."""
        ...

    def awaited(self, ref: ObjectRef, /) -> str:
        """Say why it is not known whether there is an object; empty when it is."""
        ...

    def absence(self, ref: ObjectRef, /) -> str:
        """Say who would have an object that is missing; empty: the manifests would."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A claim and the volume behind it."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    read_only: bool


def grows_here(claim: PersistentVolumeClaim, size: int) -> bool:
    """Say whether the node's part in growing a claim's volume to `size` bytes is still to be done, and due.

    Kubelet's pre-check (`behaviours.md` §2.13), but that a claim of which nobody keeps a status is grown.
    """
    status = claim.resize_status.get("storage", "")
    if status:
        return status in NODE_RESIZES
    if not is_grown(claim, size):
        return True
    return "ReadWriteMany" in claim.access_modes and NO_NODE_EXPANSION not in claim.metadata.annotations


def is_grown(claim: PersistentVolumeClaim, size: int) -> bool:
    """Say whether a claim's status says that its volume has `size` bytes, and that nobody is still to do anything."""
    capacity = claim.status_capacity.get("storage")
    return not claim.resize_status.get("storage") and capacity is not None and capacity.to_int() >= size


def claim_ref(pod: Pod, volume: PodVolume) -> ObjectRef:
    """Name the claim that a Pod volume of one of `CLAIM_FIELDS` stands for."""
    if volume.type == "ephemeral":
        return ObjectRef("PersistentVolumeClaim", pod.metadata.namespace, f"{pod.metadata.name}-{volume.name}")
    return ObjectRef("PersistentVolumeClaim", pod.metadata.namespace, str(volume.source.get("claimName", "")))


def resolve(pod: Pod, volume: PodVolume, objects: Objects) -> Bound:
    """Follow a claim to its volume; raises OperationError or SpecError saying what is wrong with it.

    AwaitedError when one of them is not known yet.
    """
    ref = claim_ref(pod, volume)
    claim = objects.get(ref)
    if not isinstance(claim, PersistentVolumeClaim):
        raise _lack(ref, str(ref), objects)
    _check_claim(pod, volume, claim)
    pv_ref = ObjectRef("PersistentVolume", "", claim.volume_name)
    pv = objects.get(pv_ref)
    if not isinstance(pv, PersistentVolume):
        raise _lack(pv_ref, f"{pv_ref}, to which {ref} is bound,", objects)
    _check_binding(pv, claim, ref)
    return Bound(claim=claim, volume=pv, read_only=volume.source.get("readOnly") is True)


def _lack(ref: ObjectRef, what: str, objects: Objects) -> OperationError:
    """Give the error for an object that is not there, or not known yet."""
    check_known(ref, objects)
    return OperationError(absent(what, objects.absence(ref)))


def check_known(ref: ObjectRef, objects: Objects) -> None:
    """Raise AwaitedError for an object of which it is not known whether it is there."""
    why = objects.awaited(ref)
    if why:
        raise AwaitedError(f"{ref}: {why}")


def _check_claim(pod: Pod, volume: PodVolume, claim: PersistentVolumeClaim) -> None:
    meta = claim.metadata
    if volume.type == "ephemeral" and not _is_controlled_by(meta, pod):
        message = f"PVC {meta.namespace}/{meta.name} was not created for pod {pod.key} (pod is not owner)"
        raise OperationError(message)
    if meta.deletion_timestamp and PROTECTION not in meta.finalizers:
        message = f"PVC {meta.namespace}/{meta.name}: PVC is being deleted"
        raise OperationError(message)
    if claim.phase and claim.phase != BOUND:
        why = claim.message or "its phase is " + claim.phase
        message = f"PVC {meta.namespace}/{meta.name}: PVC is not bound: {why}"
        raise AwaitedError(message) if claim.is_awaited else UnboundError(message, claim)
    if not claim.volume_name:
        message = f"PVC {meta.namespace}/{meta.name}: PVC has empty pvc.Spec.VolumeName; name a PersistentVolume there"
        raise OperationError(message)


def _is_controlled_by(meta: ObjectMeta, pod: Pod) -> bool:
    return any(owner.controller and owner.uid == pod.uid for owner in meta.owner_references)


def _check_binding(pv: PersistentVolume, claim: PersistentVolumeClaim, ref: ObjectRef) -> None:
    owner = pv.claim_ref
    if owner is None:
        return
    if (owner.namespace, owner.name) != (ref.namespace, ref.name):
        message = f"PersistentVolume {pv.metadata.name} belongs to claim {owner.namespace}/{owner.name}, not to {ref}"
        raise OperationError(message)
    if owner.uid and claim.metadata.uid and owner.uid != claim.metadata.uid:
        message = f"PersistentVolume {pv.metadata.name}: claimRef UID {owner.uid} is not the UID of {ref}"
        raise OperationError(message)


def check_mode(name: str, mode: VolumeMode, *, mounted: bool, mapped: bool) -> None:
    """Refuse a volume whose mode contradicts how the containers use it; raises SpecError."""
    if mounted and mode is VolumeMode.BLOCK:
        message = f"volume {name} has volumeMode Block, but is specified in volumeMounts"
        raise SpecError(message)
    if mapped and mode is VolumeMode.FILESYSTEM:
        message = f"volume {name} has volumeMode Filesystem, but is specified in volumeDevices"
        raise SpecError(message)


def check_node(pv: PersistentVolume, node: Node | None) -> None:
    """Refuse a volume that this node must not use; unchecked while the node is unknown. Raises OperationError."""
    if node is not None and not matches_node(pv.node_affinity, node):
        message = f"PersistentVolume {pv.metadata.name}: its nodeAffinity does not match node {node.metadata.name}"
        raise OperationError(message)


def mount_options(pv: PersistentVolume) -> tuple[str, ...]:
    """Give the mount options of a volume, sorted, each once: those of its old annotation instead of its spec's.

    Several may be written as one, as in `ro,noatime`.
    """
    annotated = pv.metadata.annotations.get(MOUNT_OPTIONS)
    given = split_options(pv.mount_options if annotated is None else (annotated,))
    return tuple(sorted({option.strip() for option in given} - {""}))


def extra_group(pod: Pod, pv: PersistentVolume) -> int | None:
    """Give the supplemental group that a volume's annotation adds to a Pod's processes (behaviours §2.2).

    None when there is none, when it is no number, or when the Pod has it already.
    """
    text = pv.metadata.annotations.get(GROUP, "")
    if not (text.isascii() and text.isdigit()):
        return None
    return None if int(text) in pod.spec.security_context.supplemental_groups else int(text)
