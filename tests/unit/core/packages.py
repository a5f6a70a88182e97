"""Distributions made for a test: a module, its metadata and its entry points, on the import path while it runs."""

from __future__ import annotations

import importlib
import importlib.metadata
import itertools
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

from volmgr.discovery import GROUP, load
from volmgr.plugins import Plugins

TYPE = """
from volmgr.plugin import *
class {cls}(VolumePlugin[None]):
    name = "{name}"
    handles = (Handles("{field}"),)
    def mount(self, request: Mount[None], host: Host) -> Mounted:
        return Mounted(device_path="{cls}")
    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        return Unmounted()
"""


def type_source(cls: str = "Good", name: str = "example.com/good", field: str = "good") -> str:
    """Give the source of a module with one volume type."""
    return TYPE.format(cls=cls, name=name, field=field)


class Site:
    """A directory of installed packages."""

    _numbers = itertools.count()

    def __init__(self, top: Path) -> None:
        self._top = top
        self._modules: list[str] = []

    def install(
        self, distribution: str, source: str, attribute: str = "", version: str = "1.0", group: str = GROUP
    ) -> str:
        """Install a distribution with one module and one entry point; gives the module's name."""
        module = f"site_module_{next(self._numbers)}"
        (self._top / f"{module}.py").write_text(dedent(source), encoding="utf-8")
        info = self._top / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        value = f"{module}:{attribute}" if attribute else module
        (info / "entry_points.txt").write_text(f"[{group}]\nit = {value}\n")
        self._modules.append(module)
        return module

    def load(self) -> Plugins:
        """Load what is installed here, in the order of the distributions' names."""
        importlib.invalidate_caches()
        found = importlib.metadata.distributions(path=[str(self._top)])
        points = [point for dist in found for point in dist.entry_points]
        return load(sorted(points, key=lambda point: point.dist.name if point.dist else ""))

    def close(self) -> None:
        for module in self._modules:
            sys.modules.pop(module, None)


@contextmanager
def site(top: Path) -> Generator[Site]:
    """Give an empty site that is on the import path meanwhile."""
    here = Site(top)
    sys.path.insert(0, str(top))
    try:
        yield here
    finally:
        sys.path.remove(str(top))
        here.close()
