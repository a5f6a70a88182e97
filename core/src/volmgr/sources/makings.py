"""Which claims are to have volumes made, by whom, and which volumes that were made are to be finished.

Belongs to the binder, which decides what a claim has. Writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from volmgr import pairing
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import PersistentVolumeClaim, StorageClass
from volmgr.sources.changes import VolumeUnfinished
from volmgr.sources.in_tree_classes import as_its_driver_reads
from volmgr.sources.made_volumes import MadeVolume, Stage, is_being_made, unfinished
from volmgr.sources.stock import Stock


@dataclass(slots=True)
class Makings:
    """What of the stock concerns volumes that are made; `serves` says whether somebody here serves a provisioner."""

    stock: Stock
    serves: Callable[[str], bool]
    makers: dict[ObjectRef, str] = field(default_factory=dict[ObjectRef, str])
    """The provisioner that is to make a volume for each pending claim that nothing fits."""
    reports: dict[ObjectRef, str] = field(default_factory=dict[ObjectRef, str])
    """What is said of making or growing the volumes of claims."""

    # --- making ---

    def maker(self, claim: PersistentVolumeClaim, storage_class: str) -> str:
        """Give the provisioner that is to make a volume for a claim; empty: none can."""
        return "" if claim.selector is not None or claim.data_source else self._provisioner(storage_class)

    def why_not(self, claim: PersistentVolumeClaim, storage_class: str) -> str:
        """Say why nobody makes a volume for a claim, after that nothing fits it; empty where nobody could."""
        maker = self._provisioner(storage_class)
        if not maker:
            return ""
        if claim.data_source:
            return f", and none is made from {claim.data_source} here; remove spec.dataSource"
        if claim.selector is not None:
            return f", and {maker} makes none for a claim with a selector; remove it"
        return f", and nobody here makes one as {maker} would; start or install {maker}, or add a PersistentVolume"

    def wanted(self, ref: ObjectRef) -> tuple[PersistentVolumeClaim, StorageClass] | None:
        """Give a claim for which a volume is to be made, and its class; None when none is, or not any more."""
        claim = self.stock.claim(ref)
        if ref not in self.makers or claim is None:
            return None
        begun = self.stock.made.begun(ref, claim.metadata.uid)
        name = pairing.claim_class(claim, pairing.default_class(self.stock.classes.values()))
        storage_class = self._class(name) or (begun.storage_class if begun else None)
        return None if storage_class is None else (claim, storage_class)

    def owner_of(self, ref: ObjectRef, claim: PersistentVolumeClaim) -> str:
        """Give the UID of the Pod that a claim was made for; empty for a claim of a manifest."""
        made = self.stock.consumers.made(ref, claim.metadata.uid)
        return claim.metadata.owner_references[0].uid if made == claim else ""

    def made_for(self, ref: ObjectRef, claim: PersistentVolumeClaim) -> str:
        """Give the volume that was made for a claim, whatever either says meanwhile: no second one is to be made."""
        for each in self.stock.made.of(ref):
            held, there = self.stock.bindings.of_volume(each.name), each.name in self.stock.volumes
            if each.stage is Stage.MADE and there and (held is None or held.claim is None):
                owner = self.stock.stated(each.name).claim_ref
                if owner is not None and owner.uid == claim.metadata.uid:
                    return each.name
        return ""

    def report(self, ref: ObjectRef, text: str) -> None:
        """Say of a claim what is done for it, until it has its volume; empty: nothing any more."""
        if not text or self.stock.claim(ref) is None:
            self.reports.pop(ref, None)
        else:
            self.reports[ref] = text

    def _provisioner(self, storage_class: str) -> str:
        known = self._class(storage_class)
        return "" if known is None or known.provisioner == pairing.NO_PROVISIONER else known.provisioner

    def _class(self, name: str) -> StorageClass | None:
        """Give a class as who makes its volumes reads it: one of an in-tree type that nobody serves, as csi does."""
        known = self.stock.classes.get(name)
        return known if known is None or self.serves(known.provisioner) else as_its_driver_reads(known)

    # --- finishing ---

    def unfinished(self, name: str) -> Iterator[VolumeUnfinished]:
        """Name a volume that is being deleted, or was made for a Pod's own claim, which has gone with the Pod."""
        made = self.stock.made.find(name)
        if made is not None and (made.stage is Stage.DELETING or self._went_with_pod(made)):
            yield unfinished(made)

    def is_to_go(self, made: MadeVolume) -> bool:
        """Say whether a volume is being deleted, or goes with its Pod, which has gone: of no other is that guessed."""
        return made.stage is Stage.DELETING or self._went_with_pod(made) or self._came_late(made)

    def _went_with_pod(self, made: MadeVolume) -> bool:
        """Say whether the claim has gone that a Pod brought along, and that a volume was made for and belonged to."""
        held = self.stock.bindings.of_volume(made.name)
        is_its_own = held is not None and held.released and held.owner == made.owner
        return made.stage is Stage.MADE and made.goes_with_pod and is_its_own

    def left_behind(self, ref: ObjectRef, claim: PersistentVolumeClaim | None) -> Iterator[VolumeUnfinished]:
        """Name volumes that were made, or begun, for claims of this name which went without having them."""
        if claim is None and (not self.stock.is_gone(ref) or self.stock.consumers.uses(ref)):
            return
        for each in self.stock.made.of(ref):
            is_other = claim is None or claim.metadata.uid != each.claim.metadata.uid
            if is_other and (is_being_made(each) or self._came_late(each)):
                yield unfinished(each)

    def _came_late(self, made: MadeVolume) -> bool:
        """Say whether the Pod for whose own claim a volume was made had gone before."""
        unbound = self.stock.bindings.of_volume(made.name) is None
        return made.stage is Stage.MADE and made.goes_with_pod and unbound and made.owner not in self.stock.sealed
