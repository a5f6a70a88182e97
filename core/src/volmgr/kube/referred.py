"""The objects that this node's Pods refer to: followed while one does, and not a moment longer.

The Node authorizer lets a node read just these. ConfigMaps and Secrets are watched one by one, up to a limit; the
rest of them, and what a node may only GET, is asked for (`following`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from volmgr.kube.collection import Collection
from volmgr.kube.following import Asked, Following, Surroundings, Watched
from volmgr.kube.resources import (
    ATTACHMENTS,
    BY_KIND,
    CLAIMS,
    CONFIG_MAPS,
    CSI_DRIVERS,
    SECRETS,
    TRUST_BUNDLES,
    VOLUMES,
)
from volmgr.model.meta import ObjectRef

WATCHED = frozenset({CONFIG_MAPS.kind, SECRETS.kind})
"""Kinds of which a node may watch single objects."""
ASKED = frozenset({CLAIMS.kind, VOLUMES.kind, ATTACHMENTS.kind})
"""Kinds of which a node may only GET."""
COLLECTED = frozenset({CSI_DRIVERS.kind, TRUST_BUNDLES.kind})
"""Kinds that a node may watch as a whole."""

FETCHED = WATCHED | ASKED | COLLECTED
"""Kinds that are read from the server when a Pod refers to one; of the others there are none."""


class ReferredObjects:
    """Follows what is referred to; on the thread of kube mode."""

    def __init__(self, around: Surroundings, counted: Callable[[], None]) -> None:
        """Call `counted` whenever there are more or fewer `watches`, or objects that are `asked` for."""
        self._around = around
        self._counted = counted
        self._limit = around.settings.object_watches if around.api.watch_target() is not None else 0
        self._following: dict[ObjectRef, Following] = {}
        self._watched: set[ObjectRef] = set()
        self._overflow: dict[ObjectRef, None] = {}
        """ConfigMaps and Secrets for which no watch was left, the longest waiting first."""
        self._collections: dict[str, Collection] = {}

    @property
    def watches(self) -> int:
        """How many there are; one of a kind is for all of its objects."""
        return len(self._watched) + len(self._collections)

    @property
    def asked(self) -> int:
        """Objects that are asked for."""
        return len(self._following) - len(self._watched)

    def refer(self, added: Iterable[ObjectRef], removed: Iterable[ObjectRef]) -> None:
        """Follow what is referred to now, and no longer what is not."""
        before = self.watches, self.asked
        for ref in sorted(removed):
            self._forget(ref)
        self._promote()  # before those that come: what waits longer is first
        for ref in sorted(added):
            self._follow(ref)
        if (self.watches, self.asked) != before:
            self._counted()

    def renew(self, refs: Iterable[ObjectRef]) -> None:
        """Ask at once for what of these is asked for: it was made anew."""
        for ref in sorted(refs):
            following = self._following.get(ref)
            if isinstance(following, Asked):
                following.renew()

    def stop(self) -> None:
        """Follow nothing any more."""
        for each in (*self._following.values(), *self._collections.values()):
            each.stop()

    def _follow(self, ref: ObjectRef) -> None:
        if ref.kind in COLLECTED:
            collection = self._collections.get(ref.kind)
            if collection is None:
                collection = self._collections[ref.kind] = Collection(self._around, BY_KIND[ref.kind])
                collection.start()
            collection.want(ref)
        elif ref in self._following:
            return
        elif ref.kind in WATCHED and len(self._watched) < self._limit:
            self._begin(ref, Watched(self._around, ref))
            self._watched.add(ref)
        elif ref.kind in WATCHED | ASKED:
            self._begin(ref, Asked(self._around, ref))
            if ref.kind in WATCHED:
                self._overflow[ref] = None

    def _begin(self, ref: ObjectRef, following: Following) -> None:
        self._following[ref] = following
        following.start()

    def _forget(self, ref: ObjectRef) -> None:
        collection = self._collections.get(ref.kind)
        if collection is not None:
            collection.want_no_more(ref)
            if not collection.is_wanted:
                del self._collections[ref.kind]
                collection.stop()
            return
        following = self._following.pop(ref, None)
        if following is not None:
            following.stop()
            self._watched.discard(ref)
            self._overflow.pop(ref, None)
            self._around.intake.withdraw(BY_KIND[ref.kind], ref.namespace, ref.name)

    def _promote(self) -> None:
        """Give watches that are free to what is only asked for."""
        while self._overflow and len(self._watched) < self._limit:
            ref = next(iter(self._overflow))
            del self._overflow[ref]
            self._following[ref].stop()
            self._begin(ref, Watched(self._around, ref))
            self._watched.add(ref)
