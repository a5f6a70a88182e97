"""Pods whose SELinux labels exclude each other: who has the volume, and who waits until it is free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volmgr.model.selinux import LabelTrouble, Trouble, access_mode
from volmgr.report.selinux import counted_type

if TYPE_CHECKING:
    from volmgr.desired import DesiredMount, DesiredVolume
    from volmgr.populator import Resolution
    from volmgr.report.world import World


class LabelConflicts:
    """Belongs to the reconciler's thread: a device has one label, and the first Pod's it is."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._waiting: dict[str, set[str]] = {}
        """By volume, the UIDs of Pods that want it with another label."""
        self._due: dict[str, None] = {}
        """UIDs of Pods to look at again."""

    def sort_out(self, uid: str, resolution: Resolution) -> None:
        """Take out of what a Pod wants the volumes whose label it cannot have, as errors of theirs."""
        self.forget(uid)
        for volume, mount in tuple(resolution.wanted):
            problem = self._conflict(volume, mount)
            if problem:
                resolution.wanted.remove((volume, mount))
                self._waiting.setdefault(volume.name, set()).add(uid)
                for name in mount.outer_names:
                    resolution.errors[name] = problem
                    resolution.troubles[name] = LabelTrouble(
                        kind=Trouble.VOLUME,
                        error=True,
                        plugin=counted_type(volume),
                        access_mode=access_mode(mount.spec.pv),
                    )

    def left(self, name: str) -> None:
        """Hear that a Pod no longer wants a volume: those that waited for that are due."""
        if self._world.desired.get(name) is None:
            self._due.update(dict.fromkeys(sorted(self._waiting.pop(name, ()))))

    def forget(self, uid: str) -> None:
        """Let a Pod wait no more."""
        for waiting in self._waiting.values():
            waiting.discard(uid)

    def due(self) -> tuple[str, ...]:
        """Give the Pods to look at again, once."""
        due, self._due = self._due, {}
        return tuple(uid for uid in due if uid in self._world.pods)

    def _conflict(self, volume: DesiredVolume, mount: DesiredMount) -> str:
        """Say what keeps a Pod from a volume; who has it mounted (found so at start) goes before who has not."""
        problem = self._world.desired.label_conflict(volume.name, mount)
        actual, desired = self._world.actual.get(volume.name), self._world.desired.get(volume.name)
        if not problem or actual is None or desired is None or mount.pod.uid not in actual.mounts:
            return problem
        for other in [uid for uid in desired.mounts if uid not in actual.mounts]:
            self._world.desired.remove(volume.name, other)
            self._due[other] = None
        return self._world.desired.label_conflict(volume.name, mount)
