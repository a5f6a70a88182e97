"""Parameters of a StorageClass that a driver reads by another name, or as a topology. Pure.

Source of fact: `csi-translation-lib` 0.37.2. Keys of parameters are read whatever their case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from volmgr.errors import SpecError
from volmgr.migration.topology import BETA_ZONE, ZONE
from volmgr.migration.translation import Provisioning, Source
from volmgr.model.selectors import items, mapping

FS_TYPE = "csi.storage.k8s.io/fstype"
"""The parameter by which a provisioner is told the file system; the driver does not see it."""
OLD_FS_TYPE = "fstype"


def with_file_system(given: Provisioning) -> Provisioning:
    """Name the file system as a provisioner expects it."""
    renamed = {FS_TYPE if key.lower() == OLD_FS_TYPE else key: value for key, value in given.parameters.items()}
    return replace(given, parameters=renamed)


def with_zones(given: Provisioning, key: str) -> Provisioning:
    """Give zones, which are parameters, as topologies of a driver's key; raises SpecError where both are given."""
    zones = tuple(_zones(given.parameters))
    if not zones:
        return with_topologies(given, key)
    if given.allowed_topologies:
        raise SpecError("allowedTopologies: stands beside the parameter zone or zones; keep one of them")
    kept = {name: value for name, value in given.parameters.items() if name.lower() not in {"zone", "zones"}}
    term = {"matchLabelExpressions": [{"key": key, "values": list(zones[-1])}]}
    return replace(given, parameters=kept, allowed_topologies=(term,))


def with_topologies(given: Provisioning, key: str) -> Provisioning:
    """Name zones among the allowed topologies by a driver's key."""
    return replace(given, allowed_topologies=tuple(_translated(term, key) for term in given.allowed_topologies))


def _zones(parameters: Mapping[str, str]) -> Iterator[Sequence[str]]:
    for name, value in sorted(parameters.items(), key=lambda item: item[0].lower()):
        if name.lower() == "zone":
            yield (value,)
        if name.lower() == "zones":
            yield value.split(",")


def _translated(term: Source, key: str) -> Source:
    """Name the zones of a term by a driver's key."""
    expressions = [
        {**each, "key": key} if each.get("key") in {ZONE, BETA_ZONE} else each
        for each in map(mapping, items(term.get("matchLabelExpressions")))
    ]
    return {**term, "matchLabelExpressions": expressions} if expressions else term
