"""What the contract suite tests: one volume of one type, on as many fresh hosts as a test wants."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from volmgr.host.empty_dirs import PLUGIN
from volmgr.host.interface import Host
from volmgr.plugin import Mounted, VolumePlugin
from volmgr.testing.fake_host import FakeHost
from volmgr.testing.volume import Sample, Volume

_STAMP = re.compile(r"(?<![^/'])\.\.\d{4}(_\d\d){5}\.\d+")
MOUNT = " (mount)"
"""Ends the names of mounts in a state."""

Samples = Callable[[Path], Iterable[object]]


class NoSubjectError(Exception):
    """The suite was asked for what it cannot test; says what to write."""


@dataclass(frozen=True)
class Stage:
    """A fresh host, a directory outside its root for the sample's use, and the volume; nothing is mounted yet."""

    host: Host
    top: Path
    volume: Volume

    @property
    def target(self) -> Path:
        """The volume's directory below its Pod's."""
        return self.volume.target(self.host)

    @property
    def markers(self) -> tuple[Path, Path]:
        """What its type, and the emptyDir that may hold it, may keep about it."""
        uid, name = self.volume.pod.uid, self.volume.name
        paths = self.host.paths
        return paths.pod_plugin(uid, self.volume.plugin.name, name), paths.pod_plugin(uid, PLUGIN, f"wrapped_{name}")

    def path(self, mounted: Mounted) -> Path:
        """Say where the Pod finds its data."""
        return mounted.path or self.target

    def state(self) -> dict[str, str]:
        """Everything that is on the host, files and mounts, by paths that are the same on every host.

        The directories above the volume are the core's, which makes and removes them: they do not count.
        """
        root = self.host.paths.root
        above = {*self.target.parents, *(parent for marker in self.markers for parent in marker.parents)}
        found = snapshot(self.host, root)
        state = {str(path): what for path, what in found.items() if path not in above}
        state |= {str(path): what for path, what in snapshot(self.host, self.top).items()}
        for entry in reversed(self.host.mounts.below(root)):
            options = ",".join((*entry.options, *entry.super_options))
            key = f"{entry.target}{MOUNT}"
            state[key] = f"{state.get(key, '')} {entry.fstype} {entry.root} {options}"
        if isinstance(self.host, FakeHost):  # the whole machine can be looked at
            inside = (root, self.top)
            state |= {
                str(path): what
                for path, what in self.host.tree().items()
                if not any(path.is_relative_to(one) or one.is_relative_to(path) for one in inside)
            }
        return {self._relative(path): self._relative(what) for path, what in state.items()}

    def is_own(self, path: str, mounted: Mounted) -> bool:
        """Say whether a path of `state` is the volume's: its directory, its type's, or what the manifest names."""
        absolute = path.removesuffix(MOUNT).replace("ROOT", str(self.host.paths.root)).replace("TOP", str(self.top))
        own = (self.path(mounted), self.target, *self.markers)
        return any(Path(absolute).is_relative_to(one) or one.is_relative_to(absolute) for one in own)

    def _relative(self, text: str) -> str:
        """Say the same on every host and at any time: directories that are written at once are named by the time."""
        return _STAMP.sub("..TIME", text.replace(str(self.host.paths.root), "ROOT").replace(str(self.top), "TOP"))


@dataclass(frozen=True)
class Subject:
    """One type with one sample; `machine` gives a fresh host, and an empty directory outside its root."""

    plugin: Callable[[], VolumePlugin[Any]]
    machine: Callable[[], tuple[Host, Path]]
    samples: Samples
    index: int = 0

    def stage(self) -> Stage:
        """Begin anew: a fresh host and a fresh object of the type."""
        host, top = self.machine()
        sample = sample_of(list(self.samples(top))[self.index])
        host = host.with_settings(*sample.settings)
        sample.arrange(host)
        return Stage(host, top, Volume.of(self.plugin(), sample))


def sample_of(given: object) -> Sample:
    """Give a sample: `given` itself, or a source without more."""
    return given if isinstance(given, Sample) else Sample(source=given)


def snapshot(host: Host, top: Path) -> dict[Path, str]:
    """Describe a tree, through mounts, by kind, mode, owner and content; our own records are left out."""
    found: dict[Path, str] = {}
    pending = [top]
    while pending:
        path = pending.pop()
        info = host.files.info(path)
        if info is None or path == host.paths.state:
            continue
        content = host.files.read(path) if info.kind == "file" else host.files.read_link(path)
        found[path] = f"{info.kind} {info.mode:o} {info.uid}:{info.gid} {content!r}"
        if info.kind == "directory":
            pending.extend(path / name for name in host.files.names(path))
    return found


def find_plugin(key: str) -> type[VolumePlugin[Any]]:
    """Find a volume type by its entry point, its qualified name, or `module:Class`."""
    if ":" in key:
        module, _, attribute = key.partition(":")
        return cast("type[VolumePlugin[Any]]", getattr(importlib.import_module(module), attribute))
    known: list[str] = []
    for point in entry_points(group="volmgr.plugins"):
        for cls in _classes(point.load()) if key == point.name or "/" in key else ():
            if key in (point.name, cls.name):
                return cls
        known.append(point.name)
    message = f"no volume type is called {key!r}; installed are {', '.join(sorted(known)) or 'none'}"
    raise NoSubjectError(message)


def _classes(loaded: object) -> list[type[VolumePlugin[Any]]]:
    """Give the types that an entry point brings: it is one, or a module with a hook that names some."""
    if isinstance(loaded, type):
        return [loaded]
    return list(cast("Callable[[], Iterable[Any]]", getattr(loaded, "volmgr_volume_plugins", list))())


def find_samples(plugin: type[VolumePlugin[Any]]) -> Samples:
    """Take the samples that the type's package offers, or its source with default values."""
    name = f"{plugin.__module__.partition('.')[0]}.contract"
    if plugin.__module__ != "__main__" and _exists(name):
        return cast("Samples", importlib.import_module(name).samples)

    def default(_top: Path) -> list[object]:
        source = plugin.handles[0].source
        if source is None:
            message = f"{plugin.__qualname__} names no source in handles; offer samples() in {name}"
            raise NoSubjectError(message)
        try:
            return [source()]
        except TypeError as error:
            message = f"{source.__qualname__} has no default values ({error}); offer samples() in {name}"
            raise NoSubjectError(message) from error

    return default


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
