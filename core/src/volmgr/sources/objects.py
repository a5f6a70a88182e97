"""Which other objects stand: the first place that offers one has it; those in use are kept on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, KeysView

from volmgr.errors import ManifestError, OperationError
from volmgr.model.meta import ObjectRef
from volmgr.model.objects import Object, ref_of
from volmgr.sources.changes import ObjectChanged, ObjectLeft
from volmgr.sources.ledger import Ledger
from volmgr.sources.offers import API_SERVER, ObjectOffer, Place, object_in_two_places

_log = logging.getLogger(__name__)


class Objects:
    """The objects that stand and every place's offers. Not thread-safe: the registry holds its lock."""

    def __init__(
        self, ledger: Ledger, emit: Callable[[ObjectChanged | ObjectLeft], None], is_absent: Callable[[Place], bool]
    ) -> None:
        self._ledger = ledger
        self._emit = emit
        self._is_absent = is_absent
        self._standing: dict[ObjectRef, ObjectOffer] = {}
        self._offers: dict[Place, dict[ObjectRef, ObjectOffer]] = {}
        self._places: dict[ObjectRef, list[Place]] = {}
        self._refusals: dict[Place, dict[ObjectRef, ManifestError]] = {}
        self._retained: set[ObjectRef] = set()
        self._unconfirmed: dict[ObjectRef, Place] = {}
        """Objects of an API server that stand by their records alone: it was not heard of them since the start."""
        self.touched: set[Place] = set()
        """Places whose refusals may have changed since the registry looked."""

    def recall(self, offer: ObjectOffer) -> None:
        """Take an object back from its record, and tell of it."""
        ref = ref_of(offer.item)
        self._put(ref, offer)
        self.decide(ref)
        self._retained.add(ref)  # not before: what was just read need not be written
        if offer.place.source == API_SERVER:
            self._unconfirmed[ref] = offer.place

    def standing(self, ref: ObjectRef) -> Object | None:
        """Give an object that stands."""
        offer = self._standing.get(ref)
        return None if offer is None else offer.item

    def places(self) -> KeysView[Place]:
        """Give every place that offers objects."""
        return self._offers.keys()

    def offered(self, place: Place) -> dict[ObjectRef, ObjectOffer]:
        """Give what a place offers."""
        return dict(self._offers.get(place, {}))

    def refusals(self, place: Place) -> tuple[ManifestError, ...]:
        """Give why offers of a place are refused."""
        return tuple(self._refusals.get(place, {}).values())

    def replace(self, place: Place, offers: dict[ObjectRef, ObjectOffer]) -> None:
        """Let a place offer exactly these objects."""
        gone = [ref for ref in self._offers.get(place, {}) if ref not in offers]
        for ref in gone:
            self._take_out(place, ref)
        for ref, offer in offers.items():
            self._put(ref, offer)
        for ref in [*offers, *gone]:
            if self._unconfirmed.get(ref) == place:
                del self._unconfirmed[ref]
            self.decide(ref)

    def retain(self, refs: frozenset[ObjectRef]) -> None:
        """Keep exactly these objects on disk, so that they survive a restart without their file.

        What stands by its record alone ends with that: nobody follows what nobody uses.
        """
        for ref in sorted(self._retained - refs):
            self._ledger.remove_object(ref)
            self._retained.discard(ref)
        for place in sorted(place for ref, place in self._unconfirmed.items() if ref not in refs):
            self.replace(place, {})
        self._ledger.remove_secrets(but=refs)
        self.keep(refs)

    def keep(self, refs: frozenset[ObjectRef]) -> None:
        """Keep these objects on disk, too."""
        for ref in sorted(refs - self._retained):
            offer = self._standing.get(ref)
            if offer is not None:
                self._ledger.write_object(offer)
                self._retained.add(ref)

    def lacks(self, refs: frozenset[ObjectRef]) -> bool:
        """Say whether one of these stands and is not on disk; needs no lock."""
        return any(ref not in self._retained and ref in self._standing for ref in refs)

    def decide(self, ref: ObjectRef) -> None:
        """Settle what one object is now, given what all places offer."""
        before = self._standing.get(ref)
        held = before.place if before is not None else None
        places = [place for place in self._places.get(ref, ()) if place == held or not self._is_absent(place)]
        offers = [self._offers[place][ref] for place in places]
        if not offers:
            if before is not None:
                del self._standing[ref]
                self._keep(ref, None)
                self._emit(ObjectLeft(ref))
            return
        own = next((offer for offer in offers if offer.place == held), None)
        others = [offer for offer in offers if offer is not own]
        chosen = own if own is not None and not (others and self._is_absent(own.place)) else others[0]
        for offer in offers:
            self._refuse(offer.place, ref, None if offer is chosen else object_in_two_places(offer, chosen))
            self.touched.add(offer.place)
        self._standing[ref] = chosen
        if before is None or (chosen.revision, chosen.item) != (before.revision, before.item):
            if ref in self._retained:
                self._keep(ref, chosen)
        elif chosen.read_at == before.read_at:
            return
        self._emit(ObjectChanged(chosen.item, chosen.revision, chosen.place.origin, chosen.read_at))

    def _keep(self, ref: ObjectRef, offer: ObjectOffer | None) -> None:
        """Bring the record of an object in use up to date; without it, an older one would return after a restart."""
        try:
            if offer is not None:
                self._ledger.write_object(offer)
            elif ref in self._retained:
                self._ledger.remove_object(ref)
                self._retained.discard(ref)
        except OperationError as error:
            _log.warning("%s is not on disk as it is now: %s", ref, error)

    def _put(self, ref: ObjectRef, offer: ObjectOffer) -> None:
        self._offers.setdefault(offer.place, {})[ref] = offer
        places = self._places.setdefault(ref, [])
        if offer.place not in places:
            places.append(offer.place)

    def _take_out(self, place: Place, ref: ObjectRef) -> None:
        del self._offers[place][ref]
        if not self._offers[place]:
            del self._offers[place]
        self._places[ref].remove(place)
        if not self._places[ref]:
            del self._places[ref]
        self._refuse(place, ref, None)

    def _refuse(self, place: Place, ref: ObjectRef, error: ManifestError | None) -> None:
        refusals = self._refusals.setdefault(place, {})
        if error is None:
            refusals.pop(ref, None)
        else:
            refusals[ref] = error
        if not refusals:  # names of files come and go for ever
            del self._refusals[place]
