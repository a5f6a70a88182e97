"""The guest's fabric, what manifests say of it, and what is left of it on the node."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.eventually import eventually
from tests.vm.servers.backstores import Backstore
from tests.vm.servers.fibre_channel import FibreChannel
from tests.vm.servers.guest import tell
from tests.vm.servers.multipathd import Multipathd
from tests.vm.servers.node import VmNode

PLUGIN = "kubernetes.io/fc"
TYPE = "kubernetes.io~fc"
MIB = 1 << 20


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


def assert_sound(disk: Backstore) -> None:
    """Look at a file system where the storage has it; not by its loop device, which has read it before, and caches."""
    tell("e2fsck", "-f", "-n", disk.file)


_BETWEEN = 0.01
"""Seconds between two lines of a writer."""


class Writer:
    """Writes numbers into a file, each of which is on the disk before the next."""

    def __init__(self, directory: Path) -> None:
        self.count = 0
        self.error = ""
        self._file = directory / "numbers"
        self.pause = threading.Lock()
        """Who holds it has nothing written meanwhile, and all of before is on the disk."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.until_more()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "what was written never came to the disk"

    def until_more(self) -> None:
        """Return when more was written than by now."""
        was = self.count
        eventually(lambda: self.count > was + 2 or self.error, "more that is written")
        assert self.error == ""

    def _run(self) -> None:
        try:
            with self._file.open("w") as file:
                while not self._end.wait(_BETWEEN):  # a lock that is taken again at once is nobody else's
                    with self.pause:
                        file.write(f"{self.count}\n")
                        file.flush()
                        os.fsync(file.fileno())
                        self.count += 1
        except OSError as error:
            self.error = str(error)


def numbers(directory: Path) -> int:
    """Count what a writer has written, of which nothing may be missing."""
    lines = (directory / "numbers").read_text().split()
    assert lines == [str(number) for number in range(len(lines))]
    return len(lines)
