"""When a driver that is registered is asked anew: after it started again, was not reached, or as its CSIDriver wishes.

No thread, no grpc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from volmgr_csi.driver.sockets import Stamp
from volmgr_csi.registrar.event_loop import NEVER
from volmgr_csi.registrar.registered_drivers import Registration
from volmgr_csi.registrar.rules import back_off

AT_MOST = 10.0
"""Seconds between two inquiries because a call lost its driver: it may say itself that it is unavailable."""


@dataclass(slots=True)
class Inquiry:
    """One driver; times are monotonic seconds."""

    asked: float
    served: Stamp | None
    """Which socket it serves, as far as that was seen."""
    due: float = NEVER
    failures: int = 0
    is_running: bool = False
    is_new: bool = False
    """It started again, or was not reached: who waits for it is to be told that it is there."""

    def wish(self, at: float) -> None:
        """Have it asked, unless it is tried again anyway."""
        if self.due == NEVER:
            self.due = at


@dataclass(slots=True)
class Inquiries:
    """Those of all drivers that are registered."""

    period: Callable[[str], float]
    """How often a driver is asked anew, in seconds; 0: never."""
    _by_name: dict[str, Inquiry] = field(default_factory=dict[str, Inquiry])

    def follow(self, entries: Mapping[str, Registration], now: float) -> None:
        """Know of the drivers that are registered, and of no others."""
        for name in self._by_name.keys() - entries.keys():
            del self._by_name[name]
        for name, entry in entries.items():
            if name not in self._by_name:
                self._by_name[name] = Inquiry(now, entry.served)
                if not entry.is_complete:
                    self.failed(name, now)

    def is_restarted(self, name: str, serves: Stamp | None, now: float) -> bool:
        """Take note of the socket that lies where a driver serves; say whether it is another one than before."""
        inquiry = self._by_name[name]
        if serves is None or serves == inquiry.served:
            return False
        inquiry.served, inquiry.due, inquiry.failures, inquiry.is_new = serves, now, 0, True
        return True

    def wish(self, name: str, now: float, *, is_lost: bool) -> None:
        """Have a driver asked soon; not too often where all that is known is that a call lost it."""
        inquiry = self._by_name.get(name)
        if inquiry is None or (is_lost and inquiry.is_running):  # it may be the inquiry's own call
            return
        inquiry.wish(max(now, inquiry.asked + AT_MOST) if is_lost else now)

    def await_it(self, name: str, now: float) -> None:
        """Take note that somebody waits until a driver answers, and have it asked soon."""
        if (inquiry := self._by_name.get(name)) is not None:
            inquiry.is_new = True
            inquiry.wish(now)

    def begin(self, now: float) -> dict[str, bool]:
        """Give the drivers that are to be asked now, and whether it is news that they answer."""
        found: dict[str, bool] = {}
        for name, inquiry in self._by_name.items():
            if not inquiry.is_running and self._at(name, inquiry) <= now:
                found[name] = inquiry.is_new
                inquiry.is_running, inquiry.is_new, inquiry.due, inquiry.asked = True, False, NEVER, now
        return found

    def answered(self, name: str) -> None:
        """Take note that a driver has said all."""
        if (inquiry := self._by_name.get(name)) is not None:
            inquiry.is_running, inquiry.failures = False, 0

    def failed(self, name: str, now: float) -> bool:
        """Take note that a driver has not; say whether that is the first time."""
        inquiry = self._by_name.get(name)
        if inquiry is None:
            return False
        inquiry.is_running, inquiry.is_new = False, True
        inquiry.failures += 1
        inquiry.wish(now + back_off(inquiry.failures))
        return inquiry.failures == 1

    def next_due(self) -> float:
        """Give when a driver is to be asked next."""
        waiting = [(name, inquiry) for name, inquiry in self._by_name.items() if not inquiry.is_running]
        return min((self._at(name, inquiry) for name, inquiry in waiting), default=NEVER)

    def _at(self, name: str, inquiry: Inquiry) -> float:
        period = self.period(name)
        return min(inquiry.due, inquiry.asked + period) if period else inquiry.due
