"""What a CSI driver says of a node: for people, and for the cluster as an entry of its CSINode. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from volmgr.errors import PluginError
from volmgr.model.names import is_label_key, is_label_value

LARGEST = (1 << 31) - 1
"""The largest limit that a CSINode holds; the API's int32."""
NODE_ID_LIMIT = 256
"""Characters of a node id; the API server's limit."""
_SHOWN = 80  # characters of a key or value that is none


def driver_awaited(name: str) -> str:
    """Name a driver as `TransientError.waits_for` does: `Drivers.declare` wakes who waits for that."""
    return f"csi driver {name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverInfo:
    """What a driver says of itself: its name for the node, where that is, how many volumes it takes, what it can do."""

    name: str
    node_id: str
    topology: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels that the Node gets; their keys are the driver's topology keys."""
    limit: int = 0
    """How many of its volumes may be attached at once; 0 or less says nothing."""
    version: str = ""
    """What the driver calls its own version."""
    endpoint: str = ""
    """The socket that serves it; empty for one that runs in the daemon."""
    capabilities: tuple[str, ...] = ()
    """What it can do, by CSI's names, such as `STAGE_UNSTAGE_VOLUME`; for people."""
    since: float = 0.0
    """When it registered; Unix time in seconds."""

    def __post_init__(self) -> None:
        """Refuse what no CSINode takes; raises PluginError."""
        if not self.node_id:
            raise PluginError(f"csi driver {self.name} gives the node no id; NodeGetInfo must say node_id")
        if len(self.node_id) > NODE_ID_LIMIT:
            raise PluginError(f"csi driver {self.name} gives a node id of more than {NODE_ID_LIMIT} characters")
        if not self.node_id.isprintable():
            raise PluginError(f"csi driver {self.name} gives a node id with control characters: {self.node_id!r}")
        for key, value in self.topology.items():
            if not (is_label_key(key) and is_label_value(value)):
                said = f"{key[:_SHOWN]!r}: {value[:_SHOWN]!r}"
                raise PluginError(f"csi driver {self.name} says that the node is in {said}, which no label can say")

    @property
    def published(self) -> tuple[str, Mapping[str, str], int | None]:
        """What a cluster is told of it."""
        return self.node_id, self.topology, self.count

    @property
    def count(self) -> int | None:
        """The limit as a CSINode says it."""
        return min(self.limit, LARGEST) if self.limit > 0 else None
