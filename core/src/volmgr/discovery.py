"""Find the installed packages (stevedore), and register what each brings; one that fails is broken, the rest works.

What an entry point names can be anything, so values are `Any` here until they were looked at.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from stevedore.extension import Extension, ExtensionManager

from volmgr.broken import Broken, broken_by, isolated
from volmgr.errors import PluginError
from volmgr.plugin import VolumePlugin
from volmgr.plugins import Plugins
from volmgr.volume_type import HOOKS, Origin

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUP = "volmgr.plugins"
"""The entry-point group in which a package names its VolumePlugin subclass, or a module with hooks."""


def load(points: Iterable[importlib.metadata.EntryPoint] | None = None) -> Plugins:
    """Load every installed package of the group; what fails is in `broken`, the rest works."""
    loader = _Loader(points)
    plugins = Plugins()
    plugins.broken.extend(loader.failed)
    found: list[tuple[Any, Origin]] = []
    for extension in loader.extensions:
        origin = _origin(extension.entry_point)
        target: object = extension.plugin
        if isinstance(target, ModuleType):
            isolated(plugins.broken, origin, partial(_take_module, plugins, target, origin, found))
        else:
            found.append((target, origin))
    for target, origin in found:
        isolated(plugins.broken, origin, partial(_add_class, plugins, target, origin))
    return plugins


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
    loader.failed.append(broken_by(_origin(point), error))


def _origin(point: importlib.metadata.EntryPoint) -> Origin:
    dist = point.dist
    return Origin(dist.name if dist else "unknown", dist.version if dist else "", f"{point.name} = {point.value}")


def _add_class(plugins: Plugins, target: object, origin: Origin) -> None:
    cls: Any = target
    if not (inspect.isclass(target) and issubclass(target, VolumePlugin)):
        raise PluginError(f"{target!r} is neither a VolumePlugin subclass nor a module; see docs/plugins/tutorial.md")
    plugins.add(cls(), origin)


def _take_module(plugins: Plugins, module: ModuleType, origin: Origin, found: list[tuple[Any, Origin]]) -> None:
    for hook in HOOKS:
        options = getattr(getattr(module, hook, None), "volmgr_impl", None)
        if options is not None and not options["wrapper"]:
            message = f"{module.__name__}.{hook} is no wrapper: it would replace the volume type's own operation"
            raise PluginError(message)
    if plugins.registration.is_registered(module):
        raise PluginError(f"module {module.__name__} is named by two entry points; remove one of them")
    try:
        plugins.registration.register(module)
        plugins.registration.check_pending()
    except BaseException:  # whatever it is, it is raised again
        if plugins.registration.is_registered(module):  # its misspelt hook would be found in each later package, too
            plugins.registration.unregister(module)
        raise
    plugins.modules.append((module, origin))
    settings = getattr(module, "volmgr_settings", None)
    if settings is not None:
        plugins.settings.update(settings())
    classes = getattr(module, "volmgr_volume_plugins", None)
    if classes is not None:
        found.extend((cls, origin) for cls in classes())
