"""What is known of the own Node and of the lists of volumes in use that it is to show, and what is next. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from volmgr.kube.pace import longer

if TYPE_CHECKING:
    from volmgr.kube.errors import ApiError
    from volmgr.model.kube import KubeSettings
    from volmgr.model.objects import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What is known: of the Node, None when there is none, and of the lists, which are numbered from 1."""

    node: Node | None = None
    in_use: tuple[str, ...] | None = None
    """What the status is to say; None as long as what is mounted was not looked for."""
    lists: int = 0
    """How many lists of volumes in use we were told."""
    sent: tuple[int, tuple[str, ...]] = (0, ())
    """Which of them was patched last, or is being."""
    shown: int = 0
    """How many of them the server had when it said what we know of the Node."""
    is_patching: bool = False
    """A patch is on its way, or what is read after a conflict."""
    against: str = ""
    """The resourceVersion that this patch goes by: one that is late must not undo what came after it."""
    doubted: str = ""
    """The resourceVersion that a patch without an answer goes by: while it is the Node's, that list may come."""
    pause: float = 0.0
    """Seconds between the last patch that did not help and the next; 0 after one that did."""

    @property
    def patch(self) -> dict[str, object]:
        """Give the merge patch of a state that is `sending`."""
        return {"metadata": {"resourceVersion": self.against}, "status": {"volumesInUse": list(self.sent[1])}}

    @property
    def _is_there(self) -> bool:
        """Say whether the Node shows what is to be shown, and an older list cannot come after it."""
        node = self.node
        return (
            node is not None and node.volumes_in_use == self.in_use and node.metadata.resource_version != self.doubted
        )

    def patch_after(self, settings: KubeSettings) -> float | None:
        """Say in how many seconds what a watch says makes a patch due; None for never."""
        if self.node is None or self.in_use in {None, self.node.volumes_in_use}:
            return None
        overwritten = self.shown == self.lists  # whoever does so again and again must not make us spin
        return settings.status_retry_initial if overwritten else 0.0

    def wanting(self, in_use: tuple[str, ...]) -> NodeState:
        """Let the status be to say another list."""
        return replace(self, in_use=in_use, lists=self.lists + 1)

    def missing(self) -> NodeState:
        """Let there be no Node."""
        return replace(self, node=None)

    def seeing(self, node: Node) -> NodeState:
        """Take the Node, unless what is known is newer: a watch lags behind an answer, and an answer behind a watch."""
        if self.node is not None and _is_older(node, self.node):
            node = self.node
        return replace(self, node=node).telling()

    def telling(self) -> NodeState:
        """Let the newest list count as shown if it is; not while an older one is on its way there."""
        return replace(self, shown=self.lists) if self._is_there and not self.is_patching else self

    def anew(self, before: NodeState) -> list[str]:
        """Name the volumes that the Node lists as attached, and did not list before; none for the first Node."""
        if before.node is None or self.node is None:
            return []
        added = set(self.node.volumes_attached).difference(before.node.volumes_attached)
        return sorted(volume.name for volume in added)

    def sending(self) -> NodeState | None:
        """Let a patch be on its way; None when none is due.

        The last list is told again where it may still come: that ends the doubt.
        """
        node, in_use = self.node, self.in_use
        if self.is_patching or node is None or in_use is None or self._is_there:
            return None
        sent = (self.lists, in_use) if node.volumes_in_use != in_use else self.sent
        return replace(self, sent=sent, is_patching=True, against=node.metadata.resource_version)

    def answered(self) -> NodeState:
        """Take note that the server took the patch; the Node that it gave is to be seen next."""
        after = replace(self, is_patching=False)
        return after if self.node is None else replace(after, doubted="", shown=self.sent[0])

    def paced(self, settings: KubeSettings) -> NodeState:
        """Set the pause after an answer: another writer, or a server that takes something else, makes us no faster."""
        agreed = self.node is not None and self.node.volumes_in_use == self.sent[1]
        return replace(self, pause=0.0 if agreed else self._longer(settings.status_retry_initial, settings))

    def conflicted(self, settings: KubeSettings) -> NodeState:
        """Take note that somebody wrote meanwhile. It is to be read what: behind a proxy no watch says so."""
        return replace(self, against="", pause=self._longer(settings.status_debounce, settings))

    def failed(self, error: ApiError, settings: KubeSettings) -> NodeState:
        """Take note of a patch, or a read, that was refused or has no answer."""
        pause = self._longer(settings.status_retry_initial, settings)
        doubted = self.doubted if error.is_denied else self.against
        return replace(self, is_patching=False, doubted=doubted, pause=pause)

    def was_read(self) -> NodeState:
        """Take note that what was written meanwhile was read; the Node is to be seen next."""
        return replace(self, is_patching=False)

    def _longer(self, first: float, settings: KubeSettings) -> float:
        return longer(self.pause, first, settings.status_retry_max)


def _is_older(node: Node, known: Node) -> bool:
    """Say whether a state of the Node is older than what is known; resourceVersions of one object can be compared."""
    version, before = node.metadata.resource_version, known.metadata.resource_version
    same = node.metadata.uid == known.metadata.uid and version.isdigit() and before.isdigit()
    return same and int(version) < int(before)
