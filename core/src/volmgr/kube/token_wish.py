"""Which token is wanted, what is asked of an API server for it, and which token is one that answers it. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from volmgr.errors import SpecError
from volmgr.kube.documents import mapping
from volmgr.model.tokens import LONGEST, Token

if TYPE_CHECKING:
    from volmgr.model.objects import ServiceAccount
    from volmgr.model.pod import Pod

SHORTEST = 600
"""Seconds; no token may be asked for that lives shorter. Kubernetes' minimum of expirationSeconds."""
_PARTS = 3
"""Of a token: header, claims and signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWish:
    """Which token is wanted; `account_uid` is empty when it is not known."""

    namespace: str
    account: str
    account_uid: str
    pod_name: str
    pod_uid: str
    audience: str
    seconds: int

    @classmethod
    def of(cls, pod: Pod, audience: str, seconds: int, account: ServiceAccount | None) -> TokenWish:
        """Say what a Pod wants; raises SpecError for a life that no server gives."""
        if not SHORTEST <= seconds <= LONGEST:
            raise SpecError(f"expirationSeconds is {seconds}; write a number from {SHORTEST} to {LONGEST}")
        return cls(
            namespace=pod.metadata.namespace,
            account=pod.spec.service_account_name or "default",
            account_uid=account.metadata.uid if account else "",
            pod_name=pod.metadata.name,
            pod_uid=pod.uid,
            audience=audience,
            seconds=seconds,
        )

    @property
    def key(self) -> str:
        """What it is kept under, among those of the same Pod."""
        return json.dumps([self.account, self.account_uid, self.audience, self.seconds])

    @property
    def words(self) -> str:
        """Name it in messages."""
        audience = f" for audience {self.audience}" if self.audience else ""
        return f"the token of pod {self.namespace}/{self.pod_name}{audience}"

    def request(self) -> Mapping[str, object]:
        """Give the TokenRequest."""
        bound = {"apiVersion": "v1", "kind": "Pod", "name": self.pod_name, "uid": self.pod_uid}
        return {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [self.audience] if self.audience else [],
                "expirationSeconds": self.seconds,
                "boundObjectRef": bound,
            },
        }

    def token_of(self, value: str) -> Token | None:
        """Give a token as one that was issued for this wish; None when it says something else.

        Whether its signature is good the server knows alone: what lies in a volume or is kept was issued once.
        """
        said = _claims(value)
        issued, expires = said.get("iat"), said.get("exp")
        bound = mapping(said.get("kubernetes.io"))
        of_pod, of_account = mapping(bound.get("pod")), mapping(bound.get("serviceaccount"))
        warned = bound.get("warnafter")  # a server may let tokens live for a year that are asked for an hour
        expires = warned if isinstance(warned, int) else expires
        same = (
            said.get("sub") == f"system:serviceaccount:{self.namespace}:{self.account}"
            and (of_pod.get("name"), of_pod.get("uid")) == (self.pod_name, self.pod_uid)
            and (not self.account_uid or of_account.get("uid") == self.account_uid)
            and (not self.audience or said.get("aud") == [self.audience])
        )
        if not same or not isinstance(issued, int) or not isinstance(expires, int):
            return None
        if not 0 < expires - issued <= self.seconds:
            return None
        return Token(value=value, issued_at=issued, expires_at=expires)


def _claims(token: str) -> Mapping[str, object]:
    """Read what a token (RFC 7519) says, without a look at its signature; nothing of any other text."""
    parts = token.split(".")
    if len(parts) != _PARTS:
        return {}
    try:
        return mapping(msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))))
    except (binascii.Error, msgspec.DecodeError, UnicodeError, ValueError, RecursionError):
        return {}
