"""What a CSI driver says of a node to the cluster: an entry of its CSINode. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from volmgr.errors import PluginError

LARGEST = (1 << 31) - 1
"""The largest limit that a CSINode holds; the API's int32."""
NODE_ID_LIMIT = 256
"""Characters of a node id; the API server's limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverInfo:
    """What NodeGetInfo of a driver says: its name for the node, where the node is, and how many volumes it takes."""

    name: str
    node_id: str
    topology: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Labels that the Node gets; their keys are the driver's topology keys."""
    limit: int = 0
    """How many of its volumes may be attached at once; 0 or less says nothing."""

    def __post_init__(self) -> None:
        """Refuse what no CSINode takes; raises PluginError."""
        if not self.node_id:
            raise PluginError(f"csi driver {self.name} gives the node no id; NodeGetInfo must say node_id")
        if len(self.node_id) > NODE_ID_LIMIT:
            raise PluginError(f"csi driver {self.name} gives a node id of more than {NODE_ID_LIMIT} characters")

    @property
    def count(self) -> int | None:
        """The limit as a CSINode says it."""
        return min(self.limit, LARGEST) if self.limit > 0 else None
