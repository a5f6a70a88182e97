"""The fields of a projected volume, as a manifest says them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from volmgr.plugin import DownwardFile, KeyToPath


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectProjection:
    """`secret` or `configMap` of a source: which object, and which of its keys become which files."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DownwardProjection:
    """`downwardAPI` of a source: which file shows what."""

    items: tuple[DownwardFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenProjection:
    """`serviceAccountToken` of a source; seconds, an empty audience is the issuer's own."""

    path: str
    audience: str = ""
    expiration_seconds: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleProjection:
    """`clusterTrustBundle` of a source: by name, or all of a signer that a selector accepts."""

    path: str
    name: str = ""
    signer_name: str = ""
    label_selector: Mapping[str, object] | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateProjection:
    """`podCertificate` of a source: whose certificate, for which kind of key (seconds), and where both are written."""

    signer_name: str
    key_type: str
    max_expiration_seconds: int | None = None
    credential_bundle_path: str = ""
    key_path: str = ""
    certificate_chain_path: str = ""
    user_annotations: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def paths(self) -> tuple[str, ...]:
        """Where there will be a file."""
        named = (self.credential_bundle_path, self.key_path, self.certificate_chain_path)
        return tuple(path for path in named if path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One entry of `sources`: exactly one of them."""

    secret: ObjectProjection | None = None
    config_map: ObjectProjection | None = None
    downward_api: DownwardProjection | None = field(default=None, metadata={"name": "downwardAPI"})
    service_account_token: TokenProjection | None = None
    cluster_trust_bundle: BundleProjection | None = None
    pod_certificate: CertificateProjection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectedSource:
    """`projected` of a Pod volume: where its files come from, in order."""

    sources: tuple[Source, ...] = ()
    default_mode: int | None = None
