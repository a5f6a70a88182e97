"""Sources that installed packages bring: what they say goes to the registry like any file."""

from __future__ import annotations

from volmgr.manifest import SourceTypes, parse
from volmgr.sources.registry import Registry


class FurtherSource:
    """Implements `volmgr.plugin.Offers` for one source."""

    def __init__(self, name: str, registry: Registry, types: SourceTypes) -> None:
        self._name = name
        self._registry = registry
        self._types = types

    def offer(self, origin: str, identity: str, manifest: bytes) -> None:
        """Say what one origin holds now."""
        self._registry.offer(self._name, origin, identity, parse(manifest, origin, self._types))

    def withdraw(self, origin: str) -> None:
        """Say that an origin is gone."""
        self._registry.withdraw(self._name, origin)

    def state(self, *, ready: bool, problem: str = "") -> None:
        """Say whether everything was read once."""
        self._registry.state(self._name, ready=ready, problem=problem)
