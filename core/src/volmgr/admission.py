"""Which operations may run now: exclusion by key, and back-off. Pure: the caller brings the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.config import Config
from volmgr.operations import Operation, Verb

if TYPE_CHECKING:
    from volmgr.model.volume import Facets

_DEFAULTS = Config()

EVERYBODY = ""
"""The Pod key of an operation on the volume as a whole: it conflicts with every holder of that volume."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """When a failed operation may be tried again; `until` and `since` are the caller's time in seconds."""

    delay: float
    until: float
    since: float
    attempts: int
    error: str
    after: str = ""
    """What it is tried again after, where it is no time: what the operation waits for; empty: a manifest's change."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a running operation holds."""

    volume: str
    pod_uid: str
    exclusive: tuple[str, ...] = ()
    endpoint: str = ""


def holds_of(operation: Operation, facets: Facets | None, exclusive: tuple[str, ...] = (), endpoint: str = "") -> Held:
    """Say what an operation needs for itself (behaviours §2.7).

    (volume, pod): unmounts, and mounts of volumes that are neither attachable nor device-mountable; all other
    operations need the whole volume.
    """
    alone = operation.verb is Verb.UNMOUNT or (
        operation.verb is Verb.MOUNT and facets is not None and not facets.attach and not facets.device
    )
    return Held(operation.volume, operation.pod_uid if alone else EVERYBODY, exclusive, endpoint)


def conflict(one: Held, other: Held) -> bool:
    """Say whether two may not be held at the same time; of an endpoint, several may be."""
    same_pod = one.pod_uid == other.pod_uid or EVERYBODY in {one.pod_uid, other.pod_uid}
    return (one.volume == other.volume and same_pod) or not set(one.exclusive).isdisjoint(other.exclusive)


class Admission:
    """Who holds what, and what is backed off. Owned by the reconciler."""

    def __init__(self, config: Config = _DEFAULTS) -> None:
        """Start with nothing held; the configuration says how long to back off, and how many an endpoint bears."""
        self._config = config
        self._endpoints: dict[str, set[Held]] = {}
        self._volumes: dict[str, set[str]] = {}
        self._exclusive: dict[str, str] = {}
        self._waiting: dict[str, set[str]] = {}
        self._left: list[Held] = []
        """What helpers of an earlier daemon hold. They may overlap: that one knew which of them it could let run."""
        self._wait_for_left: set[str] = set()
        self._backoffs: dict[tuple[str, str], dict[Verb, Backoff]] = {}

    def __len__(self) -> int:
        """Count the running operations."""
        return sum(len(pods) for pods in self._volumes.values())

    def try_hold(self, held: Held) -> bool:
        """Take what an operation needs; False (and nothing taken) when somebody holds part of it.

        A volume refused for an `exclusive` key is given back by `release` of its holder.
        """
        if any(conflict(left, held) for left in self._left):
            self._wait_for_left.add(held.volume)
            return False
        holders = self._volumes.get(held.volume)
        if holders and (held.pod_uid in holders or EVERYBODY in holders or held.pod_uid == EVERYBODY):
            return False
        taken = [key for key in held.exclusive if key in self._exclusive]
        if held.endpoint and len(self._endpoints.get(held.endpoint, ())) >= self._config.endpoint_operations:
            taken.append(held.endpoint)
        if taken:
            for key in taken:
                self._waiting.setdefault(key, set()).add(held.volume)
            return False
        self._volumes.setdefault(held.volume, set()).add(held.pod_uid)
        for key in held.exclusive:
            self._exclusive[key] = held.volume
        if held.endpoint:
            self._endpoints.setdefault(held.endpoint, set()).add(held)
        return True

    def quarantine(self, held: Held) -> tuple[str, ...]:
        """Let an overdue operation leave its endpoint's limit; it keeps everything else until it has ended."""
        return self._leave_endpoint(held)

    def _leave_endpoint(self, held: Held) -> tuple[str, ...]:
        there = self._endpoints.get(held.endpoint)
        if there is None or held not in there:
            return ()
        there.discard(held)
        if not there:
            del self._endpoints[held.endpoint]
        return tuple(sorted(self._waiting.pop(held.endpoint, set())))

    def release(self, held: Held) -> tuple[str, ...]:
        """Give back what an operation held; gives the volumes that are to be looked at again."""
        holders = self._volumes[held.volume]
        holders.discard(held.pod_uid)
        if not holders:
            del self._volumes[held.volume]
        again = {held.volume, *self._leave_endpoint(held)}
        for key in held.exclusive:
            self._exclusive.pop(key, None)
            again |= self._waiting.pop(key, set())
        return tuple(sorted(again))

    def leave(self, held: Held) -> None:
        """Keep from everybody what a helper of an earlier daemon may still change; call it before anything is held."""
        self._left.append(held)

    def give_back(self, held: Held) -> tuple[str, ...]:
        """Take that back: the helper has ended; gives the volumes that are to be looked at again."""
        self._left.remove(held)
        again, self._wait_for_left = self._wait_for_left, set()
        return tuple(sorted({held.volume, *again}))

    def is_held(self, volume: str) -> bool:
        """Say whether any operation of a volume runs, or a helper of an earlier daemon."""
        return volume in self._volumes or any(left.volume == volume for left in self._left)

    def backoff(self, operation: Operation) -> Backoff | None:
        """Give the back-off of an operation, over or not."""
        return self._backoffs.get((operation.volume, operation.pod_uid), {}).get(operation.verb)

    def turn(self, operation: Operation) -> None:
        """Drop back-offs of the other direction: that Pod's (or device's) direction has reversed."""
        slot = self._backoffs.get((operation.volume, operation.pod_uid))
        if slot:
            for verb in [verb for verb in slot if verb.is_making != operation.verb.is_making]:
                del slot[verb]

    def failed(
        self,
        operation: Operation,
        error: str,
        now: float,
        *,
        final: bool = False,
        after: str = "",
        longest: float | None = None,
    ) -> Backoff:
        """Note a failure and give when to try again: ever later, between the configured bounds.

        `final`: never by itself, but `after` something. `longest` is in seconds, and stands for `backoff_max` where
        less is allowed.
        """
        slot = self._backoffs.setdefault((operation.volume, operation.pod_uid), {})
        old = slot.get(operation.verb)
        delay = old.delay * 2 if old else self._config.backoff_initial
        delay = min(delay, self._config.backoff_max, self._config.backoff_max if longest is None else longest)
        until = float("inf") if final else now + delay
        new = Backoff(delay, until, old.since if old else now, (old.attempts if old else 0) + 1, error, after)
        slot[operation.verb] = new
        return new

    def forget(
        self,
        volume: str,
        pod_uid: str,
        verb: Verb | None = None,
        *,
        final_only: bool = False,
        spared: Verb | None = None,
    ) -> None:
        """Drop back-offs: the operation was done, its spec changed, or what it waited for appeared.

        `final_only` drops those that would never be tried again, but that of the `spared` verb.
        """
        slot = self._backoffs.get((volume, pod_uid))
        if slot is None:
            return
        for name, backoff in tuple(slot.items()):
            if name is not spared and verb in (None, name) and (not final_only or backoff.until == float("inf")):
                del slot[name]
        if not slot:
            del self._backoffs[(volume, pod_uid)]
