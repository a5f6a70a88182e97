"""Keys and certificates of a Pod: what may be asked for, and the files that hold them.

Behaviour: `pkg/volume/projected` of kubelet 1.37; the limits are those of its API server's validation.
"""

from __future__ import annotations

from collections.abc import Callable

from volmgr.plugin import (
    Certificate,
    CertificateWish,
    Host,
    Mount,
    Payload,
    PayloadFile,
    SpecError,
    clean_path,
    clean_paths,
)
from volmgr_projected.sources import CertificateProjection, ProjectedSource

KEY_TYPES = ("ED25519", "ECDSAP256", "ECDSAP384", "ECDSAP521", "RSA3072", "RSA4096")
SHORTEST, LONGEST = 3600, 91 * 86400
"""Seconds that a certificate may be asked to live: an hour to 91 days."""


def check_certificate(source: CertificateProjection) -> None:
    """Raise SpecError for what no API server would accept."""
    if not source.signer_name:
        raise SpecError("podCertificate.signerName is empty; name the signer, such as example.com/mesh")
    if source.key_type not in KEY_TYPES:
        raise SpecError(f"podCertificate.keyType is {source.key_type[:40]!r}; write one of {', '.join(KEY_TYPES)}")
    seconds = source.max_expiration_seconds
    if seconds is not None and not SHORTEST <= seconds <= LONGEST:
        raise SpecError(
            f"podCertificate.maxExpirationSeconds is {seconds}; write a number from {SHORTEST} to {LONGEST}"
        )
    if not source.paths:
        raise SpecError("podCertificate names no file; write credentialBundlePath, or keyPath and certificateChainPath")
    for path in source.paths:
        clean_path(path)
    clean_paths(source.paths)


def credentials(
    source: CertificateProjection,
    number: int,
    request: Mount[ProjectedSource],
    host: Host,
    held: Callable[[str], bytes],
    file: Callable[[bytes, float], PayloadFile],
) -> Payload:
    """Give the files of one source; `held` reads what the volume has, `file` makes one of bytes and when it is due."""
    wish = CertificateWish(
        signer_name=source.signer_name,
        key_type=source.key_type,
        max_expiration_seconds=source.max_expiration_seconds,
        user_annotations=source.user_annotations,
    )
    there = held(source.credential_bundle_path) or held(source.key_path) + held(source.certificate_chain_path)
    given = host.certificates.obtain(request.pod, request.spec.name, number, wish, there)
    return {path: file(data, given.due_at) for path, data in _contents(source, given).items() if path}


def _contents(source: CertificateProjection, given: Certificate) -> dict[str, bytes]:
    return {
        source.credential_bundle_path: given.key + given.chain,
        source.key_path: given.key,
        source.certificate_chain_path: given.chain,
    }
