"""Which volume a claim gets, or why it gets none. Changes nothing.

Belongs to the binder, which records what is decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from volmgr import pairing
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import PersistentVolumeClaim, ref_of
from volmgr.sources.made_volumes import Stage
from volmgr.sources.makings import Makings
from volmgr.sources.shelf import Links
from volmgr.sources.stock import PV, Stock
from volmgr.sources.wishes import Wish, Wishes


class Choice(NamedTuple):
    """The volume that a claim gets, or why it gets none; with a wish, it takes whatever fits that."""

    volume: str = ""
    why: str = ""
    wish: Wish | None = None
    maker: str = ""
    """The provisioner that is to make one for it."""
    is_awaited: bool = False
    """Nothing is wrong with it: which it gets is not known yet, or that is being made."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Chooses among what there is; `wishes` has the volumes that any claim may have, `reserved` those of one alone."""

    stock: Stock
    makings: Makings
    wishes: Wishes
    reserved: Links[ObjectRef, str]

    def choice(self, ref: ObjectRef, claim: PersistentVolumeClaim, storage_class: str) -> Choice:
        """Give the volume that a claim gets, or why it gets none."""
        if claim.metadata.deletion_timestamp:
            return Choice(why="it is being deleted")
        if claim.volume_name:
            why = self._refusal(claim, storage_class)
            return Choice(why=why) if why else Choice(claim.volume_name)
        if made := self.makings.made_for(ref, claim):
            return Choice(made)
        if self.stock.unread:
            unread = " and ".join(sorted(self.stock.unread))
            why = f"it gets a volume when every source was read whole, and {unread} was not"
            return Choice(why=why, is_awaited=True)
        if self.stock.bindings.damaged:
            path = self.stock.bindings.path("").parent / min(self.stock.bindings.damaged)
            why = f"{path} is damaged, so whose volume it speaks of is not known; see volmgr claims"
            return Choice(why=why)
        found = self._reserved_for(ref, claim, storage_class)
        if found:
            return Choice(found)
        return self._free_choice(ref, claim, storage_class)

    def _free_choice(self, ref: ObjectRef, claim: PersistentVolumeClaim, storage_class: str) -> Choice:
        """Give a volume that any claim may have, or let one be made; while it is being made, no other is taken."""
        begun = self.stock.made.begun(ref, claim.metadata.uid)
        if begun is not None:
            maker = begun.storage_class.provisioner
            return _to_be_made(storage_class, maker)
        if self._waits_for_pod(ref, storage_class):
            return Choice(why=f"it gets a volume when a Pod uses it: so says its class {storage_class}")
        maker = self.makings.maker(claim, storage_class)
        wish = Wish.of(claim, storage_class)
        found = self.wishes.smallest(wish, pairing.asked(claim))
        if found:
            return Choice(found, wish=wish)
        if maker and (path := self.stock.made.damaged_for(claim.metadata.uid)):
            why = f"{path} is damaged, so whether {maker} has made its volume is not known"
            return Choice(why=f"class {storage_class}: {why}; restore it or remove it, and restart volmgrd", wish=wish)
        if maker and self.makings.serves(maker):
            return _to_be_made(storage_class, maker, wish)
        return Choice(why=self._nothing_fits(claim, storage_class), wish=wish, maker=maker)

    def _reserved_for(self, ref: ObjectRef, claim: PersistentVolumeClaim, storage_class: str) -> str:
        """Give the smallest that is reserved for a claim and fits it."""
        stated = map(self.stock.stated, self.reserved.of(ref))
        fitting = (pv for pv in stated if not pairing.mismatch(claim, pv, storage_class, self.stock.node))
        return min(((pv.size, pv.metadata.name) for pv in fitting), default=(0, ""))[1]

    def _waits_for_pod(self, ref: ObjectRef, storage_class: str) -> bool:
        known = self.stock.classes.get(storage_class)
        for_consumers = known is not None and known.volume_binding_mode == pairing.FOR_CONSUMERS
        return for_consumers and not self.stock.consumers.uses(ref)

    def _refusal(self, claim: PersistentVolumeClaim, storage_class: str) -> str:
        """Say why a claim does not get the volume that it names; empty when it does."""
        name = claim.volume_name
        if name not in self.stock.volumes:
            return f"{PV} {name}, which it names, does not exist; add it to the manifests"
        pv = self.stock.owned(name)
        why = pv.message if pv.phase in {"Failed", "Released"} else pairing.refusal(claim, pv, storage_class)
        return f"{PV} {name}, which it names, is not for it: {why}" if why else ""

    def _nothing_fits(self, claim: PersistentVolumeClaim, storage_class: str) -> str:
        nobody = self.makings.why_not(claim, storage_class)
        had = [name for name in self.stock.bindings.volumes_of(ref_of(claim)) if self._may_be_released(name)]
        earlier = f"; {had[0]} was an earlier claim's of this name: volmgr release pv/{had[0]} frees it" if had else ""
        return f"no {PV} fits it{nobody}{earlier}"

    def _may_be_released(self, name: str) -> bool:
        made = self.stock.made.find(name)
        return name in self.stock.volumes and (made is None or made.stage is not Stage.DELETING)


def _to_be_made(storage_class: str, maker: str, wish: Wish | None = None) -> Choice:
    why = f"class {storage_class}: {maker} is to make its volume"
    return Choice(why=why, wish=wish, maker=maker, is_awaited=True)
