"""The node's own status: what it says is attached and in use, and what it is to say is in use.

A volume is mounted only when a status shows it in use and attached at once: whoever detaches looks, after it has taken
a volume out of that status, whether the volume is in use. So a status must not be mistaken for one that shows what was
told since (`NodeStatusRead.reports`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from volmgr.model.objects import MANAGED
from volmgr.model.volume import Attachable, Presence
from volmgr.report.events import Severity

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.desk import Desk
    from volmgr.messages import NodeMissing, NodeStatusRead
    from volmgr.model.objects import Node
    from volmgr.tenancy import Tenancy


class NodeStatus:
    """Belongs to the reconciler's thread."""

    def __init__(self, desk: Desk, tenancy: Tenancy) -> None:
        self._desk = desk
        self._world = desk.world
        self._tenancy = tenancy
        self._read = False
        self._told: tuple[str, ...] | None = None
        self._lists = 0
        """How many lists of volumes in use were told."""
        self._counted: tuple[int, int] | None = None
        """How often each world's part of that list had changed when it was looked at."""

    def read(self, message: NodeStatusRead) -> bool:
        """Take over what a status says; True for the first one: then everything is to be looked at."""
        world, node, before = self._world, message.node, self._world.node
        world.node = node
        world.attach_note = self._note(node)
        world.awaits_node_status = False
        attached = {volume.name: volume.device_path for volume in node.volumes_attached}
        changed = {name for name, _ in attached.items() ^ self._desk.attached.items()}
        self._desk.attached.clear()
        self._desk.attached.update(attached)
        current = message.reports is None or message.reports >= self._lists
        reported = world.desired.report_in_use(node.volumes_in_use, current=current)
        if not self._read:
            self._read = True
            for volume in tuple(world.actual):
                self._desk.put(volume.name, self.resolved(volume))
            return True
        for name in sorted(changed):
            self._doubt(name)
        self._desk.dirty.update(dict.fromkeys((*sorted(changed), *reported)))
        if before is None or _shown(before) != _shown(node):
            for uid in tuple(world.pods):
                self._tenancy.populate(uid)
        return False

    def miss(self, message: NodeMissing) -> None:
        """Remember why there is no status; what is known of one stays."""
        if message.why != self._world.attach_note:
            self._world.attach_note = message.why
            self._desk.event(Severity.WARNING, "NodeNotRead", message.why)

    def resolved(self, volume: ActualVolume) -> ActualVolume:
        """Give a reconstructed volume as the node status knows it (behaviours §2.11); as it is before that was read."""
        if not self._read or volume.attachable is not Attachable.UNKNOWN:
            return volume
        path = self._desk.attached.get(volume.name)
        if path is None:
            return replace(volume, attachable=Attachable.NO)
        unsure = volume.device is Presence.UNCERTAIN
        known = path if path and unsure else volume.device_path  # of a driver of `csi`, a status says no path
        return replace(volume, attachable=Attachable.YES, device_path=known)

    def tell_in_use(self) -> None:
        """Tell which volumes are in use when that has changed; not before it is known what is attached."""
        world = self._world
        counted = (world.desired.attachable_changes, world.actual.attached_changes)
        if not world.reconstructed or world.awaits_node_status or counted == self._counted:
            return
        self._counted = counted
        names = world.volumes_in_use
        if names != self._told:
            self._told = names
            self._lists += 1
            world.desired.report_in_use(names, current=False)  # what is not told any more is not reported any more
            self._desk.outside.in_use(names)

    def _doubt(self, name: str) -> None:
        """Let a volume be verified anew whose attachment has changed while nothing of it was mounted."""
        actual = self._world.actual.get(name)
        if actual is None or actual.attached is not Presence.YES or not self._desk.config.controller_attaches:
            return
        if not actual.mounts and actual.device is Presence.NO:
            self._desk.put(name, replace(actual, attached=Presence.UNCERTAIN, device_ready=False))

    def _note(self, node: Node) -> str:
        if not self._desk.config.controller_attaches or node.metadata.annotations.get(MANAGED) == "true":
            return ""
        return f'Node {node.metadata.name} has no annotation {MANAGED}: "true", so no controller attaches to it'


def _shown(node: Node) -> tuple[object, ...]:
    """Give what Pods see of their node: its labels decide over volumes, its amounts stand in files."""
    return dict(node.metadata.labels), dict(node.allocatable)
