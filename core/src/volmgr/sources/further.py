"""Sources that installed packages bring: what they say goes to the registry like any file."""

from __future__ import annotations

from volmgr.errors import OperationError
from volmgr.manifest import SourceTypes, parse
from volmgr.sources.registry import Registry


class FurtherSource:
    """Implements `volmgr.plugin.Offers` for one source."""

    def __init__(self, name: str, registry: Registry, types: SourceTypes) -> None:
        self._name = name
        self._registry = registry
        self._types = types

    def offer(self, origin: str, identity: str, manifest: bytes) -> None:
        """Say what one origin holds now; raises OperationError when it cannot be recorded: offer it again later."""
        if not self._registry.offer(self._name, origin, identity, parse(manifest, origin, self._types)):
            raise OperationError(f"what {origin} holds cannot be recorded; is the disk of the root full?")

    def withdraw(self, origin: str) -> None:
        """Say that an origin is gone; raises OperationError when it cannot be recorded: say it again later."""
        if not self._registry.withdraw(self._name, origin):
            raise OperationError(f"that {origin} is gone cannot be recorded; is the disk of the root full?")

    def state(self, *, ready: bool, problem: str = "") -> None:
        """Say whether everything was read once."""
        self._registry.state(self._name, ready=ready, problem=problem)
