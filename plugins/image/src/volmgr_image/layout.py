"""Finds an image in an OCI layout: the tag, the platform, the manifest and its layers; each document by its digest.

Source of the formats: OCI image specification 1.1 (image-layout, image-index, manifest, config) and the manifest
schema 2 of Docker, which layouts made of older images hold.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from volmgr.plugin import Host, OperationError, TransientError
from volmgr_image.documents import Fields, child, children, listed, number, read_object, text, texts
from volmgr_image.platform import Platform, platforms

_DOCUMENT_LIMIT = 4 << 20  # bytes of an index, manifest or configuration; registries take no larger ones
_LAYERS_LIMIT = 1024
_DEPTH = 4  # of an index in an index
_LENGTHS = {"sha256": 64, "sha512": 128}
_INDEXES = frozenset(
    {"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"}
)
_MANIFESTS = frozenset(
    {"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"}
)
_CONFIGS = frozenset({"application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"})
_LAYERS = {
    "application/vnd.oci.image.layer.v1.tar": "",
    "application/vnd.oci.image.layer.v1.tar+gzip": "gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd": "zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar": "",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip": "gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd": "zstd",
    "application/vnd.docker.image.rootfs.diff.tar": "",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd": "zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip": "gzip",
}
_TAG = "org.opencontainers.image.ref.name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: the file that holds it, and what it must be; `compression` is empty, gzip or zstd."""

    path: Path
    digest: str
    size: int
    diff_id: str
    compression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundImage:
    """An image: its manifest's digest, and its layers, lowest first."""

    digest: str
    layers: tuple[Layer, ...]


class OciLayout:
    """The layout in one directory; `name` is the image's, for messages; `blobs` may lie elsewhere."""

    def __init__(self, host: Host, path: Path, name: str, *, blobs: Path | None = None) -> None:
        self._host = host
        self._path = path
        self._name = name
        self._blobs = path / "blobs" if blobs is None else blobs

    def find(self, tag: str, platform: Platform) -> FoundImage:
        """Find the image of a tag (empty: the only one) for a platform; raises OperationError naming what is wrong."""
        data = self._host.files.read(self._path / "index.json", _DOCUMENT_LIMIT)
        if data is None:
            message = f"image {self._name}: {self._path} is no OCI layout: it has no index.json"
            raise TransientError(message, waits_for=str(self._path))
        index = read_object(data, f"image {self._name}: {self._path}/index.json")
        tagged = self._tagged(children(index, "manifests"), tag)
        # What is alone under its tag is meant, whatever it says of itself: clients write their own platform there.
        descriptor = tagged[0] if len(tagged) == 1 else self._select(tagged, platform)
        for _ in range(_DEPTH):
            document = self._document(descriptor)
            kind = text(descriptor, "mediaType") or text(document, "mediaType")
            if kind in _MANIFESTS:
                return self._image(descriptor, document)
            if kind not in _INDEXES:
                raise self._wrong(f"{_digest_of(descriptor)} is of the media type {kind!r}, and no image")
            descriptor = self._select(children(document, "manifests"), platform)
        raise self._wrong(f"its index leads to others more than {_DEPTH} times")

    def _tagged(self, manifests: tuple[Fields, ...], tag: str) -> tuple[Fields, ...]:
        tags = [text(child(each, "annotations"), _TAG) for each in manifests]
        if not tag and len(manifests) > 1:
            tag = "latest" if "latest" in tags else ""
        found = tuple(each for each, its in zip(manifests, tags, strict=True) if not tag or its == tag)
        distinct = {its for each, its in zip(manifests, tags, strict=True) if each in found}
        if not found or (not tag and len(distinct) > 1):
            known = listed(sorted(filter(None, tags)))
            wanted = f"it has no tag {tag}" if tag else "it has several images, and the reference names no tag"
            raise self._wrong(f"{wanted}; tags are {known}")
        return found

    def _select(self, manifests: tuple[Fields, ...], platform: Platform) -> Fields:
        plain = len(manifests) == 1 and not child(manifests[0], "platform")
        chosen = manifests[0] if plain else platform.choose(manifests)
        if chosen is None:
            raise self._wrong(f"it has no image for {platform}; there is {platforms(manifests)}")
        return chosen

    def _document(self, descriptor: Fields) -> Fields:
        """Read a document and compare it with its digest and size."""
        digest = _digest_of(descriptor)
        data = self._host.files.read(self._blob(digest), _DOCUMENT_LIMIT)
        if data is None:
            raise self._wrong(f"its blob {digest} is missing")
        algorithm, _, value = digest.partition(":")
        if hashlib.new(algorithm, data).hexdigest() != value or len(data) != number(descriptor, "size"):
            raise self._wrong(
                f"its blob {digest} is damaged: it has not that digest, or not the size of its descriptor"
            )
        return read_object(data, f"image {self._name}: blob {digest}")

    def _blob(self, digest: str) -> Path:
        algorithm, _, value = digest.partition(":")
        if _LENGTHS.get(algorithm) != len(value) or value.strip("0123456789abcdef"):
            raise self._wrong(f"{digest[:80]!r} is no digest; known are {' and '.join(_LENGTHS)}")
        return self._blobs / algorithm / value

    def _image(self, descriptor: Fields, manifest: Fields) -> FoundImage:
        if number(manifest, "schemaVersion") != 2:  # noqa: PLR2004 - the only one of these media types
            raise self._wrong(f"its manifest has the schema version {number(manifest, 'schemaVersion')}")
        layers = children(manifest, "layers")
        if len(layers) > _LAYERS_LIMIT:
            raise self._wrong(f"it has {len(layers)} layers; at most {_LAYERS_LIMIT} are unpacked")
        contents = self._contents(child(manifest, "config"), len(layers))
        return FoundImage(
            digest=_digest_of(descriptor),
            layers=tuple(
                self._layer(layer, index, content)
                for index, (layer, content) in enumerate(zip(layers, contents, strict=True), 1)
            ),
        )

    def _contents(self, config: Fields, count: int) -> tuple[str, ...]:
        """Give the digests of the layers' contents; what is no image of a container (an artifact) has none."""
        if text(config, "mediaType") not in _CONFIGS:
            return ("",) * count
        found = texts(child(self._document(config), "rootfs"), "diff_ids")
        if len(found) != count:
            raise self._wrong(f"it has {count} layers, and its configuration speaks of {len(found)}")
        for digest in found:
            self._blob(digest)
        return found

    def _layer(self, layer: Fields, index: int, diff_id: str) -> Layer:
        kind, digest = text(layer, "mediaType"), _digest_of(layer)
        if kind not in _LAYERS:
            raise self._wrong(f"its layer {index} is of the media type {kind!r}, which is no file system")
        if number(layer, "size") < 0:
            raise self._wrong(f"its layer {index} has no size")
        return Layer(
            path=self._blob(digest),
            digest=digest,
            size=number(layer, "size"),
            diff_id=diff_id,
            compression=_LAYERS[kind],
        )

    def _wrong(self, problem: str) -> OperationError:
        return OperationError(f"image {self._name}: {problem}")


def _digest_of(descriptor: Fields) -> str:
    return text(descriptor, "digest")
