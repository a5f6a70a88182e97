"""What a driver was told to do wrong: rules, which calls use up, and gates, at which calls wait for a test."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.eventually import PATIENCE

FOREVER = -1
CRASHES = ("before", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How calls of one method go, until `times` of them went so; the first rule that fits a call is its rule."""

    method: str
    """`NodeStageVolume`; of the registration, `GetInfo` and `NotifyRegistrationStatus`."""
    code: str = ""
    """gRPC's name of the error to answer, such as `UNAVAILABLE`; empty: the answer of the work."""
    message: str = ""
    skip_work: bool | None = None
    """Whether the work is left out; None: it is where there is a code."""
    delay_before: float = 0.0
    """Seconds before the work. A gate says when, and needs no guess."""
    delay_after: float = 0.0
    """Seconds between the work and the answer."""
    gate_before: str = ""
    """The gate that the call waits at before its work."""
    gate_after: str = ""
    """The gate that the call waits at between its work and its answer."""
    crash: str = ""
    """`before` or `after` the work, after its gate, the process kills itself."""
    times: int = 1
    """How many calls this is for, or FOREVER."""
    match: Mapping[str, str] = field(default_factory=dict[str, str])
    """Fields of the request by their proto names (`volume_id`), and what they must be."""
    answer: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What to change in the answer of the work, as protobuf's JSON."""

    def __post_init__(self) -> None:
        assert self.crash in ("", *CRASHES), self.crash

    @property
    def skips_work(self) -> bool:
        """Say whether the driver does nothing."""
        return bool(self.code) if self.skip_work is None else self.skip_work

    def fits(self, method: str, request: object) -> bool:
        """Say whether it is for this call."""
        return method == self.method and all(getattr(request, key, None) == value for key, value in self.match.items())

    def as_json(self) -> dict[str, Any]:
        """Give it as it is told to a process."""
        return asdict(self)


class Script:
    """The rules and gates of one driver; used by its calls and by a test, at once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rules: list[tuple[Rule, int]] = []
        self._open: set[str] = set()
        self._arrivals: dict[str, int] = {}
        self._is_over = False

    def add(self, rules: Iterable[Rule]) -> None:
        """Let rules hold, after those that hold."""
        with self._changed:
            self._rules += [(rule, rule.times) for rule in rules]

    def clear(self) -> None:
        """Let no rule hold any more; a call that waits goes on waiting."""
        with self._changed:
            self._rules.clear()

    def take(self, method: str, request: object) -> Rule:
        """Give the rule of a call, which is used up by that."""
        with self._changed:
            for index, (rule, left) in enumerate(self._rules):
                if rule.fits(method, request):
                    if left == 1:
                        del self._rules[index]
                    elif left != FOREVER:
                        self._rules[index] = rule, left - 1
                    return rule
        return Rule(method=method)

    def wait_at(self, gate: str) -> None:
        """Return when a gate is open, at once where there is none."""
        if not gate:
            return
        with self._changed:
            self._arrivals[gate] = self._arrivals.get(gate, 0) + 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._is_over or gate in self._open)

    def open(self, gate: str) -> None:
        """Let calls through, also those that come later."""
        with self._changed:
            self._open.add(gate)
            self._changed.notify_all()

    def until_reached(self, gate: str, calls: int = 1) -> None:
        """Return when so many calls came to a gate."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._arrivals.get(gate, 0) >= calls, PATIENCE)
        assert came, f"never came to the gate {gate}: {calls} calls"

    def end(self) -> None:
        """Let every call go on: the driver stops."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
