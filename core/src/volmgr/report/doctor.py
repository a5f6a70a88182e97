"""What the daemon itself finds wrong with the node, each with a remedy. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.report.times import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from volmgr.report.world import World


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `remedy` says what to do when it is not `ok`."""

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
        remedy = "make it readable; if it was moved on purpose: volmgr doctor --accept-manifests" if problem else ""
        yield Finding(check=f"source {name}", ok=not problem, detail=problem or "was read whole", remedy=remedy)
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
