"""What is known of the certificate of one source of a volume, and what a signer's answer makes of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from volmgr.host.interface.certificates import Certificate
from volmgr.kube.resources import CERTIFICATE_REQUESTS
from volmgr.kube.wire import Seen

ABANDONED = 600.0
"""Seconds after which a request that was never seen counts as deleted; kubelet's assumeDeletedThreshold."""
SPREAD = 300.0
"""Seconds by which certificates are replaced later than their signer says, at random; kubelet's jitter."""
FAILED_PAUSE = 60.0
"""Seconds until another request follows one that failed: each stays on the server for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is known of one source: `good` is the certificate that it has, `name` the request that waits."""

    good: Certificate | None = None
    signer: str = ""
    name: str = ""
    namespace: str = ""
    private: bytes = field(default=b"", repr=False)
    since: float = 0.0
    seen: bool = False
    refusal: str = ""
    is_final: bool = False
    until: float = 0.0
    """When another request may follow the refusal."""

    @property
    def waits_for(self) -> str:
        return f"{CERTIFICATE_REQUESTS.kind} {self.namespace}/{self.name}"

    def may_ask(self, now: float) -> bool:
        """Say whether it is time for another request."""
        if self.name:
            return not self.seen and now >= self.since + ABANDONED
        return not self.refusal or (not self.is_final and now >= self.until)


class _Condition(msgspec.Struct):
    type: str
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[_Condition] = []
    certificate_chain: str = ""
    begin_refresh_at: datetime | None = None
    not_after: datetime | None = None


class _Request(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


def settled(state: State, seen: Seen, now: float, share: float) -> State:
    """Give what a waiting source has become by what the server shows of its request."""
    try:
        status = msgspec.json.decode(seen.raw, type=_Request).status
    except msgspec.DecodeError as error:
        return _failed(state, f"{state.waits_for} cannot be read: {error}", now)
    for said in status.conditions:
        match said.type:
            case "Issued":
                return _issued(state, status, now, share)
            case "Denied" | "Failed":
                return _refused(state, said, now)
            case _:
                pass
    return replace(state, seen=True)


def _issued(state: State, status: _Status, now: float, share: float) -> State:
    from volmgr.kube.key_pairs import plain_chain

    try:
        chain = plain_chain(status.certificate_chain)
    except ValueError:
        problem = f"signer {state.signer} gave damaged certificates ({state.waits_for}); look at the signer"
        return _failed(state, problem, now)
    end = status.not_after.timestamp() if status.not_after else 0.0
    begin = status.begin_refresh_at.timestamp() if status.begin_refresh_at else end
    due = min(begin + share * min(SPREAD, max(0.0, end - begin) / 2), end)
    return State(good=Certificate(key=state.private, chain=chain, due_at=due, expires_at=end))


def _refused(state: State, said: _Condition, now: float) -> State:
    why = ": ".join(part for part in (said.reason, said.message) if part) or "it does not say why"
    if said.type == "Failed":
        return _failed(state, f"signer {state.signer} failed to sign a certificate ({state.waits_for}): {why}", now)
    problem = f"signer {state.signer} denied a certificate ({state.waits_for}): {why}"
    remedy = "change podCertificate, or what the signer allows, and create the Pod anew"
    return replace(_failed(state, f"{problem}; {remedy}", now), is_final=True)


def _failed(state: State, refusal: str, now: float) -> State:
    return State(good=state.good, refusal=refusal, until=now + FAILED_PAUSE)
