"""What is known of each socket to register from, and of each that the configuration names. No thread, no grpc."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from volmgr_csi.driver.sockets import Stamp
from volmgr_csi.registrar.event_loop import NEVER
from volmgr_csi.registrar.handshake import Ended, Handshake, Outcome
from volmgr_csi.registrar.rules import back_off

FRESH = 10.0
"""Seconds for which who bound a socket may not listen yet."""


_NOT_THERE = "drivers of the configuration names {}, where there is no socket; start it, or correct the path"


@dataclass(slots=True)
class WatchedSocket:
    """One path; times are monotonic seconds."""

    path: str
    expected: str = ""
    """The name that the configuration gives the driver that serves it; empty: it is a socket to register from."""
    stamp: Stamp | None = None
    """Which socket lies there."""
    handshake: Handshake | None = None
    outcome: Outcome | None = None
    """How the last handshake with that socket ended."""
    failures: int = 0
    due: float = NEVER
    """When it is tried (again)."""
    driver: str = ""
    problem: str = ""
    is_fresh: bool = False
    """Nobody may listen there yet."""

    def observe(self, stamp: Stamp | None, now: float, *, touched: bool, is_old: bool) -> None:
        """Take note of what lies there; `touched` says that something happened to it, or may have.

        `is_old`: it was there before anybody looked.
        """
        if stamp != self.stamp:
            self.cancel()
            self.stamp, self.outcome, self.failures, self.problem = stamp, None, 0, ""
            self.due = NEVER if stamp is None else now
            self.is_fresh = stamp is not None and (not is_old or time.time() - stamp.made / 1e9 < FRESH)
        elif touched and self.handshake is None and self.outcome in {Outcome.SILENT, Outcome.FAILED}:
            self.due, self.is_fresh = now, True

    def settle(self, ended: Ended, now: float) -> bool:
        """Take note of how its handshake ended; say whether that is news to people."""
        is_news = bool(ended.problem) and ended.problem != self.problem
        self.handshake, self.driver = None, ended.handshake.driver
        self.outcome, self.problem = ended.outcome, ended.problem
        self.failures = 0 if self.outcome is Outcome.REGISTERED else self.failures + 1
        self.due = now + back_off(self.failures) if self.outcome is Outcome.FAILED else NEVER
        return is_news

    def cancel(self) -> None:
        """Let a handshake that runs count no more."""
        if self.handshake is not None:
            self.handshake.cancel()
            self.handshake = None


@dataclass(slots=True)
class WatchedSockets:
    """All of them."""

    configured: Mapping[str, WatchedSocket]
    """By the driver's name."""
    registry: dict[str, WatchedSocket] = field(default_factory=dict[str, WatchedSocket])
    """By path."""

    def __iter__(self) -> Iterator[WatchedSocket]:
        yield from self.registry.values()
        yield from self.configured.values()

    def of(self, handshake: Handshake) -> WatchedSocket | None:
        """Give whose handshake that is, if it still counts."""
        where = self.configured.get(handshake.expected) or self.registry.get(handshake.path)
        return where if where is not None and where.handshake is handshake else None

    def due(self, now: float) -> list[WatchedSocket]:
        """Give what is to be tried."""
        return [
            watched
            for watched in self
            if watched.due <= now and watched.handshake is None and watched.stamp is not None
        ]

    def next_due(self) -> float:
        """Give when something is to be tried next."""
        return min((watched.due for watched in self if watched.handshake is None), default=NEVER)

    def vacate(self, driver: str, leaving: WatchedSocket, now: float) -> None:
        """Let the others of a driver's name be tried at once: one had it, and they had not, or not any more."""
        for watched in self:
            if watched.driver == driver and watched is not leaving and watched.handshake is None:
                watched.due = now

    def problems(self) -> Mapping[str, str]:
        """Give what is wrong, by the name of the driver, or by the path where that is not known."""
        found = {
            name: _NOT_THERE.format(watched.path) for name, watched in self.configured.items() if watched.stamp is None
        }
        return found | {
            watched.driver or watched.expected or watched.path: watched.problem for watched in self if watched.problem
        }

    def are_settled(self) -> bool:
        """Say whether it is known of each socket that lies there what came of it."""
        return all(watched.stamp is None or watched.outcome is not None for watched in self)
