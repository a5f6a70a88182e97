"""Certificates of Pods: a private key that was made here, and what a signer of the cluster says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from volmgr.errors import SpecError
from volmgr.model.pod import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateWish:
    """Which certificate a volume wants; `max_expiration_seconds` None leaves it to the server (a day)."""

    signer_name: str
    key_type: str
    """One of ED25519, ECDSAP256, ECDSAP384, ECDSAP521, RSA3072 and RSA4096."""
    max_expiration_seconds: int | None = None
    user_annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What the author of the Pod tells the signer, who alone knows what it means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A private key (PEM, PKCS #8) and its certificates (PEM, the own one first); times are seconds of Unix time."""

    key: bytes = field(repr=False)
    chain: bytes
    due_at: float
    """When it is to be replaced, or asked for again."""
    expires_at: float


class Certificates(Protocol):
    """Who has certificates of Pods signed: an API server."""

    def obtain(self, pod: Pod, volume: str, source: int, wish: CertificateWish, held: bytes = b"") -> Certificate:
        """Give the certificate of one source of one projected volume of a Pod.

        `held` is what the volume has: key and certificates, PEM. It is given back while it is good and not due.
        Raises TransientError while it is being signed, SpecError when the signer denies it or nobody signs here,
        OperationError when signing failed, PluginError when something is not installed.
        """
        ...


class NoCertificates:
    """Has nothing signed, and says what to do instead."""

    def obtain(self, pod: Pod, volume: str, source: int, wish: CertificateWish, held: bytes = b"") -> Certificate:
        """Refuse."""
        del pod, volume, source, wish, held
        raise SpecError(
            "podCertificate needs an API server that signs certificates, which exists in kube mode only; here, put the"
            " certificate into a Secret and project that"
        )
