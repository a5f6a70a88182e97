"""From a Pod's claim to the persistent volume behind it, with kubelet's checks and messages. Pure.

Source: `behaviours.md` §2.2, which is `desired_state_of_world_populator.go` of kubelet 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from volmgr.errors import OperationError, SpecError
from volmgr.model.meta import ObjectMeta, ObjectRef
from volmgr.model.objects import PersistentVolumeClaim
from volmgr.model.volume import PersistentVolume, VolumeMode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from volmgr.model.objects import Node, Object
    from volmgr.model.pod import Pod, PodVolume

PROTECTION = "kubernetes.io/pvc-protection"
"""The finalizer under which a claim that is being deleted may still be used."""


class Objects(Protocol):
    """Looks objects up by reference."""

    def get(self, ref: ObjectRef, /) -> Object | None:
        """Give an object, or None."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A claim and the volume behind it."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    read_only: bool


def claim_ref(pod: Pod, volume: PodVolume) -> ObjectRef:
    """Name the claim that a Pod volume of type persistentVolumeClaim or ephemeral stands for."""
    if volume.type == "ephemeral":
        return ObjectRef("PersistentVolumeClaim", pod.metadata.namespace, f"{pod.metadata.name}-{volume.name}")
    return ObjectRef("PersistentVolumeClaim", pod.metadata.namespace, str(volume.source.get("claimName", "")))


def resolve(pod: Pod, volume: PodVolume, objects: Objects) -> Bound:
    """Follow a claim to its volume; raises OperationError or SpecError saying what is wrong with it."""
    ref = claim_ref(pod, volume)
    claim = objects.get(ref)
    if not isinstance(claim, PersistentVolumeClaim):
        message = f"{ref} does not exist; add it to the manifests"
        raise OperationError(message)
    _check_claim(pod, volume, claim)
    pv_ref = ObjectRef("PersistentVolume", "", claim.volume_name)
    pv = objects.get(pv_ref)
    if not isinstance(pv, PersistentVolume):
        message = f"{pv_ref}, to which {ref} is bound, does not exist; add it to the manifests"
        raise OperationError(message)
    _check_binding(pv, claim, ref)
    return Bound(claim=claim, volume=pv, read_only=volume.source.get("readOnly") is True)


def _check_claim(pod: Pod, volume: PodVolume, claim: PersistentVolumeClaim) -> None:
    meta = claim.metadata
    if volume.type == "ephemeral" and not _is_controlled_by(meta, pod):
        message = f"PVC {meta.namespace}/{meta.name} was not created for pod {pod.key} (pod is not owner)"
        raise OperationError(message)
    if meta.deletion_timestamp and PROTECTION not in meta.finalizers:
        message = f"PVC {meta.namespace}/{meta.name}: PVC is being deleted"
        raise OperationError(message)
    if not claim.volume_name:
        message = f"PVC {meta.namespace}/{meta.name}: PVC is not bound; set spec.volumeName to a PersistentVolume"
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
    if node is None or pv.node_affinity is None:
        return
    required = _mapping(pv.node_affinity.get("required"))
    if "nodeSelectorTerms" not in required:
        return
    if not any(_term_matches(_mapping(term), node) for term in _items(required["nodeSelectorTerms"])):
        message = f"PersistentVolume {pv.metadata.name}: its nodeAffinity does not match node {node.metadata.name}"
        raise OperationError(message)


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _items(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list) else ()


def _term_matches(term: Mapping[str, object], node: Node) -> bool:
    expressions = _items(term.get("matchExpressions"))
    fields = _items(term.get("matchFields"))
    if not expressions and not fields:
        return False
    named = {"metadata.name": node.metadata.name}
    return all(_matches(_mapping(item), node.metadata.labels) for item in expressions) and all(
        _matches(_mapping(item), named) for item in fields
    )


def _matches(requirement: Mapping[str, object], values: Mapping[str, str]) -> bool:
    key, operator = str(requirement.get("key", "")), requirement.get("operator")
    given = values.get(key)
    texts = [str(value) for value in _items(requirement.get("values"))]
    match operator:
        case "In":
            return given in texts
        case "NotIn":
            return given not in texts
        case "Exists":
            return given is not None
        case "DoesNotExist":
            return given is None
        case "Gt" | "Lt" if given is not None and texts:
            return _compare(given, texts[0], greater=operator == "Gt")
        case _:
            return False


def _compare(given: str, bound: str, *, greater: bool) -> bool:
    try:
        return int(given) > int(bound) if greater else int(given) < int(bound)
    except ValueError:
        return False
