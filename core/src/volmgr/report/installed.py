"""Which volume types are installed, what each can do, and which packages are broken. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from volmgr.plugin import Attachable, BlockMappable, DeviceMountable, Expandable, Measurable

if TYPE_CHECKING:
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
class PluginsReport:
    """Every package of the entry-point group `volmgr.plugins`."""

    types: tuple[TypeReport, ...]
    wrappers: tuple[WrapperReport, ...]
    broken: tuple[BrokenReport, ...]


def plugins_report(world: World) -> PluginsReport:
    """Report the packages that a daemon uses."""
    return report_of(world.plugins)


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
