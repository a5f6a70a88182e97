"""loopcsi, the lane's CSI driver, and Kubernetes' external-attacher beside it."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kube.client import Document
from tests.kube.cluster import BINARIES, Cluster
from tests.kube.servers import Server

MIB = 1 << 20
ATTACHER = "lane-attacher"


@dataclass(frozen=True)
class LoopCsi:
    """A driver that runs; `node_id` is what its storage calls the machine."""

    name: str
    node_id: str
    top: Path
    registration: Path
    """Where it serves kubelet's plug-in registration."""

    @property
    def socket(self) -> Path:
        """Where it serves CSI."""
        return self.top / "csi.sock"

    @property
    def volumes(self) -> Path:
        """Where it keeps its volumes."""
        return self.top / "volumes"

    def calls(self) -> list[Document]:
        """Give the CSI calls it got: `method`, `request`, `code`, `error`."""
        log = self.top / "calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def add_volume(self, handle: str, size: int = 16 * MIB) -> None:
        """Let there be a volume, as after CreateVolume: its external-provisioner is not in the lane."""
        with (self.volumes / f"{handle}.img").open("wb") as image:
            image.truncate(size)
        known = {"ID": handle, "Name": handle, "Node": "", "Size": size, "Block": False, "Targets": None}
        (self.volumes / f"{handle}.json").write_text(json.dumps(known))

    def attached_to(self, handle: str) -> str:
        """Give the `node_id` that a volume is attached to by ControllerPublishVolume, or nothing."""
        return str(json.loads((self.volumes / f"{handle}.json").read_text())["Node"])

    def driver_object(self, *, attach_required: bool = True) -> Document:
        """Give its CSIDriver."""
        spec = {"attachRequired": attach_required, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}
        return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": self.name}, "spec": spec}

    def node_object(self, node: str) -> Document:
        """Give the CSINode that says that it runs on a node."""
        driver: Document = {"name": self.name, "nodeID": self.node_id, "topologyKeys": []}
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": node},
            "spec": {"drivers": [driver]},
        }


@contextmanager
def running_loopcsi(
    top: Path, name: str, node_id: str, *options: str, registration: Path | None = None
) -> Generator[LoopCsi]:
    """Run the driver of one machine below a new directory; `-attach` insists on ControllerPublishVolume."""
    driver = LoopCsi(name, node_id, top, registration or top / "registration.sock")
    driver.volumes.mkdir(parents=True)
    driver.registration.parent.mkdir(parents=True, exist_ok=True)
    argv = [str(BINARIES / "loopcsi"), "-drivername", name, "-nodeid", node_id, "-statedir", str(driver.volumes)]
    argv += ["-endpoint", f"unix://{driver.socket}", "-registration", str(driver.registration)]
    server = Server(top / "loopcsi.log", [*argv, "-calllog", str(top / "calls"), *options])
    server.start()
    try:
        server.until("listens", lambda: driver.socket.exists() and driver.registration.exists())
        yield driver
    finally:
        server.stop()


@contextmanager
def running_attacher(cluster: Cluster, driver: LoopCsi) -> Generator[None]:
    """Run the external-attacher for a driver: it turns VolumeAttachments into calls."""
    user = cluster.user(ATTACHER, "system:masters")
    argv = [str(BINARIES / "csi-attacher"), "--csi-address", str(driver.socket), "--kubeconfig", str(user)]
    server = Server(driver.top / "csi-attacher.log", argv)
    server.start()
    try:
        yield
    finally:
        server.stop()
