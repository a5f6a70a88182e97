"""Which Pods refer to which objects, who is told of that, and what is known of an object that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.desired import READING
from volmgr.populator import every

if TYPE_CHECKING:
    from volmgr.desk import Desk
    from volmgr.model.meta import ObjectRef
    from volmgr.timers import Timer


class References:
    """Belongs to the reconciler's thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._world = desk.world
        self._users: dict[ObjectRef, set[str]] = {}
        self._followed: set[ObjectRef] = set()
        """Objects of which the API server's source was told that Pods refer to them."""
        self._changed: set[ObjectRef] = set()
        """Objects that got their first user, or lost the last one, since that source was told."""
        self._retain_timer: Timer | None = None

    def users(self, ref: ObjectRef) -> tuple[str, ...]:
        """Give the Pods that refer to an object, or select among all of its kind, by UID."""
        return tuple(sorted({*self._users.get(ref, ()), *self._users.get(every(ref), ())}))

    def put(self, uid: str, references: set[ObjectRef]) -> None:
        """Let a Pod refer to exactly these objects."""
        old = self._desk.references.get(uid, set())
        if references == old:
            return
        for ref in old - references:
            users = self._users[ref]
            users.discard(uid)
            if not users:
                del self._users[ref]
                self._changed.add(ref)
        for ref in references - old:
            if ref not in self._users:
                self._changed.add(ref)
                if why := self.awaited(ref):
                    self._world.awaited_objects[ref] = why
            self._users.setdefault(ref, set()).add(uid)
        if references:
            self._desk.references[uid] = references
        else:
            self._desk.references.pop(uid, None)
        self.retain_soon()

    def awaited(self, ref: ObjectRef) -> str:
        """Say why it is not known whether there is an object, be it that nobody has referred to it before."""
        if ref in self._users or ref in self._followed:
            return self._world.awaited(ref)
        return READING if ref.kind in self._world.fetched_kinds and not self._is_known(ref) else ""

    def wait_for(self, ref: ObjectRef, why: str) -> bool:
        """Remember why it is not known whether there is an object; False when that is no news, or it was there."""
        news = ref in self._users and not self._is_known(ref) and self._world.awaited(ref) != why
        if news:
            self._world.awaited_objects[ref] = why
        return news

    def let_go(self, ref: ObjectRef) -> None:
        """Take note that an object's source has it no longer: the one that fetches says next whether there is one."""
        if ref in self._followed and ref in self._users:
            self._world.awaited_objects.setdefault(ref, READING)

    def _is_known(self, ref: ObjectRef) -> bool:
        """Say whether an object is there, or of all of a kind at least one (from records: then they are all there)."""
        objects = self._world.objects
        return ref in objects or (not ref.name and any(every(other) == ref for other in objects))

    def tell(self) -> None:
        """Tell the API server's source which objects Pods refer to now, and which no longer, once for many changes."""
        if not self._changed:
            return
        changed = {ref for ref in self._changed if ref.kind in self._world.fetched_kinds}
        self._changed.clear()
        added = frozenset(ref for ref in changed - self._followed if ref in self._users)
        removed = frozenset(ref for ref in changed & self._followed if ref not in self._users)
        self._followed |= added
        self._followed -= removed
        for ref in removed:
            self._world.awaited_objects.pop(ref, None)
        if added or removed:
            self._desk.outside.referred(added, removed)

    def retain_soon(self) -> None:
        """Let the objects in use be kept on disk, once for many changes."""
        if self._retain_timer is None:
            when = self._desk.outside.monotonic() + self._desk.config.retain_debounce
            self._retain_timer = self._desk.timers.at(when, self._retain)

    def _retain(self) -> None:
        """Do so when every source was read (it is called again then): before, not everything in use is known."""
        self._retain_timer = None
        if self._world.readiness.unmount or self._world.draining:
            self._desk.outside.retain(frozenset(self._users), frozenset(self._desk.living))
