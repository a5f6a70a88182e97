"""What is on the host without a Pod, and why it was kept. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.model.objects import StorageClass
from volmgr.model.volume import PersistentVolume
from volmgr.report.volumes import missing_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from volmgr.report.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanReport:
    """One thing that was kept; `volume` is its unique name where it is a volume."""

    pod_uid: str
    path: str
    reason: str
    volume: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphansReport:
    """All that was kept, by path; `problems` are why somebody's storage could not be looked into."""

    orphans: tuple[OrphanReport, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Storage:
    """Whose storage may have volumes that nobody knows, and what is known: names, and texts of sources."""

    provisioners: tuple[str, ...]
    known: frozenset[str]


def storage_of(world: World) -> Storage:
    """Give the provisioners of all classes, and what says which volumes are known."""
    items = [entry.item for entry in world.objects.values()]
    names = {item.provisioner for item in items if isinstance(item, StorageClass)}
    known = set(world.unfinished)
    for item in items:
        if isinstance(item, PersistentVolume):
            known |= {item.metadata.name, *(value for value in item.source.values() if isinstance(value, str))}
    return Storage(tuple(sorted(names)), frozenset(known))


def with_strangers(report: OrphansReport, found: Iterable[tuple[str, str]], problems: Iterable[str]) -> OrphansReport:
    """Add volumes of storage that look made for claims, each as its provisioner and what that calls it."""
    reason = (
        "{} has it, and it looks made for a claim; nothing here knows it: look, then delete it by the storage's tools"
    )
    strangers = (OrphanReport(pod_uid="", path="", reason=reason.format(maker), volume=name) for maker, name in found)
    return OrphansReport(orphans=(*report.orphans, *strangers), problems=tuple(problems))


def orphans_report(world: World) -> OrphansReport:
    """Report directories that were kept, and volumes of Pods or types that nobody knows."""
    directories = [OrphanReport(pod_uid=o.pod_uid, path=o.path, reason=o.reason) for o in world.orphans.values()]
    listed = {orphan.path for orphan in directories}
    volumes = [orphan for orphan in _volumes(world) if not orphan.path or orphan.path not in listed]
    volumes += _released(world)
    return OrphansReport(orphans=tuple(sorted([*directories, *volumes], key=lambda o: (o.path, o.volume))))


def _released(world: World) -> Iterator[OrphanReport]:
    """Give PersistentVolumes that were made for claims which are gone: their storage is kept."""
    for name, why in world.unfinished.items():
        yield OrphanReport(pod_uid="", path="", reason=why, volume=f"pv/{name}")
    for entry in world.objects.values():
        pv = entry.item
        if isinstance(pv, PersistentVolume) and pv.phase == "Released" and pv.metadata.name not in world.unfinished:
            yield OrphanReport(pod_uid="", path="", reason=pv.message, volume=f"pv/{pv.metadata.name}")


def _volumes(world: World) -> Iterator[OrphanReport]:
    for volume in world.actual:
        served = volume.plugin in world.plugins.types
        for uid, mount in volume.mounts.items():
            if served and uid in world.pods:
                continue
            reason = "its Pod is not known" if served else f"it waits for {missing_type(volume.plugin)}"
            yield OrphanReport(pod_uid=uid, path=str(mount.path or ""), reason=reason, volume=volume.name)
