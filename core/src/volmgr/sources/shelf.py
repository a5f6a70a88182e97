"""Things by kind and size, in order: finding the smallest that is large enough costs little, however many there are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from volmgr.model.volume import VolumeMode

K = TypeVar("K", bound=Any)
"""Names of what is kept, which can be put in order."""
A = TypeVar("A")
B = TypeVar("B")

Kind = tuple[str, "VolumeMode"]
"""Class and mode: a claim and a volume that differ in these never fit."""


class Shelf(Generic[K]):
    """Names by kind, sorted by size and name."""

    def __init__(self) -> None:
        """Start empty."""
        self._rows: dict[Kind, list[tuple[int, K]]] = {}
        self._places: dict[K, tuple[Kind, int]] = {}

    def __contains__(self, name: object) -> bool:
        """Say whether a name is there."""
        return name in self._places

    def __iter__(self) -> Iterator[K]:
        """Give every name."""
        return iter(tuple(self._places))

    def put(self, name: K, kind: Kind, size: int) -> None:
        """Put a name where it belongs now."""
        self.remove(name)
        self._places[name] = kind, size
        insort(self._rows.setdefault(kind, []), (size, name))

    def remove(self, name: K) -> None:
        """Take a name away, if it is there."""
        kind, size = self._places.pop(name, (None, 0))
        if kind is None:
            return
        row = self._rows[kind]
        del row[bisect_left(row, (size, name))]
        if not row:
            del self._rows[kind]

    def at_least(self, kind: Kind, size: int) -> Iterator[K]:
        """Give the names of a kind that have at least this size, the smallest first."""
        row = self._rows.get(kind, [])
        start = bisect_left(row, size, key=_size)
        return (row[index][1] for index in range(start, len(row)))

    def at_most(self, kind: Kind, size: int) -> Iterator[K]:
        """Give the names of a kind that have at most this size, the largest first; of equal ones in their order."""
        row = self._rows.get(kind, [])
        end = bisect_right(row, size, key=_size)
        while end > 0:
            start = bisect_left(row, row[end - 1][0], hi=end, key=_size)
            yield from (row[index][1] for index in range(start, end))
            end = start


class Links(Generic[A, B]):
    """Which one each thing belongs to, and what belongs to each one."""

    def __init__(self) -> None:
        """Start empty."""
        self._ones: dict[B, A] = {}
        self._things: dict[A, set[B]] = {}

    def __iter__(self) -> Iterator[B]:
        """Give every thing."""
        return iter(tuple(self._ones))

    def put(self, one: A, thing: B) -> None:
        """Let a thing belong to one, and to no other."""
        self.drop(thing)
        self._ones[thing] = one
        self._things.setdefault(one, set()).add(thing)

    def drop(self, thing: B) -> None:
        """Let a thing belong to none."""
        if thing not in self._ones:
            return
        one = self._ones.pop(thing)
        self._things[one].discard(thing)
        if not self._things[one]:
            del self._things[one]

    def of(self, one: A) -> frozenset[B]:
        """Give what belongs to one."""
        return frozenset(self._things.get(one, ()))


def _size(entry: tuple[int, Any]) -> int:
    return entry[0]
