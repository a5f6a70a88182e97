"""Key pairs of Pods: made, proven, and matched with what a signer said. Imported with the first one: `cryptography`.

Source of the key types and of the empty request: kubelet's `pkg/kubelet/podcertificate` of 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from volmgr.errors import SpecError
from volmgr.host.interface.certificates import Certificate
from volmgr.model.tokens import REFRESH_SHARE

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_EXPONENT = 65537
_KINDS: Mapping[str, tuple[Callable[[], PrivateKey], hashes.SHA256 | hashes.SHA384 | hashes.SHA512 | None]] = {
    "ED25519": (ed25519.Ed25519PrivateKey.generate, None),
    "ECDSAP256": (lambda: ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()),
    "ECDSAP384": (lambda: ec.generate_private_key(ec.SECP384R1()), hashes.SHA384()),
    "ECDSAP521": (lambda: ec.generate_private_key(ec.SECP521R1()), hashes.SHA512()),
    "RSA3072": (lambda: rsa.generate_private_key(_EXPONENT, 3072), hashes.SHA256()),
    "RSA4096": (lambda: rsa.generate_private_key(_EXPONENT, 4096), hashes.SHA256()),
}


def new_key(key_type: str) -> tuple[bytes, bytes]:
    """Make a private key (PEM), and a request that proves that we have it (PKCS #10, DER) and says nothing else."""
    if key_type not in _KINDS:
        raise SpecError(f"keyType is {key_type[:40]!r}; write one of {', '.join(_KINDS)}")
    make, digest = _KINDS[key_type]
    key = make()
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, digest)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem, request.public_bytes(Encoding.DER)


def plain_chain(text: str) -> bytes:
    """Give the certificates of a chain without anything between them; raises ValueError when there are none."""
    found = x509.load_pem_x509_certificates(text.encode())
    return b"".join(each.public_bytes(Encoding.PEM) for each in found)


def held_certificate(held: bytes) -> Certificate | None:
    """Read key and certificates as they lie in a volume; None for what does not belong together.

    When the signer would have it replaced is not in there: 80 % of its life is taken instead.
    """
    try:
        key = load_pem_private_key(held, None)
        chain = x509.load_pem_x509_certificates(held)
        public = key.public_key()
        form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if public.public_bytes(*form) != chain[0].public_key().public_bytes(*form):
            return None
    except (ValueError, TypeError):
        return None
    begin, end = (at.timestamp() for at in (chain[0].not_valid_before_utc, chain[0].not_valid_after_utc))
    return Certificate(
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        chain=b"".join(each.public_bytes(Encoding.PEM) for each in chain),
        due_at=begin + REFRESH_SHARE * (end - begin),
        expires_at=end,
    )
