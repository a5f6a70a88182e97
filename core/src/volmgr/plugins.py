"""The volume types of a process: who serves what, and the dispatch of a volume to exactly one of them."""

from __future__ import annotations

import difflib
import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from volmgr import hookspecs
from volmgr.broken import Broken, isolated
from volmgr.errors import PluginError, UnservedError
from volmgr.in_tree import DRIVERS, MIGRATED, instead
from volmgr.model.driver_sources import CSI_FIELD, FLEX_FIELD
from volmgr.model.names import CSI, is_qualified
from volmgr.model.schema import Problem, SchemaError
from volmgr.model.schema import load as load_schema
from volmgr.plugin import API_VERSION, VolumePlugin, Where
from volmgr.volume_type import HookManager, Origin, VolumeType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from volmgr.host.interface import Host
    from volmgr.plugin import Drivers, Offers, Provisioner, Searched, Service

log = logging.getLogger("volmgr.plugins")

PACKAGES: Mapping[str, str] = {
    "emptyDir": "volmgr-emptydir",
    "hostPath": "volmgr-hostpath",
    "nfs": "volmgr-nfs",
    "iscsi": "volmgr-iscsi",
    "fc": "volmgr-fc",
    "cephfs": "volmgr-cephfs",
    "local": "volmgr-local",
    "csi": "volmgr-csi",
    "flexVolume": "volmgr-flexvolume",
    "secret": "volmgr-secret",
    "configMap": "volmgr-configmap",
    "downwardAPI": "volmgr-downwardapi",
    "projected": "volmgr-projected",
    "gitRepo": "volmgr-gitrepo",
    "image": "volmgr-image",
}
"""Which package of ours serves a field, for the error that says what to install."""
_ELSEWHERE: Mapping[Where, str] = {
    Where.PV: "volume type {!r} is one of PersistentVolumes only; write a PersistentVolume with it, a"
    " PersistentVolumeClaim that it is for, and persistentVolumeClaim in the Pod",
    Where.POD: "volume type {!r} is one of Pods only; write it below spec.volumes of the Pod",
}
"""What to write where a type is served, but not here; by where it is."""


@dataclass(frozen=True, slots=True)
class _Conflict:
    """Two packages that claim the same."""

    claims: tuple[VolumeType, ...]


_MOST_HINTS = 3
_Key = tuple[str, str | None, Where]
"""A field, a driver, and whether it stands in a Pod or a PersistentVolume."""


def _keys(volume_type: VolumeType) -> Iterable[_Key]:
    """Give what a type says that it serves."""
    for handle in volume_type.plugin.handles:
        for place in (Where.POD, Where.PV) if handle.where is Where.BOTH else (handle.where,):
            yield (handle.field, handle.driver, place)


class Plugins:
    """The volume types of this process: who serves what, and who could not be loaded."""

    def __init__(self) -> None:
        """Start with none."""
        self.types: dict[str, VolumeType] = {}
        self.broken: list[Broken] = []
        self.modules: list[tuple[ModuleType, Origin]] = []
        self.registration = HookManager("volmgr")
        self.registration.add_hookspecs(hookspecs.Registration)
        self.registration.add_hookspecs(hookspecs.Operations)  # so that a misspelt hook is found
        self.searched: dict[str, Searched] = {}
        """By field: where its drivers are looked for, and what was found that is none."""
        self.settings: dict[str, type[Any]] = {}
        """The dataclasses into which the settings of modules are read, by their names in the configuration."""
        self.provisioners: list[tuple[Provisioner, Origin]] = []
        """Who makes volumes for claims, and by which package."""
        self._owners: dict[_Key, VolumeType | _Conflict] = {}
        """Drivers come and go on the main thread, while others read manifests: who looks through it takes a copy."""
        self._doubles: dict[str, tuple[VolumeType, ...]] = {}
        """Types of one name, by that name; none of them serves anything."""

    def add(self, plugin: VolumePlugin[Any], origin: Origin) -> None:
        """Register one plugin object; raises PluginError when its name or version cannot be taken."""
        cls = type(plugin)
        if cls.api_version != API_VERSION:
            remedy = "volmgr" if cls.api_version > API_VERSION else "its package"
            message = (
                f"{cls.__qualname__} is written for plugin API {cls.api_version}, this volmgr has {API_VERSION};"
                f" upgrade {remedy}"
            )
            raise PluginError(message)
        if not getattr(plugin, "name", "") or not getattr(plugin, "handles", ()):
            message = f"{cls.__qualname__} must set name and handles"
            raise PluginError(message)
        if not is_qualified(plugin.name):
            message = f"{plugin.name!r} is not a qualified name; write one such as example.com/disk"
            raise PluginError(message)
        volume_type = VolumeType(plugin, origin, [module for module, _ in self.modules])
        if plugin.name in self.types or plugin.name in self._doubles:
            raise PluginError(self._refuse_double(volume_type))
        self.types[plugin.name] = volume_type
        for key in _keys(volume_type):
            owner = self._owners.get(key)
            if owner is None:
                self._owners[key] = volume_type
            else:
                claims = owner.claims if isinstance(owner, _Conflict) else (owner,)
                self._owners[key] = _Conflict((*claims, volume_type))

    def _refuse_double(self, newcomer: VolumeType) -> str:
        """Let none of the types of one name serve anything, and say which packages bring them."""
        first = self.types.pop(newcomer.name, None)
        claims = self._doubles[newcomer.name] = (*self._doubles.get(newcomer.name, (first,) if first else ()), newcomer)
        for claim in claims:
            for key in _keys(claim):
                self._owners[key] = _Conflict(claims)
        names = " and ".join(str(claim.origin) for claim in claims)
        message = f"{newcomer.name} is brought by both {names}; uninstall one of them"
        if first is not None:
            self.broken.append(Broken(first.origin, message))
        return message

    def replace_driver(self, plugin: VolumePlugin[Any], origin: Origin) -> None:
        """Register a driver's plugin object, in place of one of the same name and origin; raises PluginError."""
        old = self.types.get(plugin.name)
        if old is not None and old.origin == origin:
            self._disown(self.types.pop(plugin.name))
        self.add(plugin, origin)

    def retire(self, name: str) -> None:
        """Let a type serve nothing new: its driver has vanished."""
        volume_type = self.types.get(name)
        if volume_type is not None:
            volume_type.retired = True
            self._disown(volume_type)

    def services(
        self,
        drivers: Callable[[Origin], Drivers],
        offers: Callable[[str], Offers],
        recheck: Callable[[str], None],
        host: Host,
    ) -> list[Service]:
        """Ask each package for its watchers of drivers and of holders, and its sources; one that fails is broken."""
        found: list[Service] = []
        for module, origin in self.modules:
            others = [other for other, _ in self.modules if other is not module]
            hook = self.registration.subset_hook_caller
            watchers = partial(hook("volmgr_driver_watchers", others), drivers=drivers(origin), host=host)
            sources = partial(hook("volmgr_sources", others), offers=offers, host=host)
            isolated(self.broken, origin, partial(_collect, found, watchers, sources))
            holders = partial(hook("volmgr_hold_watchers", others), recheck=recheck, host=host)
            isolated(self.broken, origin, partial(self._take_hold_watchers, found, holders))
            makers = partial(hook("volmgr_provisioners", others), host=host)
            isolated(self.broken, origin, partial(self._take_provisioners, makers, origin))
        return found

    def _take_provisioners(self, makers: Callable[[], list[Iterable[Provisioner]]], origin: Origin) -> None:
        self.provisioners += ((provisioner, origin) for answer in makers() for provisioner in answer)

    def provisioner(self, name: str) -> Provisioner | None:
        """Give who makes volumes for classes with this provisioner, if anybody; raises PluginError for two of them."""
        found = [(provisioner, origin) for provisioner, origin in self.provisioners if _serves(provisioner, name)]
        if len(found) > 1:
            names = " and ".join(str(origin) for _, origin in found)
            raise PluginError(f"provisioner {name} is served by {names}; uninstall one of them")
        return found[0][0] if found else None

    def makes_volumes(self, provisioner: str) -> bool:
        """Say whether somebody makes volumes for classes with this provisioner."""
        return any(_serves(each, provisioner) for each, _ in self.provisioners)

    def _take_hold_watchers(self, found: list[Service], watchers: Callable[[], list[Iterable[Service]]]) -> None:
        for service in [service for answer in watchers() for service in answer]:
            self.registration.register(service)  # so that who watches can be who answers volmgr_holds
            found.append(service)

    def _disown(self, volume_type: VolumeType) -> None:
        for key, owner in list(self._owners.items()):
            if owner is volume_type:
                del self._owners[key]

    def find(self, field: str, driver: str | None = None, where: Where = Where.POD) -> VolumeType:
        """Give the one type that serves a field (and driver) in a Pod or PV; raises UnservedError, PluginError."""
        for key in ((field, driver, where), (field, None, where)):
            owner = self._owners.get(key)
            if isinstance(owner, _Conflict):
                names = " and ".join(str(claim.origin) for claim in owner.claims)
                message = f"volume type {field!r} is claimed by {names}; uninstall one of them"
                raise PluginError(message)
            if owner is not None:
                return owner
        elsewhere = next((at for at in Where if at is not where and self._owners.get((field, driver, at))), None)
        raise UnservedError(_ELSEWHERE[elsewhere].format(field) if elsewhere else self._unserved(field, driver))

    def _unserved(self, field: str, driver: str | None) -> str:
        what = f"volume type {field!r}" + (f" with driver {driver!r}" if driver else "")
        package = PACKAGES.get(CSI_FIELD if field in MIGRATED else field)
        for broken in self.broken:
            if package == broken.origin.distribution:
                return f"{what}: {broken.origin} is installed but broken: {broken.problem}; see volmgr plugins"
        if field in self.searched:
            return self._searched_in_vain(self.searched[field], what, driver or "")
        if field in PACKAGES:
            return f"no installed package serves {what}; install {PACKAGES[field]}, then run volmgr plugins reload"
        if use := instead(field):
            return f"no package serves {what}; {use}"
        near = difflib.get_close_matches(field, [*PACKAGES, *self.fields()], n=1)
        hint = f"did you mean {near[0]!r}?" if near else "install the package that brings it"
        return f"no installed package serves {what}; {hint}"

    def _searched_in_vain(self, searched: Searched, what: str, driver: str) -> str:
        """Say where a driver was looked for, and what is nearest to it: the same name first."""
        known = {name for field, name, _ in tuple(self._owners) if field == searched.field and name}
        misfits = [searched.misfits[name] for name in _nearest(driver, searched.misfits)]
        near = [f"there is a driver {name!r}" for name in _nearest(driver, known)]
        hint = "; ".join([*misfits, *near][:_MOST_HINTS]) or "install its driver there"
        trouble = f"; {searched.problem}" if searched.problem else ""
        return f"nothing serves {what}: looked in {', '.join(searched.places)}{trouble}; {hint}"

    @property
    def edition(self) -> str:
        """Say what is installed, with versions: another edition may read a manifest otherwise."""
        return ", ".join(sorted({str(volume_type.origin) for volume_type in self.types.values()}))

    def owner_of(self, field: str, driver: str | None) -> VolumeType | None:
        """Give the one type that serves a field and driver, wherever it may stand, if there is one."""
        for where in (Where.POD, Where.PV):
            with suppress(PluginError):
                return self.find(field, driver, where)
        return None

    def of_directory(self, name: str, driver: str = "") -> VolumeType | None:
        """Give the type whose volumes lie in directories of this name (kubelet's, not escaped); `driver` is of csi."""
        if name == CSI:
            return self.owner_of(CSI_FIELD, driver or None)
        return self.types.get(name) or self.drivers_of(FLEX_FIELD).get(name)

    def drivers_of(self, field: str) -> Mapping[str, VolumeType]:
        """Give the drivers of a field that installed classes are, and the type of each."""
        found = {driver: owner for (each, driver, _), owner in tuple(self._owners.items()) if each == field and driver}
        return {driver: owner for driver, owner in sorted(found.items()) if isinstance(owner, VolumeType)}

    def fields(self) -> frozenset[str]:
        """Give the fields that some installed type serves."""
        return frozenset(key[0] for key in tuple(self._owners))

    def migrates(self, field: str) -> bool:
        """Say whether volumes of a field become volumes of csi: an in-tree one that no package claims.

        Without a type for its driver there is nothing to become. Raises PluginError where two packages claim that.
        """
        if field not in MIGRATED or self.known(field):
            return False
        try:
            self.find(CSI_FIELD, DRIVERS[field], Where.PV)
        except UnservedError:
            return False
        return True

    def source_of(self, field: str, driver: str | None) -> type[Any] | None:
        """Give the dataclass that a field's value is read into, if a type is installed for it."""
        with suppress(PluginError):
            if self.migrates(field):
                from volmgr import migration

                return migration.source_of(field)
        for where in (Where.POD, Where.PV):
            with suppress(PluginError):
                return self.find(field, driver, where).source_of(field, driver)
        return None

    def finished(self, volume: str, operation: str, pod_uid: str, outcome: str, seconds: float) -> None:
        """Tell the observing packages of an operation that ended; a failing one is logged, never felt."""
        if not self.registration.hook.volmgr_operation_finished.get_hookimpls():
            return
        try:
            self.registration.hook.volmgr_operation_finished(
                volume=volume, operation=operation, pod_uid=pod_uid, outcome=outcome, seconds=seconds
            )
        except BaseException:  # foreign code, which may raise anything; the operation has ended as it has
            log.exception("a package failed in volmgr_operation_finished")

    def limit_reached(self, driver: str, host: Host) -> None:
        """Tell the packages that a controller found no room for a volume of a driver; as `finished` does."""
        try:
            self.registration.hook.volmgr_attach_limit_reached(driver=driver, host=host)
        except BaseException:  # foreign code, which may raise anything
            log.exception("a package failed in volmgr_attach_limit_reached")

    @property
    def know_holders(self) -> bool:
        """Say whether some package can be asked who runs a Pod's containers."""
        return bool(self.registration.hook.volmgr_holds.get_hookimpls())

    def holders(self, pod_uid: str) -> str:
        """Ask the installed packages who still runs containers of a Pod; a failing one counts as a holder."""
        try:
            answers = self.registration.hook.volmgr_holds(pod_uid=pod_uid)
        except BaseException as error:  # foreign code, which may raise anything; nothing is torn down on a guess
            log.exception("a package failed in volmgr_holds")
            asked = self.registration.hook.volmgr_holds.get_hookimpls()
            modules = " or ".join(sorted({str(each.function.__module__) for each in asked}))
            remedy = "the log has its traceback; repair or uninstall its package, then run volmgr plugins reload"
            return f"unknown: {modules} failed to answer: {error}; {remedy}"
        return ", ".join(str(answer) for answer in answers if answer)

    def known(self, field: str) -> bool:
        """Say whether some installed type serves a field."""
        return field in self.fields()

    def repair(self, field: str) -> str:
        """Say which broken package is named after a field (without one: all of them); empty when there is none."""
        names = [str(broken.origin) for broken in self.broken if field.lower() in str(broken.origin).lower()]
        if not names:
            return ""
        verb = "is" if len(names) == 1 else "are"
        return f"{' and '.join(names)}, which may serve it, {verb} installed but broken: see volmgr plugins"


def _serves(provisioner: Provisioner, name: str) -> bool:
    """Ask a package whether it makes volumes for classes with this provisioner; one that fails makes none."""
    try:
        return provisioner.serves(name) is True
    except BaseException:  # foreign code, which may raise anything
        log.exception("a package failed to say whether it serves provisioner %s", name)
        return False


def _nearest(driver: str, names: Iterable[str]) -> list[str]:
    """Give the names most like that of a driver, also those that differ in their vendor alone."""
    short = {name: name.rpartition("/")[2] for name in names}
    like = difflib.get_close_matches(driver, list(short), n=_MOST_HINTS)
    same = [name for name, last in sorted(short.items()) if last == driver.rpartition("/")[2]]
    return list(dict.fromkeys([*(name for name in same if name == driver), *like, *same]))


def read_settings(plugins: Plugins, given: Mapping[str, Mapping[str, object]]) -> tuple[object, ...]:
    """Read what the configuration says of each type into the type's dataclass; raises SchemaError.

    What belongs to no installed type is logged and ignored: packages come and go.
    """
    settings: list[object] = []
    problems: list[Problem] = []
    for name, values in given.items():
        volume_type = plugins.types.get(name)
        if volume_type is None and name not in plugins.settings:
            log.warning("the configuration has settings for %s, which no installed package serves", name)
            continue
        cls = plugins.settings.get(name) if volume_type is None else volume_type.plugin.settings
        if cls is None:
            problems.append(Problem(f"plugins.{name}", "this volume type has no settings", "remove them"))
            continue
        try:
            settings.append(load_schema(cls, values, path=f"plugins.{name}"))
        except SchemaError as error:
            problems += error.problems
    if problems:
        raise SchemaError(problems)
    return tuple(settings)


def _collect(
    found: list[Service], watchers: Callable[[], list[Iterable[Service]]], sources: Callable[[], list[Service]]
) -> None:
    found.extend(service for answer in watchers() for service in answer)
    found.extend(sources())
