"""What the contract suite tests: one volume of one type, on as many fresh hosts as a test wants."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from urllib.parse import quote

from volmgr.host.empty_dirs import PLUGIN
from volmgr.host.file_system_types import LOCAL_TYPES
from volmgr.host.interface import FileInfo, Host
from volmgr.plugin import Mounted, VolumePlugin
from volmgr.testing.fake_host import FakeHost
from volmgr.testing.volume import Sample, Volume

_STAMP = re.compile(r"(?<![^/'])\.\.\d{4}(_\d\d){5}\.\d+")
_LOOP = re.compile(r"/loop\d+\b")
LONGEST = 1 << 18
"""Bytes; a longer file is taken for a disk image, whose content changes whenever it is mounted."""

MOUNT = " (mount)"
"""Ends the names of mounts in a state."""

Samples = Callable[[Path], Iterable[object]]


class NoSubjectError(Exception):
    """The suite was asked for what it cannot test; says what to write."""


class Step(StrEnum):
    """How far a volume has come before a test begins."""

    NEW = "new"
    ATTACHED = "attached"
    SET_UP = "set up"
    """What the core does before the first Pod's mount: attached, mounted once for the node."""


@dataclass(frozen=True)
class Stage:
    """A fresh host, a directory outside its root for the sample's use, and the volume; no Pod has it yet."""

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
        device = self.volume.device_target(self.host)
        own = [self.target, *self.markers, *([device] if device else [])]
        above = {parent for path in own for parent in path.parents}
        found = snapshot(self.host, root)
        state = {str(path): what for path, what in found.items() if path not in above}
        state |= {str(path): what for path, what in snapshot(self.host, self.top).items()}
        for entry in reversed(self.host.mounts.below(root)):
            options = ",".join((*entry.options, *entry.super_options))
            key = f"{entry.target}{MOUNT}"
            state[key] = f"{state.get(key, '')} {entry.fstype} {entry.root} {options}"
        if isinstance(self.host, FakeHost):  # the whole machine can be looked at
            around = {path for one in (root, self.top) for path in (one, *one.parents)}
            inside = (f"{root}/", f"{self.top}/")
            state |= {
                name: what
                for path, what in self.host.tree().items()
                if path not in around
                and not (name := str(path)).startswith(inside)
                and not what.startswith("block ")  # loop devices come with their first use, and stay
            }
        return {self._relative(path): self._relative(what) for path, what in state.items()}

    @property
    def is_named(self) -> bool:
        """Whether the storage itself lies where a manifest says: what is in it stays by right."""
        return str(self.top) in str(self.volume.source)

    @property
    def is_share(self) -> bool:
        """Whether a server shares its storage among volumes, and counts what is used as it likes, and when."""
        entry = self.host.mounts.entry(self.target)
        return entry is not None and entry.fstype not in LOCAL_TYPES

    def is_own(self, path: str, mounted: Mounted) -> bool:
        """Say whether a path of `state` is the volume's: its directory, its type's, or what the manifest names."""
        absolute = self.absolute(path)
        device = self.volume.device_target(self.host)
        own = [self.path(mounted), self.target, *self.markers, *([device] if device else [])]
        if mounted.device_path:  # a driver may have made it below our root
            own.append(Path(mounted.device_path))
        return any(absolute.is_relative_to(one) or one.is_relative_to(absolute) for one in own)

    def absolute(self, path: str) -> Path:
        """Give the real path of one in `state`."""
        text = path.removesuffix(MOUNT)
        for word, written in self._words:
            text = text.replace(word, written)
        return Path(text)

    @cached_property
    def _words(self) -> tuple[tuple[str, str], ...]:
        """What stands for paths that differ from host to host; a path may also be within a name, quoted."""
        top = str(self.top)
        return ("ROOT", str(self.host.paths.root)), ("%TOP%", quote(top, safe="")), ("TOP", top)

    def _relative(self, text: str) -> str:
        """Say the same on every host and at any time.

        Directories that are written at once are named by the time, loop devices by what others have.
        """
        for word, written in self._words:
            text = text.replace(written, word)
        return _LOOP.sub("/loopN", _STAMP.sub("..TIME", text))


@dataclass(frozen=True)
class Subject:
    """One type with one sample; `machine` gives a fresh host, and an empty directory outside its root."""

    plugin: Callable[[], VolumePlugin[Any]]
    machine: Callable[[], tuple[Host, Path]]
    samples: Samples
    index: int = 0
    backend: object = None
    """What the fixture `volmgr_backend` gives: a server, say."""

    @property
    def volume(self) -> Volume:
        """The volume, on no host yet: for questions that its type answers without one."""
        return Volume.of(self.plugin(), self._sample(Path("/TOP")))

    def stage(self, step: Step = Step.SET_UP) -> Stage:
        """Begin anew: a fresh host and a fresh object of the type."""
        host, top = self.machine()
        sample = self._sample(top)
        host = host.with_settings(*sample.settings)
        sample.arrange(host)
        volume = Volume.of(self.plugin(), sample)
        if step is Step.ATTACHED:
            volume = volume.attach(host)
        return Stage(host, top, volume.set_up(host) if step is Step.SET_UP else volume)

    def _sample(self, top: Path) -> Sample:
        return sample_of(list(self.samples(top))[self.index]).served_by(self.backend)


def sample_of(given: object) -> Sample:
    """Give a sample: `given` itself, or a source without more."""
    return given if isinstance(given, Sample) else Sample(source=given)


def snapshot(host: Host, top: Path) -> dict[Path, str]:
    """Describe a tree, through mounts, by kind, mode, owner and content; our own records are left out."""
    found: dict[Path, str] = {}
    records = host.paths.state
    pending = [top]
    while pending:
        path = pending.pop()
        info = host.files.info(path)
        if info is None or path == records:
            continue
        content = _content(host, path, info)
        access = "by udev" if info.kind == "block" else f"{info.mode:o} {info.uid}:{info.gid}"  # and when it likes
        found[path] = f"{info.kind} {access} {content!r}"
        if info.kind == "directory":
            pending.extend(path / name for name in host.files.names(path))
    return found


def _content(host: Host, path: Path, info: FileInfo) -> object:
    """Give what a file or link holds; of a disk image, its size."""
    if info.kind != "file":
        return host.files.read_link(path) if info.kind == "symlink" else None
    return info.size if info.size > LONGEST else host.files.read(path)


@cache  # each test asks, and to read what is installed takes longer than most tests
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
    found = list(cast("Callable[[], Iterable[Any]]", getattr(loaded, "volmgr_volume_plugins", list))())
    contract = f"{getattr(loaded, '__name__', '').partition('.')[0]}.contract"
    if found or not _exists(contract):
        return found
    # Its types come and go (drivers): the package offers one for the suite.
    return list(cast("Callable[[], Iterable[Any]]", getattr(importlib.import_module(contract), "types", list))())


def find_samples(plugin: type[VolumePlugin[Any]]) -> Samples:
    """Take the samples that the type's module or its package offers, or its source with default values."""
    module = contract_module(plugin)
    if module is not None:
        return cast("Samples", module.samples)
    name = _name_of_contract(plugin)

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


def contract_module(plugin: type[VolumePlugin[Any]]) -> ModuleType | None:
    """Give the module that offers samples, and perhaps the fixture `volmgr_backend`: the type's own, or `contract`."""
    own = sys.modules.get(plugin.__module__)
    if hasattr(own, "samples"):
        return own
    name = _name_of_contract(plugin)
    return importlib.import_module(name) if plugin.__module__ != "__main__" and _exists(name) else None


def _name_of_contract(plugin: type[VolumePlugin[Any]]) -> str:
    return f"{plugin.__module__.partition('.')[0]}.contract"


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
