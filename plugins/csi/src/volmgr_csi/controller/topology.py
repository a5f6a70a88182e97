"""From where volumes are reachable: by a driver's words for the node, a class, and a PersistentVolume. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from volmgr.plugin import SpecError

Segments = Mapping[str, str]
"""A place, by the driver's topology keys."""


def check_allowed(terms: Iterable[Mapping[str, object]], here: Segments, driver: str) -> None:
    """Refuse a class whose allowedTopologies leave this node out; raises SpecError."""
    wanted = [_expressions(term) for term in terms]
    if not wanted or any(all(here.get(key) in values for key, values in term) for term in wanted):
        return
    place = ", ".join(f"{key}={value}" for key, value in sorted(here.items())) or "nowhere in particular"
    raise SpecError(f"allowedTopologies: this node is {place} to driver {driver}, and no term allows that")


def node_affinity(places: Iterable[Segments]) -> Mapping[str, object] | None:
    """Say in a PersistentVolume from where it is reachable; None: from everywhere."""
    terms = [
        {
            "matchExpressions": [
                {"key": key, "operator": "In", "values": [value]} for key, value in sorted(place.items())
            ]
        }
        for place in places
        if place
    ]
    return {"required": {"nodeSelectorTerms": terms}} if terms else None


def _expressions(term: Mapping[str, object]) -> list[tuple[str, list[str]]]:
    said = term.get("matchLabelExpressions")
    if not isinstance(said, (list, tuple)):
        raise SpecError("allowedTopologies: a term has no matchLabelExpressions")
    found: list[tuple[str, list[str]]] = []
    for each in cast("Iterable[object]", said):
        key = cast("Mapping[str, object]", each).get("key") if isinstance(each, Mapping) else None
        values = cast("Mapping[str, object]", each).get("values") if isinstance(each, Mapping) else None
        if not isinstance(key, str) or not isinstance(values, (list, tuple)):
            raise SpecError("allowedTopologies: each of matchLabelExpressions has a key and values")
        found.append((key, [str(value) for value in cast("Iterable[object]", values)]))
    return found
