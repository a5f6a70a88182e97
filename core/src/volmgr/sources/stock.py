"""The claims and volumes that are there, and what is known of each: whose it is, whether it is gone. No decisions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from volmgr import pairing
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, PersistentVolumeClaim, StorageClass
from volmgr.model.quantity import Quantity
from volmgr.model.volume import ClaimRef, PersistentVolume
from volmgr.sources.bindings import Binding, Bindings
from volmgr.sources.changes import ObjectChanged
from volmgr.sources.consumers import Consumers
from volmgr.sources.made_volumes import MadeVolumes

PV = "PersistentVolume"
PVC = "PersistentVolumeClaim"


@dataclass(slots=True)
class Stock:
    """Everything that the binder decides over."""

    bindings: Bindings
    made: MadeVolumes
    consumers: Consumers = field(default_factory=Consumers)
    volumes: dict[str, ObjectChanged] = field(default_factory=dict[str, ObjectChanged])
    """By name, as their manifests have them."""
    claims: dict[ObjectRef, ObjectChanged] = field(default_factory=dict[ObjectRef, ObjectChanged])
    """As their manifests have them, each with a UID."""
    classes: dict[str, StorageClass] = field(default_factory=dict[str, StorageClass])
    node: Node | None = None
    unread: set[str] = field(default_factory=set[str])
    """Sources that were not read whole: what they hold is not known to be gone, nor is the best fit known."""
    gone: set[ObjectRef] = field(default_factory=set[ObjectRef])
    """What is gone for sure, although not every source was read."""
    sealed: set[str] = field(default_factory=set[str])
    """UIDs of Pods whose record cannot be read."""

    def is_gone(self, ref: ObjectRef) -> bool:
        """Say whether what is not there is gone, and not only unread."""
        return ref in self.gone or not self.unread

    def is_damaged(self, name: str) -> bool:
        """Say whether the record of whose a volume is cannot be read."""
        return bool(self.bindings.damaged) and self.bindings.path(name).name in self.bindings.damaged

    def has_left(self, held: Binding, namesake: PersistentVolumeClaim | None) -> bool:
        """Say whether a claim that is not there is gone for good: while a Pod uses it, it may still come back.

        So may, beside a namesake, one that was made for a Pod: that Pod may not have been heard of yet.
        """
        assert held.claim is not None  # noqa: S101 - as above
        if namesake is not None and not held.owner:
            return True
        used = namesake is None and self.consumers.uses(held.claim)
        return self.is_gone(held.claim) and not used and held.owner not in self.sealed

    def claim(self, ref: ObjectRef) -> PersistentVolumeClaim | None:
        """Give the claim of this name: one that was made for a Pod and has its volume goes before one of a file."""
        found, held = self.claims.get(ref), self.bindings.of_claim(ref)
        made = self.consumers.made(ref, held.uid if held else "")
        if made is not None and (found is None or (held is not None and held.uid == made.metadata.uid)):
            return made
        return found.item if found and isinstance(found.item, PersistentVolumeClaim) else None

    def stated(self, name: str) -> PersistentVolume:
        """Give a volume as its manifest has it, without a UID that does not count any more."""
        pv = self.volumes[name].item
        assert isinstance(pv, PersistentVolume)  # noqa: S101 - nothing else is put there
        held = self.bindings.of_volume(name)
        if pv.claim_ref is not None and held is not None and held.cleared and held.cleared == pv.claim_ref.uid:
            return replace(pv, claim_ref=replace(pv.claim_ref, uid=""))
        return pv

    def standing(self, name: str) -> Standing:
        """Say whose a volume is, in which phase, and why."""
        pv = self.stated(name)
        held = self.bindings.of_volume(name)
        if self.is_damaged(name):
            why = f"{self.bindings.path(name)} is damaged; if it is nobody's, volmgr release pv/{name}"
            return Standing("Failed", pv.claim_ref, why)
        if held is not None and held.claim is not None:
            owner = ClaimRef(namespace=held.claim.namespace, name=held.claim.name, uid=held.uid)
            if not held.released and (self._is_there(owner) or not self.is_gone(held.claim)):
                return Standing("Bound", owner)
            return Standing("Released", owner, self._released(pv, owner))
        named = pv.claim_ref
        if named is not None and named.uid and self.is_gone(named.ref) and not self._is_there(named):
            return Standing("Released", named, self._released(pv, named))
        return Standing("Available", named)

    def _released(self, pv: PersistentVolume, owner: ClaimRef) -> str:
        """Say what becomes of a volume whose claim is gone."""
        if pv.metadata.deletion_timestamp:
            return "it is being deleted, with what is on it"
        name, claim = pv.metadata.name, f"{owner.namespace}/{owner.name}"
        free = f"volmgr release pv/{name} lets another claim have it"
        if pv.reclaim_policy == "Delete" and self.made.find(name) is not None:
            named = f"pvc/{claim}" if self.claim(owner.ref) is None else f"pv/{name}"  # one of that name is there again
            gone = f"its claim {claim} is gone; its data is kept until volmgr delete {named} --data deletes it"
            return f"{gone}, or {free}"
        policy = "" if pv.reclaim_policy == "Retain" else f", although its reclaim policy is {pv.reclaim_policy}"
        return f"its claim {claim} is gone; its data is kept{policy}; {free}"

    def is_doubtful(self, name: str) -> bool:
        """Say whether a volume with a record, or its claim, was not there as long as not everything was read."""
        held = self.bindings.of_volume(name)
        if held is None or held.claim is None or held.released or name not in self.volumes:
            return True
        claim = self.claim(held.claim)
        return claim is None or claim.metadata.uid != held.uid

    def _is_there(self, owner: ClaimRef) -> bool:
        claim = self.claim(owner.ref)
        return claim is not None and claim.metadata.uid == owner.uid

    def owned(self, name: str) -> PersistentVolume:
        """Give a volume with the claim that it belongs to, its phase and why."""
        now = self.standing(name)
        return replace(self.stated(name), claim_ref=now.owner, phase=now.phase, message=now.message)

    def claim_standing(self, ref: ObjectRef, why: Why, maker: str) -> ClaimStanding | None:
        """Say which volume a claim has, or what it waits for, and who is to make one; None when it is not there."""
        claim = self.claim(ref)
        if claim is None:
            return None
        said = self.claims.get(ref)
        origin, revision = (said.origin, said.revision) if said else ("", "")
        if said is None or claim is not said.item:
            origin = "made for its Pod"
        held = self.bindings.of_claim(ref)
        if held is None or held.uid != claim.metadata.uid:
            return ClaimStanding(claim, revision, origin, why, maker=maker)
        return ClaimStanding(claim, revision, origin, why, held, lost=held.volume not in self.volumes)


@dataclass(frozen=True, slots=True)
class Standing:
    """Whose a volume is, in which phase, and why; cheap to compare."""

    phase: str
    owner: ClaimRef | None
    message: str = ""


class Why(NamedTuple):
    """What a claim waits for; `is_awaited`: nothing is wrong with that."""

    text: str = ""
    is_awaited: bool = False


@dataclass(frozen=True, slots=True)
class ClaimStanding:
    """What a claim has, or waits for; cheap to compare."""

    claim: PersistentVolumeClaim
    revision: str
    origin: str
    why: Why
    held: Binding | None = None
    lost: bool = False
    maker: str = ""

    def told(self) -> ObjectChanged:
        """Give the claim as it is told."""
        claim, held = _with_maker(self.claim, self.maker), self.held
        if held is None:
            pending = replace(claim, phase="Pending", message=self.why.text, is_awaited=self.why.is_awaited)
            return ObjectChanged(pending, self.revision, self.origin)
        message = f"{PV} {held.volume}, its volume, is not there any more; put it back" if self.lost else ""
        if claim.volume_name not in {"", held.volume}:
            message = message or f"its manifest names {claim.volume_name}, but {held.volume} is its volume already"
        message = message or self.why.text
        bound = replace(
            claim,
            volume_name=held.volume,
            phase="Lost" if self.lost else "Bound",
            message=message,
            status_capacity=MappingProxyType({"storage": Quantity.of(held.size)} if held.size else {}),
        )
        return ObjectChanged(bound, f"{self.revision}@{held.volume}", self.origin)


def _with_maker(claim: PersistentVolumeClaim, maker: str) -> PersistentVolumeClaim:
    """Say who is to make a claim's volume, as Kubernetes' controller does; what its manifest says of that is old."""
    meta = claim.metadata
    if meta.annotations.get(pairing.MAKER, "") == maker:
        return claim
    annotations = {name: text for name, text in meta.annotations.items() if name != pairing.MAKER}
    if maker:
        annotations[pairing.MAKER] = maker
    return replace(claim, metadata=replace(meta, annotations=MappingProxyType(annotations)))


def volume_ref(name: str) -> ObjectRef:
    """Name a volume."""
    return ObjectRef(PV, "", name)
