"""The cluster's certificate authority, and who it vouches for."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=1)
SKEW = dt.timedelta(minutes=5)
KEY_USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


@dataclass(frozen=True)
class Credentials:
    """Files with a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """One that keeps its files in a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lane-ca")])
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (_usage("key_cert_sign", "crl_sign", "digital_signature"), True),
        ]
        signed = self._sign(self._name, self._key.public_key(), extensions)
        self.own = self._write("ca", signed, self._key)

    def server(self, name: str) -> Credentials:
        """Vouch for a server on loopback."""
        hosts = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        return self._issue(name, (), ExtendedKeyUsageOID.SERVER_AUTH, [(x509.SubjectAlternativeName(hosts), False)])

    def client(self, user: str, *groups: str) -> Credentials:
        """Vouch for a user of these groups."""
        return self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def key_pair(self, name: str) -> Credentials:
        """Make a key that nobody vouches for; `certificate` is the public key."""
        key = ec.generate_private_key(ec.SECP256R1())
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._files(name, key.public_key().public_bytes(serialization.Encoding.PEM, form), key)

    def _issue(
        self,
        name: str,
        groups: tuple[str, ...],
        usage: x509.ObjectIdentifier,
        extensions: list[tuple[x509.ExtensionType, bool]],
    ) -> Credentials:
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        common: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage("digital_signature"), True),
            (x509.ExtendedKeyUsage([usage]), False),
        ]
        return self._write(name, self._sign(subject, key.public_key(), [*common, *extensions]), key)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        extensions: list[tuple[x509.ExtensionType, bool]],
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - SKEW)
            .not_valid_after(now + LIFETIME)
            # Python 3.13 verifies strictly: it insists on both.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Credentials:
        return self._files(name, certificate.public_bytes(serialization.Encoding.PEM), key)

    def _files(self, name: str, public: bytes, key: ec.EllipticCurvePrivateKey) -> Credentials:
        stem = name.replace("/", "_").replace(":", "_")
        made = Credentials(self._directory / f"{stem}.crt", self._directory / f"{stem}.key")
        made.certificate.write_bytes(public)
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        made.key.chmod(0o600)
        return made


def _usage(*usages: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{each: each in usages for each in KEY_USAGES})
