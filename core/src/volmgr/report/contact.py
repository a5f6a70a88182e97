"""What is not current, and how old it is: a source that does not hear of its API server, or that nobody reads. Pure.

A source that was never read since the start is not out of contact but not ready, with what the records say of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from volmgr.claims import CLAIM_FIELDS, claim_ref
from volmgr.model.meta import ObjectRef
from volmgr.report.times import rfc3339

if TYPE_CHECKING:
    from volmgr.report.world import PodEntry, World

_OPTIONS = {"kubernetes": "--kubeconfig", "directory": "--manifests"}
"""The option of volmgrd that makes it read a source; others are read by a package."""


def is_unserved(world: World, entry: PodEntry) -> bool:
    """Say whether a Pod is of a source that this daemon does not read: nobody will say when it leaves."""
    return entry.source not in world.sources and not entry.leaving


def unserved(world: World) -> dict[str, int]:
    """Count the Pods of sources that this daemon does not read, by source."""
    counts = Counter(entry.source for entry in world.pods.values() if is_unserved(world, entry))
    return dict(sorted(counts.items()))


def unserved_line(source: str, count: int = 1) -> str:
    """Say what becomes of Pods whose source this daemon does not read."""
    option = _OPTIONS.get(source)
    back = f"volmgrd is started with {option}" if option else "the package that reads it is installed again"
    whose, them = ("the Pod is", "the Pod") if count == 1 else (f"{count} Pods are", "each of them")
    return (
        f"{whose} of source {source}, which this daemon does not read: nobody says when {them} leaves;"
        f" until {back}, or `volmgr delete POD`, the volumes stay"
    )


def contact_lines(world: World) -> tuple[str, ...]:
    """Say which sources are not current, since when, and why."""
    unread = tuple(
        f"source {name} was last heard of at {rfc3339(world.source_contact[name])}, and what it said then stands"
        for name, problem in sorted(world.sources.items())
        if problem and world.source_contact.get(name)
    )
    return unread + tuple(
        f"source {name} is out of contact{_since(world, name)}, and what it said stands: {problem}"
        for name, problem in sorted(world.out_of_contact.items())
    )


def age_lines(world: World, entry: PodEntry) -> tuple[str, ...]:
    """Say how old a Pod is, and what it refers to, as far as it was read from a server that is out of contact."""
    current = entry.source not in world.out_of_contact and not world.sources.get(entry.source)
    own = () if current else contact_lines(world)
    if not world.out_of_contact and not any(world.sources.values()):
        return ()
    ages = (
        f"{ref} is as of {rfc3339(known.read_at)}"
        for ref in sorted(set(_references(world, entry)))
        if (known := world.objects.get(ref)) is not None and known.read_at
    )
    return (*own, *ages)


def _since(world: World, source: str) -> str:
    contact = rfc3339(world.source_contact.get(source, 0.0))
    return f" since {contact}" if contact else ""


def _references(world: World, entry: PodEntry) -> Iterator[ObjectRef]:
    uid = entry.pod.uid
    for volume in entry.pod.spec.volumes:
        if volume.type in CLAIM_FIELDS:
            yield claim_ref(entry.pod, volume)
    for wanted in world.desired.of_pod(uid):
        mount = wanted.mounts[uid]
        yield from (reference.ref for reference in mount.references)
        if mount.spec.pv is not None and not mount.spec.inline:
            yield ObjectRef("PersistentVolume", "", mount.spec.pv.metadata.name)
