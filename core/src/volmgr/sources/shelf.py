"""Things in rows by size, in order: finding the smallest that is large enough costs little, however many there are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Any)
"""Names of what is kept, which can be put in order."""
R = TypeVar("R")
"""What a row is of."""
A = TypeVar("A")
B = TypeVar("B")


class Shelf(Generic[R, K]):
    """Names in rows, each sorted by size and name; a name has one size, and may be in several rows or in none."""

    def __init__(self) -> None:
        """Start empty."""
        self._rows: dict[R, list[tuple[int, K]]] = {}
        self._places: dict[K, tuple[int, set[R]]] = {}

    def __contains__(self, name: object) -> bool:
        """Say whether a name is there."""
        return name in self._places

    def __iter__(self) -> Iterator[K]:
        """Give every name."""
        return iter(tuple(self._places))

    def put(self, name: K, rows: Iterable[R], size: int) -> None:
        """Put a name where it belongs now."""
        self.remove(name)
        self._places[name] = size, set()
        for row in rows:
            self.add(row, name)

    def add(self, row: R, name: K) -> None:
        """Put a name that is there into one more row."""
        size, rows = self._places[name]
        if row not in rows:
            rows.add(row)
            insort(self._rows.setdefault(row, []), (size, name))

    def remove(self, name: K) -> None:
        """Take a name away, if it is there."""
        size, rows = self._places.pop(name, (0, set[R]()))
        for row in rows:
            entries = self._rows[row]
            del entries[bisect_left(entries, (size, name))]
            if not entries:
                del self._rows[row]

    def clear(self, row: R) -> None:
        """Take a row away; its names stay where else they are."""
        for _, name in self._rows.pop(row, ()):
            self._places[name][1].discard(row)

    def size(self, name: K) -> int:
        """Give the size of a name that is there."""
        return self._places[name][0]

    def rows(self) -> Collection[R]:
        """Give every row that holds a name."""
        return self._rows.keys()

    def rows_of(self, name: K) -> Collection[R]:
        """Give the rows that a name is in."""
        return self._places[name][1]

    def names(self, row: R) -> list[K]:
        """Give the names of a row, the smallest first."""
        return [name for _, name in self._rows.get(row, ())]

    def count(self, row: R) -> int:
        """Give how many names a row has."""
        return len(self._rows.get(row, ()))

    def at_least(self, row: R, size: int) -> K | None:
        """Give the smallest of a row that has at least this size; of equal ones the first."""
        entries = self._rows.get(row, [])
        index = bisect_left(entries, size, key=_size)
        return entries[index][1] if index < len(entries) else None

    def at_most(self, row: R, size: int) -> K | None:
        """Give the largest of a row that has at most this size; of equal ones the first."""
        entries = self._rows.get(row, [])
        end = bisect_right(entries, size, key=_size)
        return entries[bisect_left(entries, entries[end - 1][0], hi=end, key=_size)][1] if end else None


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
