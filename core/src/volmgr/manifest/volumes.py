"""The volumes of a Pod and the source of a PersistentVolume: which field, and does its value fit. Pure."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, cast

from volmgr.model.names import is_label
from volmgr.model.pod import PodVolume
from volmgr.model.schema import Problem, SchemaError, Unknown, describe, join, typed_source
from volmgr.model.volume import ClaimVolumeSource, EphemeralVolumeSource

_BOTH = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "csi",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "glusterfs",
        "hostPath",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    }
)
_ONLY_PODS = frozenset(
    {
        "configMap",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "gitRepo",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)

POD_FIELDS = _BOTH | _ONLY_PODS
"""Every source that Kubernetes knows in `spec.volumes[]` of a Pod (v1.37 and the removed ones before it)."""

PV_FIELDS = _BOTH | {"local"}
"""Every source that Kubernetes knows in `spec` of a PersistentVolume."""

DRIVER_FIELDS = frozenset({"csi", "flexVolume"})
"""Fields whose value names a driver."""

_CORE_SOURCES: Mapping[str, type[object]] = {
    "persistentVolumeClaim": ClaimVolumeSource,
    "ephemeral": EphemeralVolumeSource,
}


class SourceTypes(Protocol):
    """What the installed volume types say of their fields."""

    def source_of(self, field: str, driver: str | None) -> type[object] | None:
        """Give the dataclass of a source, if a type is installed that serves the field (and driver)."""
        ...

    def known(self, field: str) -> bool:
        """Say whether an installed type serves this field."""
        ...

    def repair(self, field: str) -> str:
        """Say which broken package is named after a field (without one: all of them); empty when there is none."""
        ...


class NoTypes:
    """Nothing is installed: every source that Kubernetes knows is accepted unseen."""

    def source_of(self, field: str, driver: str | None) -> type[object] | None:
        del field, driver
        return None

    def known(self, field: str) -> bool:
        del field
        return False

    def repair(self, field: str) -> str:
        del field
        return ""


def read_volumes(value: object, types: SourceTypes, unknown: Unknown, path: str) -> tuple[PodVolume, ...]:
    """Read `spec.volumes` of a Pod; raises SchemaError with every problem."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise SchemaError([Problem(path, f"{describe(value)} where a list is needed", "write `- name: …` lines")])
    volumes: list[PodVolume] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    for index, entry in enumerate(cast("list[object]", value)):
        place = f"{path}[{index}]"
        try:
            volume = _read_volume(entry, types, unknown, place)
        except SchemaError as error:
            problems += error.problems
            continue
        if volume.name in seen:
            first = f"{path}[{seen[volume.name]}]"
            problems.append(
                Problem(f"{place}.name", f"{volume.name!r} is the name of {first} too", "give each volume its own name")
            )
        seen.setdefault(volume.name, index)
        volumes.append(volume)
    if problems:
        raise SchemaError(problems)
    return tuple(volumes)


def _read_volume(entry: object, types: SourceTypes, unknown: Unknown, path: str) -> PodVolume:
    if not isinstance(entry, Mapping):
        raise SchemaError([Problem(path, f"{describe(entry)} where a volume is needed", "write `- name: …`")])
    fields = {str(key): value for key, value in cast("Mapping[object, object]", entry).items() if value is not None}
    name = fields.pop("name", None)
    problems = [] if isinstance(name, str) and is_label(name) else [_bad_volume_name(name, path)]
    try:
        kind, source = _only_source(fields, POD_FIELDS, types, unknown, path)
    except SchemaError as error:
        raise SchemaError([*problems, *error.problems]) from None
    if problems:
        raise SchemaError(problems)
    return PodVolume(name=str(name), type=kind, source=source)


def _bad_volume_name(name: object, path: str) -> Problem:
    if name is None:
        return Problem(f"{path}.name", "is missing", "give the volume a name that volumeMounts can use")
    remedy = "write at most 63 lower-case letters, digits and '-', in quotes if it is a number"
    return Problem(
        f"{path}.name", f"{name if not isinstance(name, str) else repr(name[:80])} is no volume name", remedy
    )


def _only_source(
    fields: Mapping[str, object], known: frozenset[str], types: SourceTypes, unknown: Unknown, path: str
) -> tuple[str, Mapping[str, object]]:
    """Find the one field that names the volume's type, and check its value; no field at all is an emptyDir."""
    sources = [field for field in fields if field in known or types.known(field)]
    if unknown is not Unknown.ALLOW:
        strangers = [field for field in fields if field not in sources]
        if strangers:
            raise SchemaError([_stranger(field, known, types, path) for field in strangers])
        if len(sources) > 1:
            found = " and ".join(sources)
            raise SchemaError([Problem(path, f"has the sources {found}", "keep one; a volume is of one type")])
    if not sources:
        sources = list(fields)[:1]  # an accepted Pod whose type was known once
    if not sources:
        return "emptyDir", {}
    return sources[0], read_source(sources[0], fields[sources[0]], types, unknown, join(path, sources[0]))


def _stranger(field: str, known: Iterable[str], types: SourceTypes, path: str) -> Problem:
    near = difflib.get_close_matches(field, [*known, "name"], n=1)
    meant = f"did you mean {near[0]}?" if near else ""
    remedy = types.repair(field) or meant or types.repair("") or "install the package that serves it, or remove it"
    return Problem(join(path, field), "unknown field", remedy)


def read_source(field: str, value: object, types: SourceTypes, unknown: Unknown, path: str) -> Mapping[str, object]:
    """Check the value of a source as far as its type is installed, and give it without nulls."""
    if not isinstance(value, Mapping):
        raise SchemaError([Problem(path, f"{describe(value)} where a mapping is needed", "write {} if it is empty")])
    source = cast("dict[str, object]", without_nulls(cast("object", value)))
    driver = source.get("driver")
    cls = _CORE_SOURCES.get(field) or types.source_of(field, driver if isinstance(driver, str) else None)
    if cls is not None and unknown is not Unknown.ALLOW:
        try:
            typed_source(cls, _of_driver(cls, source) if field in DRIVER_FIELDS else source)
        except SchemaError as error:
            raise SchemaError([problem.below(path) for problem in error.problems]) from None
    return source


def _of_driver(cls: type[Any], source: Mapping[str, object]) -> Mapping[str, object]:
    """Give what is said to a driver; its own name too where its type has a place for that."""
    if any(each.name == "driver" for each in dataclasses.fields(cls)):
        return source
    return {name: value for name, value in source.items() if name != "driver"}


def without_nulls(value: object) -> object:
    """Leave out every member of a mapping that is null: absent and null are the same."""
    if isinstance(value, Mapping):
        members = cast("Mapping[object, object]", value).items()
        return {str(key): without_nulls(entry) for key, entry in members if entry is not None}
    if isinstance(value, list):
        return [without_nulls(entry) for entry in cast("list[object]", value)]
    return value
