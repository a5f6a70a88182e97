"""Calling one volume type: its hooks in a PluginManager of its own, wrapped by every wrapper package.

Operations are hooks, so their values are `Any` here.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from volmgr import hookspecs
from volmgr.errors import OperationError, PluginError, SpecError, TransientError, UncertainError, VolmgrError
from volmgr.model.driver_sources import STANDARD
from volmgr.model.names import kubelet_plugin
from volmgr.plugin import (
    Attached,
    Detached,
    DeviceMounted,
    DeviceUnmounted,
    Expanded,
    Facets,
    FoundDevice,
    Measured,
    Mounted,
    Reconstructed,
    Reference,
    Requirement,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
)
from volmgr.volume_plugin import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from volmgr.host.interface import Host

log = logging.getLogger("volmgr.plugins")

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

ANSWERS: Mapping[str, tuple[type, ...]] = {
    "volume_name": (str,),
    "unique_name": (str,),
    "facets": (Facets,),
    "check": (type(None),),
    "references": (tuple,),
    "refresh_at": (int, float, type(None)),
    "endpoint": (str,),
    "exclusive": (tuple,),
    "device_target": (Path,),
    "devices": (tuple,),
    "requirements": (tuple,),
}
"""The type of value that each method returns that is no operation."""

ITEMS: Mapping[str, type] = {
    "references": Reference,
    "exclusive": str,
    "devices": FoundDevice,
    "requirements": Requirement,
}
"""The type of each item of those that return a tuple."""

HOOKS = {f"volmgr_{name}": name for name in OPERATIONS}


class HookManager(pluggy.PluginManager):
    """A PluginManager to which the operations of a VolumePlugin object are hook implementations as they are."""

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:  # noqa: ANN401 - pluggy's own signature
        """Look for the marker at our own hooks alone: pluggy takes long over what every class has, for each type."""
        return super().parse_hookspec_opts(module_or_class, name) if name.startswith("volmgr_") else None

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:  # noqa: ANN401 - pluggy's own signature
        """Take `mount` of a volume plugin as the implementation of `volmgr_mount`; else look for the marker."""
        given: Any = plugin
        if not isinstance(plugin, VolumePlugin):
            return None if name.startswith("__") else super().parse_hookimpl_opts(given, name)
        if name not in OPERATIONS or not callable(getattr(given, name, None)):
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
        self.local.acted = False

    def keep(self) -> Generator[None, Any, Any]:
        try:
            value = yield
        except BaseException as error:  # whatever it is, it is raised again
            self.local.error = error
            raise
        self.local.value = value
        self.local.acted = True
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
        self.retired = False
        """Its driver has vanished: only unmounts are served."""
        self._keeper = _Keeper()
        self._manager = HookManager("volmgr")
        self._manager.add_hookspecs(hookspecs.Operations)
        self._manager.register(plugin, "type")
        for wrapper in wrappers:
            self._manager.register(wrapper)
        self._manager.register(self._keeper, "keeper")  # after the others, or a trylast one would be inside of it

    def source_of(self, field: str, driver: str | None) -> type[Any] | None:
        """Give the dataclass that a field's value is read into; what is said of its driver goes before the rest."""
        for wanted in (driver, None):
            for handle in self.plugin.handles:
                if (handle.field, handle.driver) == (field, wanted):
                    return handle.source or STANDARD.get(field)
        return None

    def ask(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - by method
        """Call a pure method; whatever goes wrong in it is a PluginError that names the package."""
        try:
            answer: Any = getattr(self.plugin, method)(*arguments)
        except VolmgrError:
            raise
        except BaseException as error:  # foreign code, which may raise anything; said with its package
            log.exception("%s: %s() failed", self.origin, method)
            raise PluginError(f"{method}() of {self.origin} failed: {type(error).__name__}: {error}") from error
        problem = self._problem(method, answer, arguments)
        if problem:
            raise PluginError(f"{method}() of {self.origin} gave {answer!r} {problem}")
        return answer

    def _problem(self, method: str, answer: Any, arguments: tuple[Any, ...]) -> str:  # noqa: ANN401 - whatever it gave
        """Say what is wrong with an answer; the main thread relies on it."""
        is_right = isinstance(answer, ANSWERS[method])
        if not is_right:
            return f"instead of {' or '.join(each.__name__ for each in ANSWERS[method])}"
        if method in ITEMS and not all(isinstance(each, ITEMS[method]) for each in answer):
            return f"instead of a tuple of {ITEMS[method].__name__}"
        if method == "unique_name":
            spec: VolumeSpec[Any] = arguments[0]
            begin = f"{kubelet_plugin(self.name, spec.type, spec.driver)}/"
            return "" if answer.startswith(begin) else f"which does not begin with {begin}"
        return ""

    def call(self, operation: str, request: object, host: Host) -> Any:  # noqa: ANN401 - by operation, OUTCOMES
        """Perform one operation and give its outcome; raises what the plugin or a wrapper raised.

        If the plugin acted and the chain around it then failed or lost the result, raises UncertainError; an
        error that a wrapper swallowed or made milder is raised as it was.
        """
        if not hasattr(self.plugin, operation):
            raise PluginError(f"{self.name}: {self.origin} has no {operation}()")
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
        if kept.local.error is not None:
            raise kept.local.error
        if isinstance(value, OUTCOMES[operation]):
            return value
        message = f"{self.name}: {operation} gave {value!r} instead of {OUTCOMES[operation].__name__}"
        if kept.local.acted or value is not None:
            raise UncertainError(message)
        raise PluginError(message)
