"""What a place offers, and why an offer may be refused. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from volmgr.errors import ManifestError
from volmgr.manifest import Item
from volmgr.model.names import fixed_source
from volmgr.model.objects import Object
from volmgr.model.pod import Container, Pod, PodVolume
from volmgr.sources.changes import Standing

API = "api"
"""The source, and the origin, of Pods that came by the local API."""
API_SERVER = "kubernetes"
"""The source whose objects an API server keeps: what they say in `status` counts."""

PROVISIONED = "provisioned"
"""The source of PersistentVolumes that are made here for claims."""


class ConflictError(ManifestError):
    """An offer is right by itself, but stands against what is there already."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where an object comes from: a source and, within it, a file (`api` for the API)."""

    source: str
    origin: str

    def __str__(self) -> str:
        return "the API" if self.source == API else self.origin


API_PLACE = Place(API, API)


@dataclass(frozen=True, slots=True)
class PodOffer:
    """A Pod as one place has it now; `raw` is its manifest as JSON."""

    pod: Pod
    place: Place
    document: int
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ObjectOffer:
    """Another object as one place has it now; `raw` is empty for Secrets."""

    item: Object
    place: Place
    document: int
    revision: str
    raw: bytes = field(repr=False)
    read_at: float = field(default=0.0, compare=False)
    """When an API server said so: Unix time in seconds; 0 for what comes from files."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A Pod whose record is on disk; `successor` waits, with the same UID and another name, until it is forgotten."""

    offer: PodOffer
    standing: Standing = Standing.PRESENT
    successor: PodOffer | None = None
    replaces: str = ""
    """The UID whose leaving this record decides: written first, it is the one point at which that happens."""


def digest(pods: Iterable[PodOffer], objects: Iterable[ObjectOffer]) -> str:
    """Give a digest of offers; empty when there are none, or one that no record brings back (a Secret)."""
    parts = sorted([*((b"", pod.raw) for pod in pods), *((item.revision.encode(), item.raw) for item in objects)])
    if not parts or not all(raw for _, raw in parts):
        return ""
    found = hashlib.sha256()
    for revision, raw in parts:
        found.update(b"%d %d " % (len(revision), len(raw)) + revision + raw)
    return found.hexdigest()


def pod_of(item: Item) -> Pod:
    """Give the Pod that came by the API; raises ConflictError for anything else."""
    if isinstance(item.value, Pod):
        return item.value
    kind = type(item.value).__name__
    raise ConflictError(f"the API takes Pods, not a {kind}", document=item.document, remedy="put it in a file")


def complaint(offer: PodOffer | ObjectOffer, problem: str, remedy: str, field_path: str = "") -> ConflictError:
    """Say why an offer is refused."""
    return ConflictError(problem, file=offer.place.origin, document=offer.document, field=field_path, remedy=remedy)


def in_two_places(offer: PodOffer, held: PodOffer) -> ConflictError:
    """Refuse a Pod that another place has already."""
    if offer.pod.key != held.pod.key:
        problem = f"{offer.pod.key} has the UID {offer.pod.uid} of {held.pod.key} in {held.place}, which came first"
        return complaint(offer, problem, "give each Pod a UID of its own, or none", "metadata.uid")
    problem = f"the Pod {held.pod.key} is also in {held.place}, which came first"
    if offer.place == held.place:
        problem = f"the Pod {held.pod.key} is also in document {held.document} of this file"
    return complaint(offer, problem, "remove it from one of them")


def name_taken(offer: PodOffer, held: PodOffer) -> ConflictError:
    """Refuse a Pod whose name another living Pod has."""
    problem = f"the name {held.pod.key} is taken by the Pod with UID {held.pod.uid} in {held.place}"
    return complaint(offer, problem, "remove one of them, or give it another name", "metadata.name")


def must_wait(offer: PodOffer) -> ConflictError:
    """Say that a Pod has to wait for the teardown of the one that had its UID before."""
    problem = f"an earlier Pod with the UID {offer.pod.uid} and another name is still being taken down"
    return complaint(offer, problem, "nothing to do: this one is accepted when the last of its volumes is gone")


def object_in_two_places(offer: ObjectOffer, held: ObjectOffer) -> ConflictError:
    """Refuse an object that another place has already."""
    name = f"{type(offer.item).__name__} {offer.item.metadata.name}"
    place = f"document {held.document} of this file" if offer.place == held.place else f"{held.place}, which came first"
    return complaint(offer, f"the {name} is also in {place}", "remove it from one of them")


def change_refused(offer: PodOffer, held: Pod) -> ConflictError | None:
    """Say what of a living UID a new manifest changes although it must not; None when it may."""
    pod = offer.pod
    if pod.key != held.key:
        problem = f"the UID {pod.uid} is that of the living Pod {held.key}"
        return complaint(offer, problem, "give the other Pod another UID, or none", "metadata.uid")
    remedy = "undo the change, or let a Pod with another UID replace this one"
    for path, before, after in _fixed(held, pod):
        if before != after:
            return complaint(offer, f"what must stay of the living Pod {held.key} was changed", remedy, path)
    return None


def _fixed(before: Pod, after: Pod) -> Iterator[tuple[str, object, object]]:
    """Give what must stay, as path and both values. Ephemeral containers may be added; labels and phase may change."""
    names = [volume.name for volume in before.spec.volumes]
    if names != [volume.name for volume in after.spec.volumes]:
        yield "spec.volumes", names, ()
    for index, (old, new) in enumerate(zip(before.spec.volumes, after.spec.volumes, strict=False)):
        yield f"spec.volumes[{index}]", _fixed_volume(old), _fixed_volume(new)
    yield "spec.initContainers[].volumeMounts", _uses(before.spec.init_containers), _uses(after.spec.init_containers)
    yield "spec.containers[].volumeMounts", _uses(before.spec.containers), _uses(after.spec.containers)
    yield "spec.securityContext", before.spec.security_context, after.spec.security_context


def _fixed_volume(volume: PodVolume) -> tuple[str, str, object]:
    return volume.name, volume.type, fixed_source(volume.type, volume.source)


def _uses(containers: tuple[Container, ...]) -> list[object]:
    return [(each.name, each.volume_mounts, each.volume_devices) for each in containers]
