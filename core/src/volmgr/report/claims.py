"""Claims and PersistentVolumes: which belongs to which, and why a claim has none. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from volmgr import pairing
from volmgr.claims import BOUND, CLAIM_FIELDS, claim_ref
from volmgr.errors import OperationError
from volmgr.model.objects import PersistentVolumeClaim, StorageClass
from volmgr.model.volume import PersistentVolume
from volmgr.operations import Operation, Verb

if TYPE_CHECKING:
    from volmgr.model.meta import ObjectRef
    from volmgr.model.pod import Pod
    from volmgr.report.world import World

NAMED = 10
"""Volumes that `why` names one by one for a claim without one; the others are counted."""
USERS = 3
"""Pods that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReport:
    """One claim: `phase` is Bound, Pending or Lost, `reason` why; `requested` is the amount it asks for."""

    namespace: str
    name: str
    uid: str
    phase: str
    volume: str
    requested: str
    access_modes: tuple[str, ...]
    volume_mode: str
    storage_class: str
    origin: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolumeReport:
    """One volume: `phase` is Available, Bound, Released or Failed; `claim` is `namespace/name`, `pods` who has it."""

    name: str
    phase: str
    claim: str
    claim_uid: str
    reclaim_policy: str
    capacity: str
    access_modes: tuple[str, ...]
    volume_mode: str
    storage_class: str
    type: str
    pods: tuple[str, ...]
    reason: str = ""
    made: bool = False
    """It was made for a claim, so that its reclaim policy counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsReport:
    """All claims and volumes, by name, and what is wrong with files of manifests."""

    claims: tuple[ClaimReport, ...]
    volumes: tuple[PersistentVolumeReport, ...]
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A volume that a claim does not get, and why."""

    volume: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundClaim:
    """A claim without a volume: what it wants, and why each volume is not for it.

    `more` were not looked at one by one. Of a claim that names its volume, no other is looked at; where a controller
    gives volumes to claims, none is, since only those in use are read.
    """

    namespace: str
    name: str
    phase: str
    reason: str
    refused: tuple[Refused, ...]
    more: int
    wanted: str = ""
    named: str = ""
    by_controller: bool = False

    def lines(self) -> Iterator[str]:
        """Say it for people."""
        yield f"claim {self.namespace}/{self.name}: {self.phase}" + (f": {self.reason}" if self.reason else "")
        yield f"  it wants {self.wanted}"
        for each in self.refused:
            yield f"  PersistentVolume {each.volume}: {each.reason}"
        if self.more:
            yield f"  and {self.more} more; volmgr claims lists them"
        if self.by_controller:
            yield f"  a controller gives it one: kubectl describe pvc --namespace {self.namespace} {self.name}"
        elif not self.refused and self.named:
            yield f"  there is no PersistentVolume {self.named}; add it to the manifests, or let the claim name another"
        elif not self.refused:
            yield "  there is no PersistentVolume at all"


def claims_report(world: World) -> ClaimsReport:
    """Report everything."""
    default = _default(world)
    users = users_of_volumes(world)
    growing = dict(_growing(world))
    entries = [(ref, entry.item) for ref, entry in sorted(world.objects.items())]
    return ClaimsReport(
        claims=tuple(
            _claim(ref, item, default, world, growing.get(item.volume_name, ""))
            for ref, item in entries
            if isinstance(item, PersistentVolumeClaim)
        ),
        volumes=tuple(
            _volume(item, users.get(item.metadata.name, ()), world, made=is_made_here(world, ref))
            for ref, item in entries
            if isinstance(item, PersistentVolume)
        ),
        complaints=world.complaint_texts,
    )


def check_unused(world: World, name: str) -> None:
    """Raise OperationError when a Pod has a mount of a PersistentVolume, present or perhaps, or nobody knows yet."""
    if not world.reconstructed:
        raise OperationError(f"PersistentVolume {name} may be mounted: what is mounted is looked for yet; try again")
    users = users_of_volumes(world).get(name, ())
    if users:
        pods = " and ".join(users[:USERS])
        raise OperationError(f"PersistentVolume {name} is still mounted for {pods}; let them end first")


def claims_of(pod: Pod) -> set[ObjectRef]:
    """Name the claims that a Pod has."""
    return {claim_ref(pod, volume) for volume in pod.spec.volumes if volume.type in CLAIM_FIELDS}


def unbound_claims(world: World, pod: Pod) -> tuple[UnboundClaim, ...]:
    """Report the claims of a Pod that have no volume."""
    found = (unbound_claim(world, ref) for ref in sorted(claims_of(pod)))
    return tuple(each for each in found if each is not None)


def unbound_claim(world: World, ref: ObjectRef) -> UnboundClaim | None:
    """Report a claim that has no volume; None where there is none such."""
    entry = world.objects.get(ref)
    if entry is None or not isinstance(entry.item, PersistentVolumeClaim) or entry.item.phase != "Pending":
        return None
    return _unbound(world, entry.item)


def claim_lines(world: World, ref: ObjectRef) -> tuple[str, ...]:
    """Say where a claim stands."""
    name = f"claim {ref.namespace}/{ref.name}"
    entry = world.objects.get(ref)
    if entry is None or not isinstance(entry.item, PersistentVolumeClaim):
        return (f"{name}: no source has it",)
    unbound = unbound_claim(world, ref)
    if unbound is not None:
        return tuple(unbound.lines())
    volume = entry.item.volume_name
    said = _claim(ref, entry.item, "", world, dict(_growing(world)).get(volume, ""))
    return (f"{name}: {said.phase}, with pv/{volume}" + (f": {said.reason}" if said.reason else ""),)


def _growing(world: World) -> Iterator[tuple[str, str]]:
    """Say of volumes, by name, which are larger than what is on them, and why that has not grown."""
    for volume in world.desired:
        actual, pv = world.actual.get(volume.name), volume.spec.pv
        if pv is not None and actual is not None and volume.grows and 0 < actual.size < volume.size:
            backoff = world.admission.backoff(Operation(Verb.EXPAND, volume.name))
            why = f": {backoff.error}" if backoff is not None else ""
            yield pv.metadata.name, f"its node has {actual.size} bytes of it, not {volume.size} yet{why}"


def _claim(ref: ObjectRef, claim: PersistentVolumeClaim, default: str, world: World, growing: str) -> ClaimReport:
    asked = claim.requests.get("storage")
    bound = claim.phase != "Pending"
    return ClaimReport(
        namespace=ref.namespace,
        name=ref.name,
        uid=claim.metadata.uid,
        phase=claim.phase or (BOUND if claim.volume_name else "Pending"),
        volume=claim.volume_name if bound else "",
        requested=str(asked) if asked else "",
        access_modes=claim.access_modes,
        volume_mode=claim.volume_mode,
        storage_class=pairing.claim_class(claim, default),
        origin=world.objects[ref].origin,
        reason=claim.message or growing,
    )


def is_made_here(world: World, ref: ObjectRef) -> bool:
    """Say whether a volume was made by whoever runs here: the annotation may be a cluster's."""
    return Path(world.objects[ref].origin).parent == world.paths.state / "provisioned"


def _volume(pv: PersistentVolume, pods: Iterable[str], world: World, *, made: bool) -> PersistentVolumeReport:
    owner, has = pv.claim_ref, pv.capacity.get("storage")
    return PersistentVolumeReport(
        name=pv.metadata.name,
        phase=pv.phase,
        claim=f"{owner.namespace}/{owner.name}" if owner else "",
        claim_uid=owner.uid if owner else "",
        reclaim_policy=pv.reclaim_policy,
        capacity=str(has) if has else "",
        access_modes=pv.access_modes,
        volume_mode=pv.volume_mode,
        storage_class=pairing.volume_class(pv),
        type=pv.type,
        pods=tuple(pods),
        reason=world.unfinished.get(pv.metadata.name, pv.message),
        made=made,
    )


def users_of_volumes(world: World) -> dict[str, list[str]]:
    """Give the Pods that have each PersistentVolume; of a mount without a record it is not known which it is of."""
    found: dict[str, list[str]] = {}
    for volume in world.actual:
        for uid, mount in sorted(volume.mounts.items()):
            if not mount.inline or not mount.source_key:
                entry = world.pods.get(uid)
                found.setdefault(mount.spec_name, []).append(entry.pod.key if entry else uid)
    return found


def _default(world: World) -> str:
    items = (entry.item for ref, entry in world.objects.items() if ref.kind == "StorageClass")
    return pairing.default_class(item for item in items if isinstance(item, StorageClass))


def _unbound(world: World, claim: PersistentVolumeClaim) -> UnboundClaim:
    """Look closely at a few volumes: the one it names, or free ones, then the others."""
    default = _default(world)
    named = claim.volume_name
    every = [entry.item for entry in world.objects.values() if isinstance(entry.item, PersistentVolume)]
    by_controller = "PersistentVolume" in world.fetched_kinds
    volumes = [pv for pv in every if named in {"", pv.metadata.name} and not by_controller]

    def nearness(pv: PersistentVolume) -> tuple[bool, str]:
        return pv.phase != "Available", pv.metadata.name

    nearest = heapq.nsmallest(NAMED, volumes, key=nearness)
    storage_class = pairing.claim_class(claim, default)
    return UnboundClaim(
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        phase=claim.phase,
        reason=claim.message,
        refused=tuple(
            Refused(volume=pv.metadata.name, reason=_reason(claim, pv, storage_class, world)) for pv in nearest
        ),
        more=len(volumes) - len(nearest),
        wanted=_wanted(claim, storage_class),
        named=named,
        by_controller=by_controller,
    )


def _wanted(claim: PersistentVolumeClaim, storage_class: str) -> str:
    size = claim.requests.get("storage")
    parts = [
        f"PersistentVolume {claim.volume_name}" if claim.volume_name else "",
        f"storageClassName {storage_class!r}",
        str(size) if size else "any size",
        " and ".join(claim.access_modes) or "any access mode",
        f"volumeMode {claim.volume_mode}",
    ]
    return ", ".join(filter(None, parts))


def _reason(claim: PersistentVolumeClaim, pv: PersistentVolume, storage_class: str, world: World) -> str:
    found = pairing.mismatch(claim, pv, storage_class, world.node)
    return found or "it would fit"
