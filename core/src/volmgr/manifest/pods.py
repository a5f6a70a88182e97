"""A Pod: plain data to the noun, and everything that can be wrong with it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from volmgr.manifest.volumes import SourceTypes, read_volumes
from volmgr.model.names import default_uid, is_label, is_subdomain, is_uid
from volmgr.model.pod import Container, Pod, PodVolume
from volmgr.model.schema import Problem, SchemaError, Unknown, load

_PROPAGATIONS = ("None", "HostToContainer", "Bidirectional")


_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
"""Where a Pod's status says how its containers fare; sidecars are among the init containers."""


def read_pod(document: Mapping[str, object], types: SourceTypes, unknown: Unknown, *, status: bool = False) -> Pod:
    """Read a Pod; raises SchemaError with every problem. Without a UID it gets the one of its name.

    `status`: an API server keeps it, so that what it says of running containers counts.
    """
    problems: list[Problem] = []
    pod: Pod | None = None
    volumes: tuple[PodVolume, ...] | None = None
    try:
        pod = load(Pod, document, unknown=unknown)
    except SchemaError as error:
        problems += error.problems
    spec = document.get("spec")
    if isinstance(spec, Mapping):
        try:
            volumes = read_volumes(cast("Mapping[str, object]", spec).get("volumes"), types, unknown, "spec.volumes")
        except SchemaError as error:
            problems += error.problems
    if pod is not None:
        problems += _name_problems(pod)
        if unknown is not Unknown.ALLOW:
            problems += _container_problems(pod, volumes)
    if problems or pod is None or volumes is None:
        raise SchemaError(problems)
    metadata = pod.metadata
    if not metadata.uid:
        metadata = replace(metadata, uid=default_uid(metadata.namespace, metadata.name))
    run = replace(pod.status, running=_running(document.get("status"))) if status else pod.status
    return Pod(metadata=metadata, spec=replace(pod.spec, volumes=volumes), status=run)


def _running(status: object) -> tuple[str, ...]:
    """Give the containers that run; a status that is none says nothing."""
    if not isinstance(status, Mapping):
        return ()
    fields = cast("Mapping[str, object]", status)
    entries = (entry for name in _STATUSES for entry in _entries(fields.get(name)))
    return tuple(str(entry.get("name", "")) for entry in entries if _runs(entry.get("state")))


def _entries(value: object) -> Iterator[Mapping[str, object]]:
    for entry in cast("list[object]", value) if isinstance(value, list) else ():
        if isinstance(entry, Mapping):
            yield cast("Mapping[str, object]", entry)


def _runs(state: object) -> bool:
    return isinstance(state, Mapping) and cast("Mapping[str, object]", state).get("running") is not None


def _name_problems(pod: Pod) -> Iterator[Problem]:
    metadata = pod.metadata
    if not is_subdomain(metadata.name):
        remedy = "write lower-case letters, digits, '-' and '.'"
        yield Problem("metadata.name", f"{metadata.name[:80]!r} is no valid name", remedy)
    if not is_label(metadata.namespace):
        remedy = "write lower-case letters, digits and '-'"
        yield Problem("metadata.namespace", f"{metadata.namespace[:80]!r} is no valid name", remedy)
    if metadata.uid and not is_uid(metadata.uid):
        remedy = "leave it out, or write letters, digits and '-'"
        yield Problem("metadata.uid", f"{metadata.uid[:80]!r} is no valid UID", remedy)


def _container_problems(pod: Pod, volumes: tuple[PodVolume, ...] | None) -> Iterator[Problem]:
    """Check containers; `volumes` is None when they could not be read: then who names a missing one is not known."""
    if not pod.spec.containers:
        yield Problem("spec.containers", "is missing", "a Pod has at least one container")
    names = None if volumes is None else {volume.name for volume in volumes}
    seen: dict[str, str] = {}
    for path, container in placed_containers(pod):
        if not is_label(container.name):
            remedy = "write at most 63 lower-case letters, digits and '-'"
            yield Problem(f"{path}.name", f"{container.name[:80]!r} is no container name", remedy)
        elif container.name in seen:
            problem = f"{container.name!r} is the name of {seen[container.name]} too"
            yield Problem(f"{path}.name", problem, "give each container its own name")
        seen.setdefault(container.name, path)
        yield from _mount_problems(path, container, names)


def placed_containers(pod: Pod) -> Iterator[tuple[str, Container]]:
    """Give every container with its field path."""
    spec = pod.spec
    for field, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in enumerate(containers):
            yield f"spec.{field}[{index}]", container


def _mount_problems(path: str, container: Container, names: set[str] | None) -> Iterator[Problem]:
    taken: dict[str, str] = {}
    for index, mount in enumerate(container.volume_mounts):
        place = f"{path}.volumeMounts[{index}]"
        yield from _missing_volume(place, mount.name, names)
        if not mount.mount_path:
            yield Problem(f"{place}.mountPath", "is empty", "write where the container sees the volume")
        elif mount.mount_path in taken:
            problem = f"{mount.mount_path!r} is the path of {taken[mount.mount_path]} too"
            yield Problem(f"{place}.mountPath", problem, "give each mount its own path")
        taken.setdefault(mount.mount_path, place)
        for field, value in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
            if value.startswith("/") or ".." in value.split("/") or "\0" in value:
                remedy = "write a path inside the volume, without '..' and leading '/'"
                yield Problem(f"{place}.{field}", f"{value[:80]!r} leads out of the volume", remedy)
        if mount.sub_path and mount.sub_path_expr:
            yield Problem(place, "has both subPath and subPathExpr", "keep one")
        if mount.mount_propagation not in _PROPAGATIONS:
            problem = f"{mount.mount_propagation[:40]!r} is no choice here"
            yield Problem(f"{place}.mountPropagation", problem, f"write one of {', '.join(_PROPAGATIONS)}")
    for index, device in enumerate(container.volume_devices):
        yield from _missing_volume(f"{path}.volumeDevices[{index}]", device.name, names)


def _missing_volume(place: str, name: str, names: set[str] | None) -> Iterator[Problem]:
    if names is not None and name not in names:
        remedy = f"there are {', '.join(sorted(names))}" if names else "add it to spec.volumes"
        yield Problem(f"{place}.name", f"spec.volumes has no {name[:80]!r}", remedy)
