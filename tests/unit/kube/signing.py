"""A signer of PodCertificateRequests, by the rules of the API server."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

SIGNER = ec.generate_private_key(ec.SECP256R1())


def stamp(seconds: float) -> str:
    """Give Unix time as the API says it, in whole seconds."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def issued(request: Mapping[str, Any], now: float, life: float, refresh: float) -> dict[str, Any]:
    """Sign what a request proves, and give its status; `now` is whole seconds, the rest seconds from then."""
    times = {"notBefore": stamp(now), "beginRefreshAt": stamp(now + refresh), "notAfter": stamp(now + life)}
    chain = _signed(request, now, life)
    return {"conditions": [condition("Issued", "Signed", "", now)], "certificateChain": chain, **times}


def condition(kind: str, reason: str, message: str, now: float) -> dict[str, str]:
    """Give what a signer says of a request."""
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": stamp(now)}


def _signed(request: Mapping[str, Any], now: float, life: float) -> str:
    proof = x509.load_der_x509_csr(base64.b64decode(request["spec"]["stubPKCS10Request"]))
    begin = dt.datetime.fromtimestamp(now, dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "signer")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(proof.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + dt.timedelta(seconds=life))
        .sign(SIGNER, hashes.SHA256())
    )
    return "# by hand\n" + certificate.public_bytes(Encoding.PEM).decode()
