"""Which Pods stand: decides over the offers of all places, one UID at a time, and records before it tells."""

from __future__ import annotations

from collections.abc import Callable, KeysView, Mapping
from contextlib import suppress
from dataclasses import replace

from volmgr.errors import ManifestError, OperationError
from volmgr.sources import offers as rules
from volmgr.sources.changes import PodAccepted, PodLeft, Standing
from volmgr.sources.ledger import Ledger
from volmgr.sources.offers import Accepted, Place, PodOffer


class Pods:
    """The accepted Pods and every place's offers. Not thread-safe: the registry holds its lock around each call."""

    def __init__(
        self, ledger: Ledger, emit: Callable[[PodAccepted | PodLeft], None], is_absent: Callable[[Place], bool]
    ) -> None:
        self._ledger = ledger
        self._emit = emit
        self._is_absent = is_absent
        self._accepted: dict[str, Accepted] = {}
        self._offers: dict[Place, dict[str, PodOffer]] = {}
        self._places: dict[str, list[Place]] = {}
        self._uids: dict[str, set[str]] = {}
        self._refusals: dict[Place, dict[str, ManifestError]] = {}
        self.touched: set[Place] = set()
        """Places whose refusals may have changed since the registry looked."""
        self._recorded_ahead: PodOffer | None = None
        self.unrecorded: dict[str, OperationError] = {}
        """UIDs whose record could not be written, with why: they are as they were, and tried again."""

    def recall(self, accepted: Accepted) -> None:
        """Take a Pod back from its record, and tell of it."""
        offer = accepted.offer
        self._accepted[offer.pod.uid] = accepted
        self._index(offer)
        self._emit(PodAccepted(offer.pod, offer.place.source, offer.place.origin))
        if accepted.standing is Standing.LEAVING:
            self._emit(PodLeft(offer.pod.uid))
        waiting = accepted.successor or (offer if accepted.standing is Standing.PRESENT else None)
        if waiting is not None:
            self._put(waiting)

    def finish_replacements(self) -> None:
        """Let those leave whose successor's record was written just before the daemon died."""
        for accepted in tuple(self._accepted.values()):
            old = self._accepted.get(accepted.replaces)
            both = old is not None and old.standing is accepted.standing is Standing.PRESENT
            if old is not None and both and old.offer.pod.key == accepted.offer.pod.key:
                self._take_out(old.offer.place, old.offer.pod.uid)
                self.decide(old.offer.pod.uid)

    def places(self) -> KeysView[Place]:
        """Give every place that offers Pods."""
        return self._offers.keys()

    def offered(self, place: Place) -> dict[str, PodOffer]:
        """Give what a place offers, by UID."""
        return dict(self._offers.get(place, {}))

    def refusals(self, place: Place) -> tuple[ManifestError, ...]:
        """Give why offers of a place are refused."""
        return tuple(self._refusals.get(place, {}).values())

    def refusal(self, place: Place, uid: str) -> ManifestError | None:
        """Give why one offer of a place is refused."""
        return self._refusals.get(place, {}).get(uid)

    def stands_as(self, place: Place, raw: bytes) -> bool:
        """Say whether a place offers a single Pod, by this document, and that is what stands and is recorded."""
        offers = self._offers.get(place, {})
        if len(offers) != 1 or self._refusals.get(place):
            return False
        uid, offer = next(iter(offers.items()))
        held = self._accepted.get(uid)
        stands = held is not None and held.standing is Standing.PRESENT and held.offer.place == place
        return stands and uid not in self.unrecorded and offer.raw == raw

    def find(self, uid: str) -> Accepted | None:
        """Give an accepted Pod, present or leaving."""
        return self._accepted.get(uid)

    def present(self, key: str) -> Accepted | None:
        """Give the present Pod of this `namespace/name`."""
        for uid in self._uids.get(key, ()):
            held = self._accepted.get(uid)
            if held is not None and held.standing is Standing.PRESENT and held.offer.pod.key == key:
                return held
        return None

    def all(self) -> tuple[Accepted, ...]:
        """Give every accepted Pod."""
        return tuple(self._accepted.values())

    def replace(self, place: Place, offers: Mapping[str, PodOffer]) -> None:
        """Let a place offer exactly these Pods; those that it no longer has are decided first."""
        self.update(place, {**dict.fromkeys(self._offers.get(place, {})), **offers})

    def update(self, place: Place, offers: Mapping[str, PodOffer | None]) -> dict[str, PodOffer | None]:
        """Let a place offer these Pods, or no longer (None), whatever else it has; gives what was instead of each."""
        mine = self._offers.get(place, {})
        before = {uid: mine.get(uid) for uid in offers}
        gone = [uid for uid, offer in offers.items() if offer is None and before[uid] is not None]
        for uid in gone:
            self._take_out(place, uid)
        there = {uid: offer for uid, offer in offers.items() if offer is not None}
        for offer in there.values():
            self._put(offer)
        for uid in [*gone, *there]:
            self.decide(uid)
        return before

    def forget(self, uid: str) -> bool:
        """Let go of a leaving Pod whose last volume is gone; False when it is not (or no longer) leaving."""
        held = self._accepted.get(uid)
        if held is None or held.standing is not Standing.LEAVING:
            return False
        self._ledger.remove_pod(uid)
        del self._accepted[uid]
        self._forget_name(held.offer)
        self.decide(uid)
        return True

    def decide(self, uid: str) -> None:
        """Settle what one UID is now, given what all places offer; the heart of this class."""
        held = self._accepted.get(uid)
        offers: list[PodOffer] = []
        if held is not None:
            self._refuse(held.offer, None)
        for place in self._places.get(uid, ()):
            self._refuse(self._offers[place][uid], None)
            if not self._is_absent(place) or (held is not None and held.offer.place == place):
                offers.append(self._offers[place][uid])  # a missing file gains nothing
        try:
            if held is not None and held.standing is Standing.PRESENT:
                self._keep(held, offers)
                held = self._accepted.get(uid)  # deciding over who waited for its name may have decided this one, too
            if held is not None and held.standing is Standing.LEAVING:
                self._bring_back(held, offers)
            elif held is None and offers:
                self._admit(offers)
        except OperationError as error:
            self.unrecorded[uid] = error
            for offer in offers[:1] or ([held.offer] if held is not None else []):
                self._refuse(offer, _not_recorded(offer, error, is_gone=not offers))
        else:
            self.unrecorded.pop(uid, None)

    def _keep(self, held: Accepted, offers: list[PodOffer]) -> None:
        """Decide over a present Pod: its own place has it still, another takes over, or it leaves."""
        place, pod = held.offer.place, held.offer.pod
        own = next((offer for offer in offers if offer.place == place), None)
        others = [offer for offer in offers if offer.place != place]
        if own is None or self._is_absent(place):
            heir = next((offer for offer in others if rules.change_refused(offer, pod) is None), None)
            if heir is not None:
                held = self._update(held, heir)
            elif own is None:
                self._leave(held)
                return
        elif (refusal := rules.change_refused(own, pod)) is not None:
            self._refuse(own, refusal)
        else:
            held = self._update(held, own)
        for offer in others:
            if offer.place != held.offer.place:
                self._refuse(offer, rules.in_two_places(offer, held.offer))

    def _update(self, held: Accepted, offer: PodOffer) -> Accepted:
        accepted = replace(held, offer=offer)
        if (offer.raw, offer.place) == (held.offer.raw, held.offer.place):
            self._accepted[offer.pod.uid] = accepted  # at most the number of its document changed
            return accepted
        self._record(accepted)
        if offer.pod != held.offer.pod or offer.place != held.offer.place:
            self._emit(PodAccepted(offer.pod, offer.place.source, offer.place.origin))
        return accepted

    def _leave(self, held: Accepted) -> None:
        accepted = replace(held, standing=Standing.LEAVING)
        self._record(accepted)
        self._emit(PodLeft(held.offer.pod.uid))
        for uid in sorted(self._uids.get(held.offer.pod.key, ())):
            if uid != held.offer.pod.uid and uid in self._places:
                self.decide(uid)  # it waited for the name

    def _bring_back(self, held: Accepted, offers: list[PodOffer]) -> None:
        """Decide over a leaving Pod: one of its name brings it back, another waits until it is forgotten.

        What it declares may differ: volumes with equal sources are kept, the others are unmounted first.
        """
        pod = held.offer.pod
        equal = next((offer for offer in offers if offer.pod.key == pod.key), None)
        taken = self.present(pod.key)
        if equal is not None and taken is None:
            accepted = Accepted(equal)
            self._record(accepted)
            self._emit(PodAccepted(equal.pod, equal.place.source, equal.place.origin))
            for offer in offers:
                if offer is not equal:
                    self._refuse(offer, rules.in_two_places(offer, equal))
            return
        successor = offers[0] if offers else None
        if successor != held.successor:
            self._record(replace(held, successor=successor))
        for offer in offers:
            if offer is not successor:
                self._refuse(offer, rules.in_two_places(offer, offers[0]))
            elif equal is not None and taken is not None:
                self._refuse(offer, rules.name_taken(offer, taken.offer))
            else:
                self._refuse(offer, rules.must_wait(offer))

    def _admit(self, offers: list[PodOffer]) -> None:
        """Decide over a UID that is new."""
        first, *others = offers
        for offer in others:
            self._refuse(offer, rules.in_two_places(offer, first))
        taken = self.present(first.pod.key)
        if taken is not None:
            self._refuse(first, rules.name_taken(first, taken.offer))
            return
        ahead, self._recorded_ahead = self._recorded_ahead, None
        if ahead == first:
            self._stand(Accepted(first))
        else:
            self._record(Accepted(first))
        self._emit(PodAccepted(first.pod, first.place.source, first.place.origin))

    def record_replacement(self, offer: PodOffer, old: str) -> None:
        """Record a new Pod ahead, and that an old one leaves for it; raises OperationError, and nothing has changed.

        From here on both are decided, also over a crash: no later failure leaves neither.
        """
        self._ledger.write_pod(Accepted(offer, replaces=old))
        self._recorded_ahead = offer

    def take_back_replacement(self, offer: PodOffer) -> None:
        """Let a replacement be undone that was refused after all."""
        self._recorded_ahead = None
        if offer.pod.uid not in self._accepted:
            with suppress(OperationError):  # then it stands after a restart, instead of the old one
                self._ledger.remove_pod(offer.pod.uid)

    def _record(self, accepted: Accepted) -> None:
        self._ledger.write_pod(accepted)
        self._stand(accepted)

    def _stand(self, accepted: Accepted) -> None:
        self._accepted[accepted.offer.pod.uid] = accepted
        self._index(accepted.offer)

    def _refuse(self, offer: PodOffer, error: ManifestError | None) -> None:
        refusals = self._refusals.setdefault(offer.place, {})
        if error is None:
            refusals.pop(offer.pod.uid, None)
        else:
            refusals[offer.pod.uid] = error
        if not refusals:  # names of files come and go for ever
            del self._refusals[offer.place]
        self.touched.add(offer.place)

    def _put(self, offer: PodOffer) -> None:
        self._offers.setdefault(offer.place, {})[offer.pod.uid] = offer
        places = self._places.setdefault(offer.pod.uid, [])
        if offer.place not in places:
            places.append(offer.place)
        self._index(offer)

    def _take_out(self, place: Place, uid: str) -> None:
        offer = self._offers[place].pop(uid)
        if not self._offers[place]:
            del self._offers[place]
        self._places[uid].remove(place)
        if not self._places[uid]:
            del self._places[uid]
        self._refuse(offer, None)
        self._forget_name(offer)

    def _index(self, offer: PodOffer) -> None:
        self._uids.setdefault(offer.pod.key, set()).add(offer.pod.uid)

    def _forget_name(self, offer: PodOffer) -> None:
        """Drop a UID from the index of names, unless something else still has both."""
        uid, key = offer.pod.uid, offer.pod.key
        held = self._accepted.get(uid)
        still = [self._offers[place][uid] for place in self._places.get(uid, ())] + ([held.offer] if held else [])
        if not any(each.pod.key == key for each in still):
            self._uids.get(key, set()).discard(uid)
            if not self._uids.get(key):
                self._uids.pop(key, None)


def _not_recorded(offer: PodOffer, error: OperationError, *, is_gone: bool) -> ManifestError:
    what = f"that the Pod {offer.pod.key} left" if is_gone else f"the Pod {offer.pod.key}"
    problem = f"{what} cannot be recorded: {error}"
    return ManifestError(
        problem, file=offer.place.origin, document=offer.document, remedy="it is tried again by itself"
    )
