"""Whether a volume may be deleted with what is on it, and what keeps it from that. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from volmgr.claims import BOUND
from volmgr.errors import OperationError
from volmgr.model.driver_sources import CSI_FIELD
from volmgr.model.names import CSI, csi_volume_name, shared_volume_name
from volmgr.model.objects import PersistentVolumeClaim, ref_of
from volmgr.model.volume import PersistentVolume
from volmgr.report.claims import USERS, claims_of, is_made_here, users_of_volumes
from volmgr.same_storage import is_same_storage

if TYPE_CHECKING:
    from volmgr.model.meta import ObjectRef
    from volmgr.report.world import World


def deletable(world: World, claim: ObjectRef) -> PersistentVolume:
    """Give the volume that a claim, which is gone, had, to be deleted with what is on it.

    Raises KeyError when there is none, OperationError when it must stay.
    """
    name = f"{claim.namespace}/{claim.name}"
    entry = world.objects.get(claim)
    if entry is not None:
        raise OperationError(f"claim {name} is still there, in {entry.origin}; remove it from the manifests first")
    every = (entry.item for entry in world.objects.values() if isinstance(entry.item, PersistentVolume))
    found = sorted((pv for pv in every if pv.claim_ref and pv.claim_ref.ref == claim), key=lambda pv: pv.metadata.name)
    if not found:
        raise KeyError(name)
    if len(found) > 1:
        names = " and ".join(f"pv/{pv.metadata.name}" for pv in found)
        raise OperationError(
            f"claims {name} had the volumes {names}; say which to delete: volmgr delete pv/NAME --data"
        )
    return found[0]


def check_deletable(world: World, pv: PersistentVolume) -> None:
    """Raise OperationError when a volume must not be deleted with what is on it."""
    name = f"PersistentVolume {pv.metadata.name}"
    if not is_made_here(world, ref_of(pv)):
        raise OperationError(f"{name} was not made by volmgr, so it deletes nothing of it; delete it by hand")
    why = _twin_of(world, pv) or _users_of(world, pv)
    if why:
        raise OperationError(f"{name} is not deleted: {why}")


class Hindrance(NamedTuple):
    """What keeps a volume from being deleted: why, and as which volume it is set up on this node, if it is that."""

    why: str
    volume: str = ""


def hindrance(world: World, pv: PersistentVolume) -> Hindrance | None:
    """Say what keeps a volume from being deleted with what is on it; None when nothing does.

    A Pod that has its claim, a mount, device or attachment that is there or may be, and that this is not known yet.
    """
    why = _twin_of(world, pv) or _users_of(world, pv)
    if why:
        return Hindrance(why)
    shared = ""
    if pv.type == CSI_FIELD:
        storage = csi_volume_name(str(pv.source.get("driver")), str(pv.source.get("volumeHandle")))
        shared = shared_volume_name(CSI, storage)
    for volume in world.actual:
        spec = volume.spec
        if (spec is not None and spec.name == pv.metadata.name) or volume.name == shared:
            why = f"{volume.name} is, or may be, still set up on this node; volmgr plan says what is next for it"
            return Hindrance(why, volume.name)
    return None


def _twin_of(world: World, pv: PersistentVolume) -> str:
    """Say which other volume is the same to what stores it: what is on it may be somebody else's."""
    for entry in world.objects.values():
        other = entry.item
        if not isinstance(other, PersistentVolume) or other.metadata.name == pv.metadata.name:
            continue
        if is_same_storage(pv, other):
            where = f"PersistentVolume {other.metadata.name} of {entry.origin}"
            return f"{where} is the same storage; remove that first, if what is on it is not wanted"
    return ""


def _users_of(world: World, pv: PersistentVolume) -> str:
    if not world.reconstructed:
        return "what is mounted is looked for yet; try again"
    name = pv.metadata.name
    claim = pv.claim_ref.ref if pv.claim_ref and not _has_another(world, pv.claim_ref.ref, name) else None
    having = [entry.pod.key for entry in world.pods.values() if claim in claims_of(entry.pod)]
    wanting = [
        mount.pod.key
        for volume in world.desired
        if volume.spec.pv is not None and volume.spec.name == name
        for mount in volume.mounts.values()
    ]
    pods = [*dict.fromkeys([*users_of_volumes(world).get(name, ()), *wanting, *having])]
    if pods:
        return f"{' and '.join(pods[:USERS])} still has it; let it end first"
    return ""


def _has_another(world: World, claim: ObjectRef, name: str) -> bool:
    """Say whether a claim is there again, and has another volume than the one of that name."""
    entry = world.objects.get(claim)
    item = entry.item if entry is not None else None
    return isinstance(item, PersistentVolumeClaim) and item.phase == BOUND and item.volume_name != name
