"""Certificates to trust: which bundles are meant, and what the file says. Pure.

Behaviour: `pkg/volume/projected` and the trust bundle manager of kubelet 1.37.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from volmgr.plugin import ClusterTrustBundle, ObjectRef, Objects, Reference, SpecError, matches_labels
from volmgr_projected.sources import BundleProjection

KIND = "ClusterTrustBundle"
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_SEQUENCE = 0x30
_LINE = 64


@dataclass(frozen=True, slots=True)
class OfSigner:
    """Accepts the bundles of one signer whose labels match; without a label selector none do, with an empty one all."""

    signer: str
    labels: str
    _labels: Mapping[str, object] | None = field(compare=False)

    def accepts(self, item: object) -> bool:
        """Say whether a bundle is meant."""
        if not isinstance(item, ClusterTrustBundle) or self._labels is None:
            return False
        return item.signer_name == self.signer and matches_labels(self._labels, item.metadata.labels)


def selector_of(source: BundleProjection) -> OfSigner:
    """Give what selects the bundles of a source that names a signer."""
    labels = source.label_selector
    text = "no labels" if labels is None else json.dumps(dict(labels), sort_keys=True)
    return OfSigner(source.signer_name, text, labels)


def reference(source: BundleProjection) -> Reference:
    """Name what a source needs; raises SpecError when it does not say which bundles."""
    if bool(source.name) == bool(source.signer_name):
        raise SpecError("clusterTrustBundle needs exactly one of name and signerName; keep or write one")
    if source.name:
        return Reference(ObjectRef(KIND, "", source.name), optional=source.optional)
    return Reference(ObjectRef(KIND, "", words(source)), optional=source.optional, selector=selector_of(source))


def words(source: BundleProjection) -> str:
    """Say which bundles of a signer are meant, for messages."""
    return f"of signer {source.signer_name} with {selector_of(source).labels}"


def chosen(source: BundleProjection, objects: Objects) -> list[ClusterTrustBundle]:
    """Give the bundles that a source means, by name."""
    bundles = sorted(
        (item for item in objects.values() if isinstance(item, ClusterTrustBundle)),
        key=lambda bundle: bundle.metadata.name,
    )
    if source.name:
        return [bundle for bundle in bundles if bundle.metadata.name == source.name]
    selector = selector_of(source)
    return [bundle for bundle in bundles if selector.accepts(bundle)]


def certificates(bundles: Iterable[ClusterTrustBundle]) -> bytes:
    """Give each certificate once, by the bundles' names, as plain PEM; raises SpecError for a damaged one."""
    found = dict.fromkeys(der for bundle in bundles for der in _certificates(bundle))
    return "".join(map(_pem, found)).encode()


def _certificates(bundle: ClusterTrustBundle) -> Iterator[bytes]:
    for number, block in enumerate(_blocks(bundle.trust_bundle), 1):
        try:
            der = base64.b64decode("".join(block.split()), validate=True)
        except (binascii.Error, ValueError):
            der = b""
        if not der or der[0] != _SEQUENCE:
            raise SpecError(f"{KIND} {bundle.metadata.name}: certificate {number} is damaged; write it anew")
        yield der


def _blocks(text: str) -> Iterator[str]:
    """Give what lies between the marks, in one pass; what has no end is damaged as it is, and the last."""
    end = 0
    while (begin := text.find(_BEGIN, end)) >= 0:
        begin += len(_BEGIN)
        end = text.find(_END, begin)
        yield text[begin:end] if end >= 0 else ""
        if end < 0:
            return


def _pem(der: bytes) -> str:
    text = base64.b64encode(der).decode()
    lines = (text[start : start + _LINE] for start in range(0, len(text), _LINE))
    return "\n".join((_BEGIN, *lines, _END, ""))
