"""Which PersistentVolume fits a claim, by Kubernetes' rules. Pure.

Source: `FindMatchingVolume` and `checkVolumeSatisfyClaim` of kubernetes 1.37 (the binder of the volume controller).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from volmgr.model.selectors import matches_labels, matches_node

if TYPE_CHECKING:
    from volmgr.model.objects import Node, PersistentVolumeClaim, StorageClass
    from volmgr.model.volume import PersistentVolume

CLASS = "volume.beta.kubernetes.io/storage-class"
"""The annotation that named a class before there was a field for it; it wins."""
DEFAULTS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
"""The annotations, `true`, of the class of claims that name none."""
FOR_CONSUMERS = "WaitForFirstConsumer"
"""The volumeBindingMode of a class whose claims get a volume when a Pod uses them."""
UNUSABLE = frozenset({"Released", "Failed"})
"""The phases of a volume that no claim gets."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
"""The provisioner of a class for which nobody makes volumes."""

MAKER = "volume.kubernetes.io/storage-provisioner"
"""The annotation of a claim that waits for a volume to be made: by which provisioner."""
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
"""The annotation of a volume that was made for a claim: by which provisioner."""


def claim_class(claim: PersistentVolumeClaim, default: str) -> str:
    """Give a claim's class; `default` is that of claims that name none, and an empty name is a class, too."""
    annotated = claim.metadata.annotations.get(CLASS)
    if annotated is not None:
        return annotated
    return default if claim.storage_class_name is None else claim.storage_class_name


def volume_class(pv: PersistentVolume) -> str:
    """Give a volume's class; one that names none is of the class with the empty name."""
    return pv.metadata.annotations.get(CLASS, pv.storage_class_name)


def default_class(classes: Iterable[StorageClass]) -> str:
    """Give the class of claims that name none: the newest of those that are marked so, else the empty name."""
    marked = [each for each in classes if any(each.metadata.annotations.get(name) == "true" for name in DEFAULTS)]
    marked.sort(key=lambda each: each.metadata.name)
    newest = max(marked, key=lambda each: each.metadata.creation_timestamp or "", default=None)
    return newest.metadata.name if newest else ""


def asked(claim: PersistentVolumeClaim) -> int:
    """Give the bytes that a claim asks for."""
    wanted = claim.requests.get("storage")
    return wanted.to_int() if wanted else 0


def is_reserved_for(pv: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Say whether a volume's claimRef names this claim; without a UID it is a reservation for whoever has the name."""
    owner, meta = pv.claim_ref, claim.metadata
    if owner is None or (owner.namespace, owner.name) != (meta.namespace, meta.name):
        return False
    return not owner.uid or owner.uid == meta.uid


def mismatch(claim: PersistentVolumeClaim, pv: PersistentVolume, storage_class: str, node: Node | None) -> str:
    """Say why a volume is not for a claim of this class; empty when it is.

    A volume that is reserved for the claim need not be of its class, nor have the labels that it selects.
    """
    found = _unfit(claim, pv)
    if found:
        return found
    if node is not None and not matches_node(pv.node_affinity, node):
        return f"its nodeAffinity does not match node {node.metadata.name}"
    if pv.claim_ref is not None:
        return ""
    if volume_class(pv) != storage_class:
        return f"its storageClassName is {volume_class(pv)!r}, not {storage_class!r}"
    return "" if matches_labels(claim.selector, pv.metadata.labels) else "its labels do not match the claim's selector"


def refusal(claim: PersistentVolumeClaim, pv: PersistentVolume, storage_class: str) -> str:
    """Say why a claim does not get the volume that it names; empty when it does."""
    if is_reserved_for(pv, claim):
        return ""
    found = _unfit(claim, pv)
    if found:
        return found
    if volume_class(pv) != storage_class:
        return f"its storageClassName is {volume_class(pv)!r}, not {storage_class!r}"
    return ""


def _unfit(claim: PersistentVolumeClaim, pv: PersistentVolume) -> str:
    """Say what neither a name nor a reservation makes up for."""
    if pv.metadata.deletion_timestamp:
        return "it is being deleted"
    if pv.phase in UNUSABLE:
        return f"it is {pv.phase}: {pv.message}"
    if pv.claim_ref is not None and not is_reserved_for(pv, claim):
        return _owned(claim, pv)
    if pv.volume_mode is not claim.volume_mode:
        return f"its volumeMode is {pv.volume_mode}, not {claim.volume_mode}"
    if pv.size < asked(claim):
        has = pv.capacity.get("storage")
        return f"its capacity is {has or 'not given'}, less than {claim.requests['storage']}"
    lacking = [mode for mode in claim.access_modes if mode not in pv.access_modes]
    return f"it has no access mode {' and '.join(lacking)}" if lacking else ""


def _owned(claim: PersistentVolumeClaim, pv: PersistentVolume) -> str:
    owner = pv.claim_ref
    assert owner is not None  # noqa: S101 - only asked of one that has an owner
    if (owner.namespace, owner.name) != (claim.metadata.namespace, claim.metadata.name):
        return f"it belongs to claim {owner.namespace}/{owner.name}"
    return f"its claimRef has the UID {owner.uid}, and the claim {claim.metadata.uid}; remove the UID to reserve it"
