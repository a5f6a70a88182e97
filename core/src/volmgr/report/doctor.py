"""What the daemon itself finds wrong with the node, each with a remedy. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.desired import READING
from volmgr.model.driver_sources import CSI_FIELD
from volmgr.report.contact import unserved, unserved_line
from volmgr.report.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from volmgr.report.world import World

_SOURCE_REMEDIES = {
    "directory": "make it readable; if it was moved on purpose: volmgr doctor --accept-manifests",
    "kubernetes": "look at its network, certificate and rights: docs/kubernetes.md says what it takes",
}
_OTHER_REMEDY = "look at the package that reads it"
_START = "start it, and its registrar"
_MOST_OBJECTS = 10
"""Objects that cannot be read and are named one by one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `remedy` says what to do when it is not `ok`, or what may be done when it is."""

    check: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The daemon's root directory, and what it found."""

    root: str
    findings: tuple[Finding, ...]


def doctor(world: World) -> DoctorReport:
    """Report what hinders the daemon."""
    return DoctorReport(root=str(world.paths.root), findings=tuple(_findings(world)))


def _findings(world: World) -> Iterator[Finding]:
    if world.readiness.read_only:
        detail = f"{world.paths.root} was filled by somebody else; nothing is changed in it"
        yield Finding(check="adoption", ok=False, detail=detail, remedy="stop the other one, then run volmgr adopt")
    for name, problem in sorted(world.sources.items()):
        trouble = problem or world.out_of_contact.get(name, "")
        remedy = _SOURCE_REMEDIES.get(name, _OTHER_REMEDY) if trouble else ""
        yield Finding(check=f"source {name}", ok=not trouble, detail=trouble or "was read whole", remedy=remedy)
    for name, count in unserved(world).items():
        detail = unserved_line(name, count)
        yield Finding(check=f"source {name}", ok=False, detail=detail, remedy="read it again, or delete what it left")
    yield from _cluster(world)
    yield from _drivers(world)
    for origin, errors in sorted(world.complaints.items()):
        for error in errors:
            detail = str(error).removeprefix(f"{origin}: ")
            yield Finding(check=f"manifest {origin}", ok=False, detail=detail, remedy=f"volmgr check {origin}")
    for broken in world.plugins.broken:
        remedy = f"repair or uninstall {broken.origin.distribution}, then run volmgr plugins reload"
        yield Finding(check=f"package {broken.origin.distribution}", ok=False, detail=broken.problem, remedy=remedy)
    for operation, running in world.running.items():
        if running.quarantined:
            detail = f"{operation.verb.value} of {operation.volume} hangs since {rfc3339(running.since)}"
            yield Finding(check="hanging operation", ok=False, detail=detail, remedy="look at its server or device")


def _drivers(world: World) -> Iterator[Finding]:
    """Say which drivers the node needs and has not, what might be one and is none, of which the cluster is not told."""
    searched = world.plugins.searched.get(CSI_FIELD)
    absent = searched.absent if searched is not None else dict[str, str]()
    for name, detail in world.missing_drivers.items():
        remedy = f"{absent.get(name, _START)}; or take it out of required_drivers"
        yield Finding(check=f"driver {name}", ok=False, detail=detail, remedy=remedy)
    left = _left_by_drivers(world)
    for name, count in sorted(left.items()):
        detail = f"{world.missing_driver(name)}; volumes here that need it: {count}"
        remedy = f"{absent.get(name, _START)}; what is mounted stays until then"
        yield Finding(check=f"driver {name}", ok=False, detail=detail, remedy=remedy)
    yield from _misfits(world, {*world.missing_drivers, *left})
    for name in sorted(world.drivers):
        if problem := world.driver_problem(name):
            remedy = "do what it says; the cluster sends no Pods with its volumes until then"
            yield Finding(check=f"driver {name}", ok=False, detail=problem, remedy=remedy)


def _misfits(world: World, said: Container[str]) -> Iterator[Finding]:
    """Say what lies where drivers are looked for and is none; of which driver it is, if any, may not be known."""
    for field, searched in sorted(world.plugins.searched.items()):
        if searched.problem:
            detail, remedy = searched.problem, "do what it says; no driver is found until then"
            yield Finding(check=f"drivers of {field}", ok=False, detail=detail, remedy=remedy)
        for name, problem in sorted(searched.misfits.items()):
            if name not in said:
                is_harmless = name.startswith("/") or name in world.drivers
                remedy = "do what it says, if a driver is missing" if is_harmless else "do what it says"
                yield Finding(check=f"driver {name}", ok=is_harmless, detail=problem, remedy=remedy)


def _left_by_drivers(world: World) -> Counter[str]:
    """Count the volumes, wanted or there, of each driver of `csi` that is not here; required ones are named anyway."""
    here = {*world.drivers, *world.plugins.drivers_of(CSI_FIELD), *world.required_drivers}
    specs = {volume.name: volume.spec for volume in (*world.actual, *world.desired)}
    drivers = (spec.driver for spec in specs.values() if spec is not None and spec.type == CSI_FIELD)
    return Counter(driver for driver in drivers if driver and driver not in here)


def _cluster(world: World) -> Iterator[Finding]:
    """Say what the API server keeps from this node, as far as the daemon has met it."""
    if (reading := world.reading) is not None:
        detail = f"{reading.server}: watches {reading.watches}, objects asked for {reading.asked}"
        yield Finding(check="API server", ok=True, detail=detail)
        missing = reading.unregistered
        detail = missing or "is known as one that takes volumes"
        remedy = "wait for it; if it stays, do what it says: docs/kubernetes.md has the rights" if missing else ""
        yield Finding(check="own CSINode", ok=not missing, detail=detail, remedy=remedy)
    if world.attach_note:
        remedy = "do what it says; or set controller_attach: false if no controller attaches"
        yield Finding(check="own Node", ok=False, detail=world.attach_note, remedy=remedy)
    unread = [(ref, why) for ref, why in sorted(world.awaited_objects.items()) if why != READING]
    for ref, why in unread[:_MOST_OBJECTS]:
        yield Finding(check=str(ref), ok=False, detail=why, remedy="docs/kubernetes.md has the rights that it takes")
    if (more := len(unread) - _MOST_OBJECTS) > 0:
        yield Finding(check="objects", ok=False, detail=f"{more} more cannot be read", remedy="volmgr why POD")
