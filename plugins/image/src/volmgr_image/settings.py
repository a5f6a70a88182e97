"""What the configuration may say of image volumes, below `plugins: {kubernetes.io/image: …}`."""

from __future__ import annotations

from dataclasses import dataclass, field

from volmgr.plugin import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """All settings; sizes are bytes, as quantities such as `10Gi`."""

    image_cache_limit: Quantity = field(default=Quantity.parse("10Gi"), metadata={"name": "image_cache_limit"})
    """Bytes that unpacked images may take before those that no Pod uses leave, the least recently used first."""
    unpacked_limit: Quantity = field(default=Quantity.parse("20Gi"), metadata={"name": "unpacked_limit"})
    """Bytes that one image may unpack to; more is taken for an attack."""
    entries_limit: int = field(default=1_000_000, metadata={"name": "entries_limit"})
    """Files and directories that the layers of one image may have."""
    insecure_registries: tuple[str, ...] = field(default=(), metadata={"name": "insecure_registries"})
    """Registries (`host` or `host:port`) that are talked to without TLS, or without a look at their certificates."""
    authfile: str = field(default="", metadata={"name": "authfile"})
    """A file of credentials for all Pods, in the format of `skopeo login`; imagePullSecrets come before it."""
    platform: str = field(default="", metadata={"name": "platform"})
    """The platform of which images are taken from an index, such as `linux/arm64/v8`; empty: this machine's."""

    def __post_init__(self) -> None:
        """Refuse what would refuse every image."""
        if self.entries_limit < 1 or self.unpacked_limit.to_int() < 1:
            message = "entries_limit or unpacked_limit is less than 1; every image would be refused"
            raise ValueError(message)
