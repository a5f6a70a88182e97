"""Which volume types are installed, what each can do, which packages are broken, and which drivers there are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from volmgr.plugin import Attachable, BlockMappable, DeviceMountable, Expandable, Measurable
from volmgr.report.times import rfc3339

if TYPE_CHECKING:
    from volmgr.model.driver_info import DriverInfo
    from volmgr.plugins import Plugins
    from volmgr.report.world import World
    from volmgr.volume_type import VolumeType

ABILITIES = {
    "attach": Attachable,
    "device": DeviceMountable,
    "block": BlockMappable,
    "expand": Expandable,
    "measure": Measurable,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldReport:
    """A field of a Pod volume (`pod`), a PersistentVolume (`pv`) or both that names the type."""

    field: str
    driver: str | None
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeReport:
    """One installed volume type."""

    name: str
    distribution: str
    version: str
    entry_point: str
    fields: tuple[FieldReport, ...]
    abilities: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapperReport:
    """One installed package with hooks of its own."""

    module: str
    distribution: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenReport:
    """One installed package that could not be used."""

    distribution: str
    version: str
    entry_point: str
    problem: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverReport:
    """One driver of `csi` that has registered, and what it says of itself."""

    name: str
    node_id: str
    """Its name for the node."""
    topology: Mapping[str, str]
    limit: int | None
    """How many of its volumes may be attached to the node at once; null: it does not say."""
    capabilities: tuple[str, ...]
    """What its node service can do, by CSI's names."""
    version: str
    endpoint: str
    """The socket that serves it."""
    since: str | None
    problem: str
    """Why the cluster is not told of it; empty when it is, and where there is no cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchReport:
    """Where drivers of a field (`csi`, `flexVolume`) are looked for; `problem` is what keeps them from being found."""

    field: str
    places: tuple[str, ...]
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentReport:
    """A driver that is not there, or something that might be one and is none; `reason` says what to do, too."""

    field: str
    name: str
    """The driver's; or a path, where nobody knows of which driver it is."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginsReport:
    """Every package of the entry-point group `volmgr.plugins`, and the drivers of `csi` that have registered.

    `searches` says where drivers are looked for, and `absent` what is not there, or not right.
    """

    types: tuple[TypeReport, ...]
    wrappers: tuple[WrapperReport, ...]
    broken: tuple[BrokenReport, ...]
    drivers: tuple[DriverReport, ...] = ()
    searches: tuple[SearchReport, ...] = ()
    absent: tuple[AbsentReport, ...] = ()


def plugins_report(world: World) -> PluginsReport:
    """Report the packages that a daemon uses."""
    drivers = (_driver(info, world.driver_problem(name)) for name, info in sorted(world.drivers.items()))
    searched = [each for _, each in sorted(world.plugins.searched.items())]
    return replace(
        report_of(world.plugins),
        drivers=tuple(drivers),
        searches=tuple(SearchReport(field=s.field, places=s.places, problem=s.problem) for s in searched),
        absent=tuple(
            AbsentReport(field=each.field, name=name, reason=reason)
            for each in searched
            for name, reason in sorted({**each.misfits, **each.absent}.items())
        ),
    )


def report_of(plugins: Plugins) -> PluginsReport:
    """Report a set of packages."""
    return PluginsReport(
        types=tuple(_type(plugins.types[name]) for name in sorted(plugins.types)),
        wrappers=tuple(
            WrapperReport(module=module.__name__, distribution=origin.distribution, version=origin.version)
            for module, origin in plugins.modules
        ),
        broken=tuple(
            BrokenReport(
                distribution=broken.origin.distribution,
                version=broken.origin.version,
                entry_point=broken.origin.entry_point,
                problem=broken.problem,
                traceback=broken.traceback,
            )
            for broken in plugins.broken
        ),
    )


def _driver(info: DriverInfo, problem: str) -> DriverReport:
    return DriverReport(
        name=info.name,
        node_id=info.node_id,
        topology=dict(sorted(info.topology.items())),
        limit=info.count,
        capabilities=info.capabilities,
        version=info.version,
        endpoint=info.endpoint,
        since=rfc3339(info.since),
        problem=problem,
    )


def _type(volume_type: VolumeType) -> TypeReport:
    plugin, origin = volume_type.plugin, volume_type.origin
    return TypeReport(
        name=volume_type.name,
        distribution=origin.distribution,
        version=origin.version,
        entry_point=origin.entry_point,
        fields=tuple(FieldReport(field=h.field, driver=h.driver, where=h.where.value) for h in plugin.handles),
        abilities=tuple(name for name, mixin in ABILITIES.items() if mixin in type(plugin).__mro__),
    )
