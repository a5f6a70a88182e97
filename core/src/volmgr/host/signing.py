"""The key that signs service account tokens. Imported with the first one: it needs the extra `volmgr[tokens]`.

Source of the forms: RFC 7515 (JWS) and RFC 7517 (JWK); `kid` is the hash of the public key, as kube-apiserver's.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, cast

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.types import Options

if TYPE_CHECKING:
    from volmgr.model.tokens import Algorithm

RSA_BITS = 2048
"""Size of an RSA key that is made, and the least that one is accepted with."""
_UNCHECKED: Options = {"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key with its name, its algorithm, and its public part as others get it (a JWK)."""

    kid: str
    algorithm: str
    public: Mapping[str, object]
    _private: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey = field(repr=False)

    @classmethod
    def read(cls, pem: bytes) -> Self:
        """Read a private key (PEM, not encrypted); raises ValueError that says nothing of its content."""
        try:
            key = load_pem_private_key(pem, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise ValueError("it is no private key in PEM form without a password") from None
        if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
            algorithm, public = "ES256", ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        elif isinstance(key, rsa.RSAPrivateKey) and key.key_size >= RSA_BITS:
            algorithm, public = "RS256", RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
        else:
            raise ValueError(f"its key is neither EC P-256 nor RSA of {RSA_BITS} bits or more")
        der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        kid = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).rstrip(b"=").decode()
        parts = {name: value for name, value in cast("dict[str, object]", public).items() if name != "key_ops"}
        return cls(kid, algorithm, {"use": "sig", "alg": algorithm, "kid": kid, **parts}, key)

    def sign(self, claims: Mapping[str, object]) -> str:
        """Give the token that says this."""
        return jwt.encode(dict(claims), self._private, self.algorithm, headers={"kid": self.kid})

    def claims_of(self, token: str) -> Mapping[str, object] | None:
        """Read a token that this key signed, whenever that was; None for any other text."""
        try:
            return jwt.decode(token, self._private.public_key(), [self.algorithm], options=_UNCHECKED)
        except (jwt.PyJWTError, ValueError):
            return None


def new_key(algorithm: Algorithm) -> bytes:
    """Make a private key, PEM."""
    key = (
        ec.generate_private_key(ec.SECP256R1())
        if algorithm.value == "ES256"
        else rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
