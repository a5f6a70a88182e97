"""What the contract suite tries projected with: each source that needs no issuer, absent objects, and nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from volmgr.plugin import (
    ClusterTrustBundle,
    ConfigMap,
    Container,
    DownwardFile,
    FieldRef,
    KeyToPath,
    ObjectMeta,
    ResourceFieldRef,
    Secret,
)
from volmgr.testing import Sample, pod
from volmgr_projected.sources import (
    BundleProjection,
    DownwardProjection,
    ObjectProjection,
    ProjectedSource,
    Source,
)

_SECRET = Secret(metadata=ObjectMeta(name="login"), data={"user": b"admin", "password": b"\x00\xff"})
_SETTINGS = ConfigMap(metadata=ObjectMeta(name="settings"), data={"mode": "fast"}, binary_data={"blob": b"\xfe"})
_BUNDLE = ClusterTrustBundle(
    metadata=ObjectMeta(name="roots"),
    trust_bundle="-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n",
)


def samples(top: Path) -> Iterator[object]:
    """Give sources, and the objects that they refer to."""
    del top
    items = (
        DownwardFile(path="about/name", field_ref=FieldRef(field_path="metadata.name")),
        DownwardFile(path="cpu", resource_field_ref=ResourceFieldRef(resource="limits.cpu", container_name="main")),
    )
    chosen = (KeyToPath(key="password", path="db/password", mode=0o400),)
    sources = (
        Source(secret=ObjectProjection(name="login", items=chosen)),
        Source(config_map=ObjectProjection(name="settings")),
        Source(downward_api=DownwardProjection(items=items)),
        Source(cluster_trust_bundle=BundleProjection(name="roots", path="ca.pem")),
    )
    yield Sample(
        source=ProjectedSource(sources=sources, default_mode=0o440),
        pod=pod(containers=(Container(name="main"),)),
        objects=(_SECRET, _SETTINGS, _BUNDLE),
    )
    absent = ObjectProjection(name="absent", optional=True)
    bundle = BundleProjection(name="absent", path="ca.pem", optional=True)
    yield ProjectedSource(
        sources=(Source(secret=absent), Source(config_map=absent), Source(cluster_trust_bundle=bundle))
    )
    yield ProjectedSource()
