"""Service account tokens: what may be configured of them, what one says, and when it is due. Pure.

Source: `pkg/serviceaccount/claims.go` of kube-apiserver 1.37, and kubelet's token manager.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from volmgr.errors import SpecError
from volmgr.model.duration import read_duration
from volmgr.model.names import is_subdomain
from volmgr.model.objects import ServiceAccount
from volmgr.model.pod import Pod
from volmgr.model.schema import load

REFRESH_SHARE = 0.8
"""The part of its life after which a token is replaced; kubelet's."""
REFRESH_AGE = 24 * 3600.0
"""Seconds after which a token is replaced at the latest; kubelet's maxTTL."""
LONGEST = 1 << 32
"""Seconds; no token may be asked for that lives longer. Kubernetes' limit of expirationSeconds."""


class Algorithm(Enum):
    """How tokens are signed, by a key that is made."""

    ES256 = "ES256"
    RS256 = "RS256"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIssuer:
    """`token_issuer` of the configuration: in whose name tokens are issued, and which."""

    issuer: str
    """The claim `iss`: a URL for whoever looks the key set up there."""
    audiences: tuple[str, ...] = ()
    """Audiences of a token whose volume names none; the issuer itself when there are none here."""
    algorithm: Algorithm = Algorithm.ES256
    """Of a key that is made; one that exists says itself what it is."""
    min_expiration: float = field(default=600.0, metadata={"name": "min_expiration", "read": read_duration})
    """Seconds; a volume may not ask for less. Kubernetes' 10 min."""
    max_expiration: float = field(default=float(LONGEST), metadata={"name": "max_expiration", "read": read_duration})
    """Seconds; who asks for more gets this. kube-apiserver's --service-account-max-token-expiration."""

    def __post_init__(self) -> None:
        """Refuse what no verifier accepts, and lives that end before they begin."""
        if not self.issuer or (":" in self.issuer and "://" not in self.issuer):
            raise ValueError(f"issuer {self.issuer!r} is no URL; write one such as https://issuer.example")
        if not 1 <= self.min_expiration <= self.max_expiration:
            raise ValueError("min_expiration is below 1 s or beyond max_expiration; write 10m and 24h, for example")


def read_token_issuer(value: object) -> TokenIssuer:
    """Read the option: a mapping, or only the issuer; raises ValueError or SchemaError."""
    return load(TokenIssuer, {"issuer": value} if isinstance(value, str) else value, path="token_issuer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A service account token, and its life (seconds of Unix time)."""

    value: str = field(repr=False)
    issued_at: float
    expires_at: float
    again_at: float | None = None
    """When it is to be replaced, if that was to be done already and failed."""

    @property
    def due_at(self) -> float:
        """When it is to be replaced: at 80 % of its life, after a day at the latest."""
        if self.again_at is not None:
            return self.again_at
        return self.issued_at + min(REFRESH_SHARE * (self.expires_at - self.issued_at), REFRESH_AGE)


def life_of(wanted: int, settings: TokenIssuer) -> int:
    """Give the seconds that a token lives which is asked for; raises SpecError for what nobody may ask."""
    if not settings.min_expiration <= wanted <= LONGEST:
        least = int(settings.min_expiration)
        raise SpecError(f"expirationSeconds is {wanted}; write a number from {least} to {LONGEST}")
    return min(wanted, int(settings.max_expiration))


def claims_of(
    pod: Pod, settings: TokenIssuer, *, audience: str, account: ServiceAccount | None, node_name: str
) -> dict[str, object]:
    """Say what a token bound to a Pod says, but for its life; a service account without an object has a UID, too.

    Raises SpecError for a service account's name that is none.
    """
    namespace, name = pod.metadata.namespace, pod.spec.service_account_name or "default"
    if not is_subdomain(name):  # a colon would let the subject be read in two ways
        raise SpecError(f"serviceAccountName {name[:80]!r} is no name; write lower-case letters, digits, - and .")
    uid = account.metadata.uid if account else ""
    uid = uid or str(uuid.uuid5(uuid.NAMESPACE_URL, f"{settings.issuer}#{namespace}/{name}"))
    bound: dict[str, object] = {
        "namespace": namespace,
        "pod": {"name": pod.metadata.name, "uid": pod.uid},
        "serviceaccount": {"name": name, "uid": uid},
    }
    return {
        "iss": settings.issuer,
        "sub": f"system:serviceaccount:{namespace}:{name}",
        "aud": [audience] if audience else list(settings.audiences or (settings.issuer,)),
        "kubernetes.io": {**bound, "node": {"name": node_name}} if node_name else bound,
    }


def held_token(value: str, said: Mapping[str, object], claims: Mapping[str, object], life: int) -> Token | None:
    """Give the token that says `said`, if that is what one that is issued now would say; None when it is another."""
    issued, expires = said.get("iat"), said.get("exp")
    same = all(said.get(name) == value for name, value in claims.items())
    if not same or not isinstance(issued, int) or not isinstance(expires, int) or expires - issued != life:
        return None
    return Token(value=value, issued_at=issued, expires_at=expires)


def life_claims(now: float, life: int) -> Mapping[str, object]:
    """Say from when until when a token is good, and its own name."""
    at = int(now)
    return {"iat": at, "nbf": at, "exp": at + life, "jti": str(uuid.uuid4())}
