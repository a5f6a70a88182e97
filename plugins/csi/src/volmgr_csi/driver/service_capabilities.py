"""What the services of a driver say that they can do, by CSI's own names: each that anybody here asks for."""

from __future__ import annotations

CONTROLLER_SERVICE = "CONTROLLER_SERVICE"
VOLUME_ACCESSIBILITY_CONSTRAINTS = "VOLUME_ACCESSIBILITY_CONSTRAINTS"
"""Of PluginCapability."""

CREATE_DELETE_VOLUME = "CREATE_DELETE_VOLUME"
LIST_VOLUMES = "LIST_VOLUMES"
PUBLISH_UNPUBLISH_VOLUME = "PUBLISH_UNPUBLISH_VOLUME"
PUBLISH_READONLY = "PUBLISH_READONLY"
"""Of ControllerServiceCapability."""

EXPAND_VOLUME = "EXPAND_VOLUME"
SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER"
"""Of ControllerServiceCapability, and of NodeServiceCapability: a driver may have either without the other."""

GET_VOLUME_STATS = "GET_VOLUME_STATS"
STAGE_UNSTAGE_VOLUME = "STAGE_UNSTAGE_VOLUME"
VOLUME_MOUNT_GROUP = "VOLUME_MOUNT_GROUP"
"""Of NodeServiceCapability."""
