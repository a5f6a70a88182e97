"""The guest's fabric, what manifests say of it, and what is left of it on the node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.eventually import eventually
from tests.vm.servers.fibre_channel import FibreChannel
from tests.vm.servers.multipathd import Multipathd
from tests.vm.servers.node import VmNode

PLUGIN = "kubernetes.io/fc"
TYPE = "kubernetes.io~fc"


def fc(fabric: FibreChannel, lun: int, name: str = "v", **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - YAML
    """Give a Pod's volume of a LUN at both ports of the storage."""
    return {"name": name, "fc": {"targetWWNs": list(fabric.wwns), "lun": lun, **fields}}


def persistent(
    name: str, source: Mapping[str, Any], *, size: str = "64Mi", mode: str = "Filesystem"
) -> tuple[dict[str, Any], ...]:
    """Give a PersistentVolume of an `fc` source, and its claim of the same name."""
    spec = {"accessModes": ["ReadWriteOnce"], "volumeMode": mode, "storageClassName": ""}
    return (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {**spec, "capacity": {"storage": size}, "fc": dict(source)},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {**spec, "volumeName": name, "resources": {"requests": {"storage": size}}},
        },
    )


def claimed(claim: str, name: str = "v") -> dict[str, Any]:
    """Give a Pod's volume of a claim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def block_pod(name: str, claim: str) -> dict[str, Any]:
    """Give a Pod whose container has a claim as a device."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "main", "volumeDevices": [{"name": "v", "devicePath": "/dev/v"}]}],
            "volumes": [claimed(claim)],
        },
    }


def global_mount(node: VmNode, fabric: FibreChannel, lun: int) -> Path:
    """Give the directory on which the node has a LUN of both ports."""
    return node.root / "plugins/kubernetes.io/fc" / f"{'-'.join(fabric.wwns)}-lun-{lun}"


def device_of(directory: Path) -> str:
    """Give the device that is mounted on a directory: `/dev/dm-0`."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split(" ")
        if words[4] == str(directory):
            return words[words.index("-") + 2]
    raise AssertionError(f"nothing is mounted on {directory}")


class Site:
    """The fabric with what the node has of it."""

    def __init__(self, fabric: FibreChannel, multipathd: Multipathd) -> None:
        self.fabric = fabric
        self.multipathd = multipathd

    def left(self, node: VmNode) -> list[str]:
        """Name each disk, map, record and directory that is left of the node's volumes."""
        found = [f"disk {name}" for name in self.fabric.disks()]
        found += [f"map {name}" for name in self.multipathd.maps()]
        for top in (node.root / "volmgr/fc", node.root / "plugins/kubernetes.io/fc"):
            found += [str(path) for path in top.rglob("*") if path.is_file() or path.parent == node.root / "plugins"]
        places = (node.root / "plugins/kubernetes.io/fc", node.root / "plugins/kubernetes.io/fc/volumeDevices")
        found += [str(path) for top in places if top.exists() for path in top.iterdir() if path.name != "volumeDevices"]
        return found

    def until_nothing_is_left(self, node: VmNode) -> None:
        """Return when neither the node nor the kernel has anything of any volume."""
        node.until_clean()
        eventually(lambda: not self.left(node), lambda: f"nothing, but {self.left(node)}: {node.log_text()}")
