"""Which endpoints (servers, portals, drivers) do not answer, and since when. No clock: the caller brings the time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from volmgr.report.times import rfc3339

WORDS = "does not answer since"
"""What stands between an endpoint and the time."""


@dataclass(frozen=True, slots=True)
class _Silence:
    """Of one endpoint; `heard` is when it was last found silent. Both are Unix time in seconds."""

    since: float
    heard: float


class Silences:
    """By endpoint as admission knows it: the name of its volume type, a space, and what that calls it."""

    def __init__(self, lasting: float) -> None:
        """Take a silence of which nothing was heard for `lasting` seconds for one that is over: nobody has asked."""
        self._lasting = lasting
        self._silences: dict[str, _Silence] = {}

    def note(self, endpoint: str, since: float, now: float) -> None:
        """Note that an operation, which began at `since`, found an endpoint silent."""
        known = self._known(endpoint, now) or _Silence(since, now)
        self._silences[endpoint] = replace(known, heard=now)

    def end(self, endpoint: str) -> None:
        """Note that an endpoint has answered."""
        self._silences.pop(endpoint, None)

    def text(self, endpoint: str, now: float) -> str:
        """Say since when an endpoint does not answer; nothing where it does, or was not asked for long."""
        known = self._known(endpoint, now)
        return "" if known is None else f"{endpoint.partition(' ')[2]} {WORDS} {rfc3339(known.since)}"

    def _known(self, endpoint: str, now: float) -> _Silence | None:
        known = self._silences.get(endpoint)
        return None if known is None or now - known.heard > self._lasting else known
