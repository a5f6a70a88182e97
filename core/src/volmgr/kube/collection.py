"""Following all objects of a kind on an API server, by one watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from volmgr.kube.intake import origin_of
from volmgr.kube.reflector import Reflector

if TYPE_CHECKING:
    from volmgr.kube.errors import ApiError
    from volmgr.kube.following import Surroundings
    from volmgr.kube.resources import Resource
    from volmgr.kube.wire import Seen
    from volmgr.model.meta import ObjectRef


class Collection:
    """All objects of a cluster-wide kind, by one watch, for who refers to one of them or selects among them."""

    def __init__(self, around: Surroundings, resource: Resource) -> None:
        self._around = around
        self._resource = resource
        self._names: set[str] = set()
        self._read = False
        self._problem: ApiError | None = None
        self._wanted: set[ObjectRef] = set()
        self._reflector = Reflector(around.thread, around.api, resource, self, around.settings)

    @property
    def is_wanted(self) -> bool:
        """Say whether somebody refers to one of them."""
        return bool(self._wanted)

    def start(self) -> None:
        """Begin to follow them."""
        self._reflector.start()

    def stop(self) -> None:
        """Follow them no longer."""
        self._reflector.stop()
        for origin in self._around.intake.standing(self._resource):
            self._around.intake.withdraw_origin(origin)

    def want(self, ref: ObjectRef) -> None:
        """Say of one more reference what is known: an object, or all of them (an empty name)."""
        self._wanted.add(ref)
        self._say(ref)

    def want_no_more(self, ref: ObjectRef) -> None:
        """Forget a reference."""
        self._wanted.discard(ref)

    def listed(self, seen: Sequence[Seen]) -> None:
        """Take the whole set, also in place of what stood by a record."""
        names = {each.name for each in seen}
        there = {origin_of(self._resource, "", name) for name in names}
        for origin in self._around.intake.standing(self._resource) - there:
            self._around.intake.withdraw_origin(origin)
        for each in seen:
            self._around.intake.offer(self._resource, each)
        self._names = names
        self._read = True
        self._say_all()

    def changed(self, seen: Seen) -> None:
        """Take one as it is now."""
        self._names.add(seen.name)
        self._around.intake.offer(self._resource, seen)

    def gone(self, seen: Seen) -> None:
        """Take note that one was deleted."""
        self._names.discard(seen.name)
        self._around.intake.withdraw(self._resource, "", seen.name)
        self._say_all()

    def troubled(self, error: ApiError | None) -> None:
        """Say why they are not known."""
        self._problem = error
        if not self._read:
            self._say_all()

    def _say_all(self) -> None:
        for ref in sorted(self._wanted):
            self._say(ref)

    def _say(self, ref: ObjectRef) -> None:
        if self._read and ref.name not in self._names:
            self._around.registry.absent_object(ref)
        elif not self._read and self._problem is not None:
            self._around.registry.await_object(ref, str(self._problem))
