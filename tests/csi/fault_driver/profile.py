"""What a driver is and says that it can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

STAGE, STATS, EXPAND = "STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS", "EXPAND_VOLUME"
SINGLE_NODE_MULTI_WRITER, MOUNT_GROUP = "SINGLE_NODE_MULTI_WRITER", "VOLUME_MOUNT_GROUP"
NODE = (STAGE, STATS, EXPAND)

CREATE, ATTACH, LIST, GROW = "CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME", "LIST_VOLUMES", "EXPAND_VOLUME"
CAPACITY, READ_ONLY, PUBLISHED_NODES, GET = (
    "GET_CAPACITY",
    "PUBLISH_READONLY",
    "LIST_VOLUMES_PUBLISHED_NODES",
    "GET_VOLUME",
)
CONTROLLER = (CREATE, LIST, GROW)
EVERYTHING = (*CONTROLLER, ATTACH, CAPACITY, READ_ONLY, PUBLISHED_NODES, GET, SINGLE_NODE_MULTI_WRITER)

CONTROLLER_SERVICE, CONSTRAINTS = "CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """All of it, by the names in csi.proto."""

    name: str = "fault.csi.test"
    node_id: str = "machine-1"
    node: tuple[str, ...] = NODE
    controller: tuple[str, ...] = CONTROLLER
    """Empty: there is no controller service."""
    expansion: str = "ONLINE"
    """`ONLINE`, `OFFLINE` or nothing."""
    node_expansion: bool = True
    """Whether ControllerExpandVolume says that NodeExpandVolume has to follow."""
    max_volumes: int = 0
    """Volumes per node; 0: it does not say."""
    topology: Mapping[str, str] = field(default_factory=dict[str, str])
    versions: tuple[str, ...] = ("1.0.0",)
    """What the registration says that the driver speaks."""
    inline: str = "tmpfs"
    """How an inline volume is made: `tmpfs`, or `files`, written where nothing is mounted."""
    stacks: bool = False
    """Whether each NodePublishVolume mounts once more, mounted or not, as naive drivers do."""

    def as_json(self) -> dict[str, Any]:
        """Give it as a process is told."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Profile:
        """Read what `as_json` gave."""
        lists: dict[str, Any] = {key: tuple(said[key]) for key in ("node", "controller", "versions") if key in said}
        return cls(**(dict(said) | lists))
