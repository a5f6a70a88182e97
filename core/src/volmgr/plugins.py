"""Discover volume types (stevedore), register them (pluggy) and dispatch a volume to exactly one of them.

Each type lives in a PluginManager of its own together with every wrapper package, so exactly one type acts and any
package can wrap an operation. This is the one module where values are `Any`: hooks are looked up by name.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import inspect
import logging
import threading
import traceback
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pluggy
from stevedore.extension import Extension, ExtensionManager

from volmgr import hookspecs
from volmgr.errors import (
    OperationError,
    PluginError,
    SpecError,
    TransientError,
    UncertainError,
    UnservedError,
    VolmgrError,
)
from volmgr.plugin import (
    API_VERSION,
    OPERATIONS,
    Attached,
    Detached,
    DeviceMounted,
    DeviceUnmounted,
    Expanded,
    Measured,
    Mounted,
    Reconstructed,
    Unmounted,
    VolumePlugin,
    Where,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from volmgr.host.interface import Host

log = logging.getLogger("volmgr.plugins")

GROUP = "volmgr.plugins"
"""The entry-point group in which a package names its VolumePlugin subclass, or a module with hooks."""

OUTCOMES: Mapping[str, type[Any]] = {
    "attach": Attached,
    "wait_for_attach": Attached,
    "detach": Detached,
    "mount_device": DeviceMounted,
    "unmount_device": DeviceUnmounted,
    "mount": Mounted,
    "unmount": Unmounted,
    "expand": Expanded,
    "reconstruct": Reconstructed,
    "measure": Measured,
}
"""The type of value that each operation returns."""

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

_HOOKS = {f"volmgr_{name}": name for name in OPERATIONS}


class HookManager(pluggy.PluginManager):
    """A PluginManager to which the operations of a VolumePlugin object are hook implementations as they are."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:  # noqa: ANN401 - pluggy's own signature
        """Take `mount` of a volume plugin as the implementation of `volmgr_mount`; else look for the marker."""
        if not isinstance(plugin, VolumePlugin):
            return super().parse_hookimpl_opts(plugin, name)
        if name not in OPERATIONS or not callable(getattr(plugin, name, None)):
            return None
        return {
            "wrapper": False,
            "hookwrapper": False,
            "optionalhook": False,
            "tryfirst": False,
            "trylast": False,
            "specname": f"volmgr_{name}",
        }


class _Keeper:
    """The innermost wrapper: keeps what the plugin itself said, whatever the wrappers outside make of it."""

    def __init__(self) -> None:
        self.local = threading.local()

    def begin(self) -> None:
        self.local.value = None
        self.local.error = None

    def keep(self) -> Generator[None, Any, Any]:
        try:
            value = yield
        except BaseException as error:
            self.local.error = error
            raise
        self.local.value = value
        return value


def _keeping(name: str) -> Any:  # noqa: ANN401 - a hook implementation made for pluggy
    def keep(self: _Keeper, request: object, host: object) -> Generator[None, Any, Any]:
        del request, host
        return (yield from self.keep())

    def keep_found(self: _Keeper, found: object, host: object) -> Generator[None, Any, Any]:
        del found, host
        return (yield from self.keep())

    function = keep_found if name == "reconstruct" else keep
    return pluggy.HookimplMarker("volmgr")(function, wrapper=True, trylast=True)


for _name in OPERATIONS:
    setattr(_Keeper, f"volmgr_{_name}", _keeping(_name))


def severity(error: BaseException | None) -> int:
    """Rank what an error says of the host: 0 nothing changed, 1 failed and cleaned up, 2 uncertain."""
    if isinstance(error, UncertainError):
        return 2
    if isinstance(error, (TransientError, SpecError, PluginError)):
        return 0
    if isinstance(error, OperationError):
        return 1
    return 2


@dataclass(frozen=True, slots=True)
class Origin:
    """The distribution and entry point that brought something."""

    distribution: str
    version: str
    entry_point: str

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} ({self.entry_point})"


class VolumeType:
    """One volume type, ready to be called."""

    def __init__(self, plugin: VolumePlugin[Any], origin: Origin, wrappers: Iterable[object]) -> None:
        """Register the plugin object and the wrapper packages in a manager of their own."""
        self.plugin = plugin
        self.origin = origin
        self.name = plugin.name
        self._keeper = _Keeper()
        self._manager = HookManager("volmgr")
        self._manager.add_hookspecs(hookspecs.Operations)
        self._manager.register(plugin, "type")
        self._manager.register(self._keeper, "keeper")
        for wrapper in wrappers:
            self._manager.register(wrapper)

    def ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - by method
        """Call a pure method; whatever goes wrong in it is a PluginError that names the package."""
        try:
            return getattr(self.plugin, method)(*arguments)
        except VolmgrError:
            raise
        except Exception as error:
            log.exception("%s: %s() failed", self.origin, method)
            raise PluginError(f"{method}() of {self.origin} failed: {type(error).__name__}: {error}") from error

    def call(self, operation: str, request: object, host: Host) -> Any:  # noqa: ANN401 - by operation, OUTCOMES
        """Perform one operation and give its outcome; raises what the plugin or a wrapper raised.

        If the plugin acted and the chain around it then failed or lost the result, raises UncertainError; an
        error that a wrapper made milder is raised as it was.
        """
        kept = self._keeper
        kept.begin()
        hook = getattr(self._manager.hook, f"volmgr_{operation}")
        argument = "found" if operation == "reconstruct" else "request"
        try:
            value = hook(**{argument: request, "host": host})
        except BaseException as error:
            if kept.local.value is not None:
                message = f"{self.name}: {operation} was done, but a wrapper then failed: {error}"
                raise UncertainError(message) from error
            if kept.local.error is not None and severity(kept.local.error) > severity(error):
                raise kept.local.error from error
            raise
        if isinstance(value, OUTCOMES[operation]):
            return value
        acted = kept.local.value is not None or kept.local.error is not None
        message = f"{self.name}: {operation} gave {value!r} instead of {OUTCOMES[operation].__name__}"
        if acted or value is not None:
            raise UncertainError(message)
        raise PluginError(message)


@dataclass(frozen=True, slots=True)
class Broken:
    """A package that could not be used, with the reason and its traceback."""

    origin: Origin
    problem: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class _Conflict:
    """Two packages that claim the same."""

    claims: tuple[VolumeType, ...]


class _Loader(ExtensionManager[Any]):
    """stevedore, told to keep each entry point's distribution and to isolate every failure."""

    def __init__(self, points: Iterable[importlib.metadata.EntryPoint] | None) -> None:
        self.points = list(importlib.metadata.entry_points(group=GROUP) if points is None else points)
        self.failed: list[Broken] = []
        super().__init__(GROUP, on_load_failure_callback=_note_failure)

    def list_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        # Not stevedore's: its cache may be stale, and it drops the distribution.
        return self.points

    def _load_one_plugin(self, ep: importlib.metadata.EntryPoint, *args: Any, **kwargs: Any) -> Extension[Any] | None:  # noqa: ANN401
        # stevedore lets AssertionError and SystemExit of a bad package end the program.
        try:
            return super()._load_one_plugin(ep, *args, **kwargs)
        except (AssertionError, SystemExit) as error:
            message = f"import ended with {type(error).__name__}: {error}"
            raise PluginError(message) from error


def _note_failure(loader: Any, point: importlib.metadata.EntryPoint, error: BaseException) -> None:  # noqa: ANN401
    text = "".join(traceback.format_exception(error))
    loader.failed.append(Broken(_origin(point), f"{type(error).__name__}: {error}", text))


def _origin(point: importlib.metadata.EntryPoint) -> Origin:
    dist = point.dist
    return Origin(dist.name if dist else "unknown", dist.version if dist else "", f"{point.name} = {point.value}")


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
        self._owners: dict[tuple[str, str | None, Where], VolumeType | _Conflict] = {}

    def add(self, plugin: VolumePlugin[Any], origin: Origin) -> None:
        """Register one plugin object; raises PluginError when its name or version cannot be taken."""
        cls = type(plugin)
        if cls.api_version != API_VERSION:
            message = f"{cls.__qualname__} is written for plugin API {cls.api_version}, this volmgr has {API_VERSION}"
            raise PluginError(message)
        if not getattr(cls, "name", "") or not getattr(cls, "handles", ()):
            message = f"{cls.__qualname__} must set name and handles"
            raise PluginError(message)
        if plugin.name in self.types:
            other = self.types.pop(plugin.name)
            self._disown(other)
            message = f"{plugin.name} is brought by both {other.origin} and {origin}; uninstall one of them"
            self.broken.append(Broken(other.origin, message))
            raise PluginError(message)
        volume_type = VolumeType(plugin, origin, [module for module, _ in self.modules])
        self.types[plugin.name] = volume_type
        for handle in plugin.handles:
            places = (Where.POD, Where.PV) if handle.where is Where.BOTH else (handle.where,)
            for place in places:
                key = (handle.field, handle.driver, place)
                owner = self._owners.get(key)
                if owner is None:
                    self._owners[key] = volume_type
                else:
                    claims = owner.claims if isinstance(owner, _Conflict) else (owner,)
                    self._owners[key] = _Conflict((*claims, volume_type))

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
        raise UnservedError(self._unserved(field, driver))

    def _unserved(self, field: str, driver: str | None) -> str:
        what = f"volume type {field!r}" + (f" with driver {driver!r}" if driver else "")
        for broken in self.broken:
            if PACKAGES.get(field) == broken.origin.distribution:
                return f"{what}: {broken.origin} is installed but broken: {broken.problem}; see volmgr plugins"
        if field in PACKAGES:
            return f"no installed package serves {what}; install {PACKAGES[field]}, then run volmgr plugins reload"
        near = difflib.get_close_matches(field, [*PACKAGES, *(key[0] for key in self._owners)], n=1)
        hint = f"did you mean {near[0]!r}?" if near else "install the package that brings it"
        return f"no installed package serves {what}; {hint}"

    def fields(self) -> frozenset[str]:
        """Give the fields that some installed type serves."""
        return frozenset(key[0] for key in self._owners)

    def source_of(self, field: str, driver: str | None) -> type[Any] | None:
        """Give the dataclass that a field's value is read into, if a type is installed for it."""
        for where in (Where.POD, Where.PV):
            try:
                found = self.find(field, driver, where)
            except PluginError:
                continue
            for wanted in (driver, None):
                for handle in found.plugin.handles:
                    if handle.field == field and handle.driver == wanted:
                        return handle.source
        return None

    def finished(self, volume: str, operation: str, pod_uid: str, outcome: str, seconds: float) -> None:
        """Tell the observing packages of an operation that ended; a failing one is logged, never felt."""
        if not self.modules:
            return
        try:
            self.registration.hook.volmgr_operation_finished(
                volume=volume, operation=operation, pod_uid=pod_uid, outcome=outcome, seconds=seconds
            )
        except Exception:
            log.exception("a package failed in volmgr_operation_finished")

    def holders(self, pod_uid: str) -> str:
        """Ask the installed packages who still runs containers of a Pod; a failing one counts as a holder."""
        if not self.modules:
            return ""
        try:
            answers = self.registration.hook.volmgr_holds(pod_uid=pod_uid)
        except Exception as error:
            log.exception("a package failed in volmgr_holds")
            return f"unknown: a package failed to answer: {error}"
        return ", ".join(str(answer) for answer in answers if answer)

    def known(self, field: str) -> bool:
        """Say whether some installed type serves a field."""
        return field in self.fields()


def load(points: Iterable[importlib.metadata.EntryPoint] | None = None) -> Plugins:
    """Load every installed package of the group; what fails is in `broken`, the rest works."""
    loader = _Loader(points)
    plugins = Plugins()
    plugins.broken.extend(loader.failed)
    found: list[tuple[Any, Origin]] = []
    for extension in loader.extensions:
        origin = _origin(extension.entry_point)
        target = extension.plugin
        if isinstance(target, ModuleType):
            _isolate(plugins, origin, lambda target=target, origin=origin: _take_module(plugins, target, origin, found))
        else:
            found.append((target, origin))
    for target, origin in found:
        _isolate(plugins, origin, lambda target=target, origin=origin: plugins.add(_instance(target), origin))
    return plugins


def _isolate(plugins: Plugins, origin: Origin, step: Callable[[], object]) -> None:
    try:
        step()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign package may raise anything
        text = "".join(traceback.format_exception(error))
        plugins.broken.append(Broken(origin, f"{type(error).__name__}: {error}", text))


def _instance(target: Any) -> VolumePlugin[Any]:  # noqa: ANN401 - whatever an entry point names
    if inspect.isclass(target) and issubclass(target, VolumePlugin):
        plugin: VolumePlugin[Any] = target()
        return plugin
    raise PluginError(f"{target!r} is neither a VolumePlugin subclass nor a module; see docs/plugins/tutorial.md")


def _take_module(plugins: Plugins, module: ModuleType, origin: Origin, found: list[tuple[Any, Origin]]) -> None:
    for hook in _HOOKS:
        options = getattr(getattr(module, hook, None), "volmgr_impl", None)
        if options is not None and not options["wrapper"]:
            message = f"{module.__name__}.{hook} is no wrapper: it would replace the volume type's own operation"
            raise PluginError(message)
    plugins.registration.register(module)
    plugins.registration.check_pending()
    plugins.modules.append((module, origin))
    classes = getattr(module, "volmgr_volume_plugins", None)
    if classes is not None:
        found.extend((cls, origin) for cls in classes())
