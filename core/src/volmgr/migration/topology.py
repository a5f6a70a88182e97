"""Where a PersistentVolume can be used, in the labels of Kubernetes and in those of a driver. Pure.

Source of fact: `csi-translation-lib` 0.37.2. An affinity is as the manifest has it; what is no affinity matches no key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from volmgr.model.objects import Node
from volmgr.model.selectors import items, mapping
from volmgr.model.volume import PersistentVolume

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
"""The labels of a Node, and those that they replaced."""
SEPARATOR = "__"
"""Between the zones of one label: a volume may be in several."""

Affinity = Mapping[str, object] | None
RegionOf = Callable[[Sequence[str]], str]
"""Gives the one region that zones are in; raises SpecError."""


def labels_of(pv: PersistentVolume) -> tuple[str, str]:
    """Give the labels of zone and region that a volume is described by: of its affinity, else of its own labels."""
    beta = BETA_ZONE, BETA_REGION
    for known in (set(_keys(pv.node_affinity)), pv.metadata.labels):
        if ZONE in known:
            break
        if BETA_ZONE in known:
            return beta
    return ZONE, REGION


def to_driver(pv: PersistentVolume, key: str) -> PersistentVolume:
    """Let a volume's affinity name zones by a driver's key; the volume's own label counts where it names none."""
    zone, region = labels_of(pv)
    affinity = moved(pv, zone, key, pv.metadata.labels.get(zone, "").split(SEPARATOR))
    if region == BETA_REGION:
        affinity = renamed(affinity, BETA_REGION, REGION)
    return replace(pv, node_affinity=affinity)


def is_judged_by(written: PersistentVolume, served: PersistentVolume, node: Node) -> bool:
    """Say whether a node is judged by the driver's labels: it has some. Without a cluster nobody may have given it any.

    Kubelet knows no other way; of a volume as it is written, Kubernetes' own labels count.
    """
    new = set(_keys(served.node_affinity)) - set(_keys(written.node_affinity)) - {ZONE, REGION}
    return not new.isdisjoint(node.metadata.labels)


def moved(pv: PersistentVolume, label: str, key: str, labelled: Iterable[str]) -> Affinity:
    """Give a volume's affinity with a key in the place of a label; where it has no such value, with `labelled`."""
    if values(pv.node_affinity, label):
        return renamed(pv.node_affinity, label, key)
    places = sorted({place.strip() for place in labelled} - {""})
    return _narrowed(pv.node_affinity, key, places) if places else pv.node_affinity


def from_driver(pv: PersistentVolume, key: str, region_of: RegionOf | None = None) -> PersistentVolume:
    """Let a volume's affinity and its own labels name zones, and regions, as Kubernetes does; raises SpecError."""
    zone, _ = labels_of(pv)
    pv = replace(pv, node_affinity=renamed(pv.node_affinity, key, zone))
    if region_of is not None:
        pv = _with_region(pv, region_of)
    return labelled(pv, zone, SEPARATOR.join(values(pv.node_affinity, zone)))


def labelled(pv: PersistentVolume, label: str, value: str) -> PersistentVolume:
    """Give a volume a label that it has not; an empty value is none."""
    labels = pv.metadata.labels
    if not value or label in labels:
        return pv
    return replace(pv, metadata=replace(pv.metadata, labels={**labels, label: value}))


def _with_region(pv: PersistentVolume, region_of: RegionOf) -> PersistentVolume:
    """Let each term name its region, and the volume too, if that is only one."""
    zone, region = labels_of(pv)

    def regional(term: Mapping[str, object]) -> Mapping[str, object]:
        found = tuple(_requirements(term))
        if any(each.get("key") == region for each in found):
            return term
        zones = [value for each in found if each.get("key") == zone for value in _values(each)]
        return _with_requirement(term, region, [region_of(zones)])

    pv = replace(pv, node_affinity=_each_term(pv.node_affinity, regional))
    regions = values(pv.node_affinity, region)
    return labelled(pv, region, regions[0]) if len(regions) == 1 else pv


def values(affinity: Affinity, key: str) -> tuple[str, ...]:
    """Give all values that an affinity has for a key, sorted, each once."""
    found = (each for term in _terms(affinity) for each in _requirements(term) if each.get("key") == key)
    return tuple(sorted({value for each in found for value in _values(each)}))


def renamed(affinity: Affinity, old: str, new: str) -> Affinity:
    """Give an affinity with another key in the place of one."""

    def rename(term: Mapping[str, object]) -> Mapping[str, object]:
        if not any(each.get("key") == old for each in _requirements(term)):
            return term
        after = [{**each, "key": new} if each.get("key") == old else each for each in _requirements(term)]
        return {**term, "matchExpressions": after}

    return _each_term(affinity, rename)


def _narrowed(affinity: Affinity, key: str, places: Sequence[str]) -> Affinity:
    """Demand of each term, of a new one where there is none, that a key has one of these values."""
    terms = _terms(affinity) or ({},)
    narrowed = [_with_requirement(term, key, places) for term in terms]
    required = mapping((affinity or {}).get("required"))
    return {**(affinity or {}), "required": {**required, "nodeSelectorTerms": narrowed}}


def _with_requirement(term: Mapping[str, object], key: str, places: Sequence[str]) -> Mapping[str, object]:
    requirement = {"key": key, "operator": "In", "values": list(places)}
    return {**term, "matchExpressions": [*_requirements(term), requirement]}


def _each_term(affinity: Affinity, change: Callable[[Mapping[str, object]], Mapping[str, object]]) -> Affinity:
    terms = _terms(affinity)
    if affinity is None or not terms:
        return affinity
    required = mapping(affinity.get("required"))
    return {**affinity, "required": {**required, "nodeSelectorTerms": [change(term) for term in terms]}}


def _terms(affinity: Affinity) -> tuple[Mapping[str, object], ...]:
    required = mapping((affinity or {}).get("required"))
    return tuple(map(mapping, items(required.get("nodeSelectorTerms"))))


def _requirements(term: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    return map(mapping, items(term.get("matchExpressions")))


def _keys(affinity: Affinity) -> Iterator[object]:
    return (each.get("key") for term in _terms(affinity) for each in _requirements(term))


def _values(requirement: Mapping[str, object]) -> list[str]:
    return list(map(str, items(requirement.get("values"))))
