"""What a driver is told beyond the volume itself: the Pod, and tokens of its service account. Pure but for the issuer.

Source: `behaviours.md` §4.11, which is `csi_mounter.go` of kubelet 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from volmgr.plugin import CSIDriver, ObjectRef, ServiceAccount
from volmgr_csi.driver.secrets import TOKENS
from volmgr_csi.node.vol_data import go_json

if TYPE_CHECKING:
    from volmgr.plugin import CsiSource, Host, Mount, Objects, Pod

TOKEN_LIFE = 3600
"""Seconds that a token lives whose request says nothing; the API's default."""
_POD = "csi.storage.k8s.io"


def driver_object(driver: str, objects: Objects) -> CSIDriver | None:
    """Give what a driver says of itself to the cluster, if there is anything."""
    found = objects.get(ObjectRef("CSIDriver", "", driver))
    return found if isinstance(found, CSIDriver) else None


def account_ref(pod: Pod) -> ObjectRef:
    """Name the service account of a Pod."""
    return ObjectRef("ServiceAccount", pod.metadata.namespace, pod.spec.service_account_name or "default")


def pod_info(pod: Pod, *, ephemeral: bool) -> Mapping[str, str]:
    """Say for which Pod a volume is published (podInfoOnMount)."""
    return {
        f"{_POD}/pod.name": pod.metadata.name,
        f"{_POD}/pod.namespace": pod.metadata.namespace,
        f"{_POD}/pod.uid": pod.uid,
        f"{_POD}/serviceAccount.name": pod.spec.service_account_name,
        f"{_POD}/ephemeral": "true" if ephemeral else "false",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Attributes and secrets of one publication; `due_at` is when the first of its tokens is due (Unix time)."""

    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    secrets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    due_at: float | None = None


def tokens(request: Mount[CsiSource], csi_driver: CSIDriver, host: Host) -> Told:
    """Have the tokens issued that a driver asks for; raises as `host.tokens.issue` does."""
    if not csi_driver.token_requests:
        return Told()
    account = request.objects.get(account_ref(request.pod))
    issued = {
        wish.audience: host.tokens.issue(
            request.pod,
            audience=wish.audience,
            expiration_seconds=wish.expiration_seconds or TOKEN_LIFE,
            account=account if isinstance(account, ServiceAccount) else None,
        )
        for wish in csi_driver.token_requests
    }
    said = {
        audience: {"token": token.value, "expirationTimestamp": _rfc3339(token.expires_at)}
        for audience, token in issued.items()
    }
    given = {TOKENS: go_json(said)}
    due_at = min(token.due_at for token in issued.values())
    if csi_driver.service_account_token_in_secrets:
        return Told(secrets=given, due_at=due_at)
    return Told(attributes=given, due_at=due_at)


def _rfc3339(at: float) -> str:
    return datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
