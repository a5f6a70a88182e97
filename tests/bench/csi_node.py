"""A daemon with CSI drivers to measure, its Pods, and the same daemon without the package."""

from __future__ import annotations

import json
import os
import site
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bench.node import REMOVAL_SETTLE, Node
from tests.bench.workload import as_json, claimed, pod, uid
from tests.csi.node import registry
from tests.csi.objects import Document
from tests.eventually import eventually
from volmgr_csi.settings import NAME, CsiSettings

CHANNEL_IDLE = CsiSettings().channel_idle
"""Seconds; the default."""

_DAEMON = """
import site, sys
site.addsitedir(sys.argv.pop(1))
from volmgr.daemon import main
main()
"""


class CsiNode(Node):
    """One root directory with its daemon, in which drivers register."""

    def __init__(self, top: Path, *, channel_idle: float = CHANNEL_IDLE) -> None:
        super().__init__(top)
        registry(top).mkdir(parents=True, exist_ok=True)
        settings = {"removal_settle": REMOVAL_SETTLE, "plugins": {NAME: {"channel_idle": channel_idle}}}
        (top / "config.yaml").write_text(json.dumps(settings))

    def until_registered(self, name: str) -> None:
        """Return when a driver is registered."""
        eventually(lambda: name in self.drivers(), f"{name} is registered")

    def drivers(self) -> list[str]:
        """Name the registered drivers."""
        return [each["name"] for each in json.loads(self.client.get("/v1/plugins"))["drivers"]]

    def put(self, name: str, *documents: Document) -> Path:
        """Rename a file with some objects into the manifests directory."""
        staged, placed = self.staging / f"{name}.json", self.manifests / f"{name}.json"
        staged.write_bytes(as_json({"apiVersion": "v1", "kind": "List", "items": documents}))
        return staged.rename(placed)

    def put_pod(self, number: int, handle: str) -> Path:
        """Let there be a Pod with the claim of a volume."""
        return self.put(f"pod-{number}", pod(number, (claimed(handle),)))

    def is_there(self, number: int, handle: str) -> bool:
        """Say whether the volume of a Pod is mounted."""
        return os.path.ismount(self.target(uid(number), handle))

    def has_staged(self) -> bool:
        """Say whether a volume is staged, or was and is not cleared away yet."""
        walk = os.walk(self.root / "plugins/kubernetes.io/csi")
        return any("globalmount" in below or "vol_data.json" in files for _, below, files in walk)

    def target(self, pod_uid: str, handle: str) -> Path:
        """Give where a volume is mounted for a Pod."""
        return self.root / "pods" / pod_uid / "volumes/kubernetes.io~csi" / f"pv-{handle}" / "mount"


def installed_without(top: Path, *packages: str) -> Sequence[str]:
    """Give the command of a daemon to which some of the installed packages, by their modules, are not there."""
    top.mkdir()
    for place in site.getsitepackages():
        for entry in Path(place).iterdir():
            if not packages or not entry.name.startswith(packages):
                (top / entry.name).symlink_to(entry)
    return (sys.executable, "-S", "-c", _DAEMON, str(top))
