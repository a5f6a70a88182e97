"""While a node is drained: Pods by whose volumes drivers of `csi` are reached keep these until the drivers are idle.

A driver that runs in a Pod of this node unmounts its volumes only as long as its socket, and what else its Pod has, is
there. Which Pods these are is seen by where sockets lie: below a volume of theirs, as in every DaemonSet of a driver.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from volmgr.model.names import CSI

if TYPE_CHECKING:
    from volmgr.actual import ActualVolume
    from volmgr.desk import Desk


class DriverPods:
    """Knows, once the node is drained, what is left of each driver; on the reconciler's thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._world = desk.world
        self._left: dict[str, set[str]] = {}
        """By driver that some Pod here serves: unique names of its volumes that are still there."""

    def keep(self) -> None:
        """Let Pods that serve a driver keep what they have as long as anything of that driver is there."""
        self._left.clear()
        self._world.serving.clear()
        for volume in self._world.actual:
            if (driver := _driver_of(volume)) in self._world.drivers:
                self._left.setdefault(driver, set()).add(volume.name)
        for volume in self._world.actual:
            for uid, mount in volume.mounts.items():
                if served := {name for name in self._left if _reaches(mount.path, self._world.drivers[name].endpoint)}:
                    self._world.serving.setdefault(uid, set()).update(served)

    def note(self, name: str, volume: ActualVolume | None) -> None:
        """Take note of what a volume is now."""
        for driver, left in tuple(self._left.items()):
            if volume is None:
                left.discard(name)
            elif _driver_of(volume) == driver:
                left.add(name)
            if not left:
                self._release(driver)

    def _release(self, driver: str) -> None:
        del self._left[driver]
        for uid, drivers in tuple(self._world.serving.items()):
            drivers.discard(driver)
            if not drivers:
                del self._world.serving[uid]
                for volume in self._world.actual.of_pod(uid):
                    self._desk.dirty[volume.name] = None


def _driver_of(volume: ActualVolume) -> str:
    """Name the driver of a volume of `csi`; of one found on disk that says nothing, its unique name may say it."""
    if volume.kubelet_plugin != CSI:
        return ""
    named = volume.spec.driver if volume.spec is not None else None
    return named or volume.name.removeprefix(f"{CSI}/").partition("^")[0]


def _reaches(place: Path | None, socket: str) -> bool:
    return place is not None and bool(socket) and Path(socket).is_relative_to(place)
