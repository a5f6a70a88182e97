"""A site whose two Pods have volumes of a CSI driver, which is a process of its own and outlives whoever calls it."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.csi import objects as csi
from tests.csi.fault_driver.running import ProcessDriver
from tests.csi.node import loops_below
from tests.eventually import eventually
from tests.takeover import objects
from tests.takeover.site import Site
from volmgr_csi.settings import NAME

KNOWN = {f"pods/{uid}/plugins": ("", "drwxr-x--- 0:0 ") for uid in (objects.SHOP, objects.GUEST)}
"""A directory that kubelet makes for every Pod."""

_FILE = "vol_data.json"


class DriverSite(Site):
    """A site with a driver, which the configuration names; of what kubelet leaves it knows the directories."""

    def __init__(self, top: Path, program: Path, driver: ProcessDriver, scaffold: Collection[str]) -> None:
        """Make manifests; only the driver runs. `scaffold`: what kubelet leaves, empty, when no volume is left."""
        super().__init__(top, program)
        self.driver, self.driver_name, self.driver_socket = driver, driver.name, driver.socket
        self.scaffold = frozenset(scaffold)
        sockets = {driver.name: str(driver.socket)}
        (top / "volmgr.yaml").write_text(json.dumps({"plugins": {NAME: {"drivers": sockets}}}))
        self.volmgr.put("driver.json", csi.driver_object(driver.name, podInfoOnMount=False))

    def volmgr_mounts(self) -> None:
        """Let volmgrd mount everything, and end."""
        self.volmgr.start()
        for name in self.pods:
            self.volmgr.wait(name)
        assert self.volmgr.stop() == 0

    def records(self) -> Mapping[str, str]:
        """Give the text of each vol_data.json, by its directory below the root directory."""
        tops = ("pods", "plugins")
        places = (place for top in tops for place, _, names in os.walk(self.root / top) if _FILE in names)
        return {place.removeprefix(f"{self.root}/"): Path(place, _FILE).read_text() for place in places}

    def asked(self, since: int = 0) -> list[str]:
        """Give what the driver was asked to make, from its call of that number on, in no order."""
        calls = self.driver.calls()[since:]
        made = (call for call in calls if call.method in {"NodeStageVolume", "NodePublishVolume"})
        return sorted(json.dumps((call.method, call.request), sort_keys=True) for call in made)  # a map has no order

    def left(self) -> list[str]:
        """Name all that is left, without what kubelet leaves."""
        return [path for path in super().left() if path.removeprefix(f"{self.root}/") not in self.scaffold]

    def remains(self) -> Mapping[str, object]:
        """Give what is left of any volume, with the driver, too."""
        kept = [volume.id for volume in self.driver.volumes.all() if volume.staged or volume.published]
        found = {
            "mounts": sorted(self.mounts()),
            "files": self.left(),
            "driver": kept,
            "loops": loops_below(self.driver.top),
            "locks": self.locks(),
        }
        return {name: value for name, value in found.items() if value}

    def until_gone(self) -> None:
        """Return when nothing is left."""
        eventually(lambda: not self.remains(), lambda: f"the end of {self.remains()}: {self.volmgr.log_text()}")
