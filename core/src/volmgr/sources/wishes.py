"""Free volumes, and the claims that would take one, by what is wished. No decisions.

Claims that differ in nothing but size have one wish. Each free volume is tested once for each wish that its labels lead
to; so neither a claim that looks for a volume nor a volume that looks for a claim meets what does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from volmgr import pairing
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Node, PersistentVolumeClaim
from volmgr.model.selectors import demanded
from volmgr.model.volume import PersistentVolume, VolumeMode
from volmgr.sources.shelf import Shelf

KEPT = 100
"""Wishes that are remembered although no claim waits with them: the next claim may have the same."""

Lead = tuple[str, VolumeMode, tuple[str, str] | None]
"""Class, mode and a label, or any label: a claim and a volume that have none in common never fit."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What decides, apart from the size, which free volumes fit a claim."""

    storage_class: str
    volume_mode: VolumeMode
    access_modes: frozenset[str]
    selector: str
    """As text, since it is looked up by."""
    claim: PersistentVolumeClaim = field(compare=False)
    """One that has this wish, for no size."""

    @classmethod
    def of(cls, claim: PersistentVolumeClaim, storage_class: str) -> Wish:
        """Give the wish of a claim that is of this class."""
        modes = frozenset(claim.access_modes)
        return cls(storage_class, claim.volume_mode, modes, repr(claim.selector), replace(claim, requests={}))


class Wishes:
    """Which of the free volumes fit each wish, and who waits with it."""

    def __init__(self, kept: int = KEPT) -> None:
        """Start empty; `kept` is how many wishes are remembered that nobody waits with."""
        self._kept = kept
        self._node: Node | None = None
        self._free: dict[str, PersistentVolume] = {}
        self._led = Shelf[Lead, str]()
        """Free volumes by everything that leads to them."""
        self._leads: dict[Wish, tuple[Lead, ...]] = {}
        """Known wishes, with what leads to all that may fit."""
        self._wishes: dict[Lead, dict[Wish, None]] = {}
        self._fitting = Shelf[Wish, str]()
        """Free volumes by the known wishes that they fit."""
        self._waiting = Shelf[Wish, ObjectRef]()
        """Claims that take whatever fits."""

    def __contains__(self, volume: object) -> bool:
        """Say whether a volume is free."""
        return volume in self._free

    def judge(self, node: Node | None) -> None:
        """Test by this node from now on; every claim that waits is to be looked at again."""
        self._node = node
        for wish in tuple(self._leads):
            self._forget(wish)

    # --- volumes ---

    def offer(self, pv: PersistentVolume) -> None:
        """Take note that any claim may have this volume, as it is now."""
        name, size = pv.metadata.name, pv.size
        self.withdraw(name)
        self._free[name] = pv
        leads = tuple(_leads(pv))
        self._led.put(name, leads, size)
        known = (wish for lead in leads for wish in self._wishes.get(lead, ()))
        self._fitting.put(name, [wish for wish in known if self._fits(wish, pv)], size)

    def withdraw(self, name: str) -> None:
        """Take note that a volume is not free."""
        self._free.pop(name, None)
        self._led.remove(name)
        self._fitting.remove(name)

    def smallest(self, wish: Wish, size: int) -> str:
        """Give the smallest free volume that fits, of equal ones the first by name; empty when there is none."""
        if wish not in self._leads:
            self._learn(wish)
        return self._fitting.at_least(wish, size) or ""

    # --- claims ---

    def wait(self, ref: ObjectRef, wish: Wish, size: int) -> None:
        """Take note of a claim that found nothing."""
        self._waiting.put(ref, (wish,), size)

    def leave(self, ref: ObjectRef) -> None:
        """Take note that a claim does not wait, or not for whatever fits."""
        self._waiting.remove(ref)

    def taker(self, name: str) -> ObjectRef | None:
        """Give who asks for most of those that a free volume fits; of equal ones the first by name."""
        size = self._fitting.size(name)
        found = (self._waiting.at_most(wish, size) for wish in self._fitting.rows_of(name))
        refs = (ref for ref in found if ref is not None)
        return min(refs, key=lambda ref: (-self._waiting.size(ref), ref), default=None)

    # --- wishes ---

    def tidy(self) -> None:
        """Forget the wishes that nobody waits with, when they become many."""
        waiting = self._waiting.rows()
        if len(self._leads) > self._kept + 2 * len(waiting):
            for wish in [wish for wish in self._leads if wish not in waiting]:
                self._forget(wish)

    def _learn(self, wish: Wish) -> None:
        """Test a new wish on all that may fit: by what it demands that leads to the fewest."""
        kind = wish.storage_class, wish.volume_mode
        ways = [tuple((*kind, label) for label in labels) for labels in demanded(wish.claim.selector)]
        leads: tuple[Lead, ...] = min(ways, key=self._breadth, default=((*kind, None),))
        self._leads[wish] = leads
        for lead in leads:
            self._wishes.setdefault(lead, {})[wish] = None
            for name in self._led.names(lead):
                if self._fits(wish, self._free[name]):
                    self._fitting.add(wish, name)

    def _breadth(self, leads: tuple[Lead, ...]) -> int:
        return sum(self._led.count(lead) + len(self._wishes.get(lead, ())) for lead in leads)

    def _forget(self, wish: Wish) -> None:
        self._fitting.clear(wish)
        for lead in self._leads.pop(wish):
            del self._wishes[lead][wish]
            if not self._wishes[lead]:
                del self._wishes[lead]

    def _fits(self, wish: Wish, pv: PersistentVolume) -> bool:
        return not pairing.mismatch(wish.claim, pv, wish.storage_class, self._node)


def _leads(pv: PersistentVolume) -> Iterator[Lead]:
    kind = pairing.volume_class(pv), pv.volume_mode
    yield (*kind, None)
    for label in pv.metadata.labels.items():
        yield (*kind, label)
