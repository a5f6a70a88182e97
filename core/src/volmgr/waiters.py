"""Who waits for a Pod: looked at only when something of that Pod changed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from volmgr.report.world import World


@dataclass(slots=True)
class Waiter:
    """Somebody waits until `reached` is true of the world; looked at when one of its Pod's volumes changed."""

    selector: str
    reached: Callable[[World, str], bool]
    done: threading.Event = field(default_factory=threading.Event)


class Waiters:
    """The waiting clients, by the texts under which their Pod may be notified."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiters: dict[str, list[Waiter]] = {}

    def add(self, waiter: Waiter) -> None:
        """Subscribe; done at once when it is true already."""
        if waiter.reached(self._world, waiter.selector):
            waiter.done.set()
            return
        for key in _keys(waiter.selector):
            self._waiters.setdefault(key, []).append(waiter)

    def remove(self, waiter: Waiter) -> None:
        """Unsubscribe."""
        for key in _keys(waiter.selector):
            left = [other for other in self._waiters.pop(key, []) if other is not waiter]
            if left:
                self._waiters[key] = left

    def notify(self, selector: str) -> None:
        """Look at those who wait for a UID or `namespace/name`."""
        for waiter in tuple(self._waiters.get(selector, ())):
            if waiter.reached(self._world, waiter.selector):
                self.remove(waiter)
                waiter.done.set()

    def notify_all(self) -> None:
        """Look at everybody."""
        for selector in tuple(self._waiters):
            self.notify(selector)


def _keys(selector: str) -> tuple[str, ...]:
    """Give the texts under which a waiter is found: a UID, `namespace/name`, or a name in namespace default."""
    return (selector,) if "/" in selector else (selector, f"default/{selector}")
