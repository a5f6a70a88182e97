"""A node that mounts exports, and the manifests that ask it to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.vm.servers.nfs import Ganesha
from tests.vm.servers.node import VmNode

PLUGIN = "kubernetes.io~nfs"
FORCE_AFTER = 3.0
"""Seconds that this node waits for a dead server before it unmounts by force."""


def nfs(path: Path | str, name: str = "v", server: str = "127.0.0.1", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - YAML
    """Give a volume that a Pod declares."""
    return {"name": name, "nfs": {"server": server, "path": str(path), **more}}


def claimed(claim: str, name: str = "v", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - YAML
    """Give a volume by its claim."""
    return {"name": name, "persistentVolumeClaim": {"claimName": claim, **more}}


def volume_and_claim(name: str, path: Path, *options: str, server: str = "127.0.0.1") -> tuple[dict[str, Any], ...]:
    """Give a PersistentVolume with mount options, and its claim of the same name."""
    terms = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **terms,
            "capacity": {"storage": "1Gi"},
            "mountOptions": list(options),
            "nfs": {"server": server, "path": str(path)},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {**terms, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }
    return volume, claim


def of_ganesha(ganesha: Ganesha, name: str, export: str = "a") -> tuple[dict[str, Any], ...]:
    """Give a PersistentVolume of ganesha, and its claim."""
    directory = ganesha.directory(export)
    return volume_and_claim(name, directory, "vers=4.1", *ganesha.options, server=ganesha.address)


class NfsNode(VmNode):
    """A daemon that forces what hangs after seconds instead of a minute."""

    def __init__(self, top: Path, *, settings: Mapping[str, Any] | None = None, **config: Any) -> None:  # noqa: ANN401 - YAML
        """`settings` are those of `kubernetes.io/nfs`."""
        own = {"force_after": FORCE_AFTER, "answer_within": 2.0, **(settings or {})}
        super().__init__(top, plugins={"kubernetes.io/nfs": own}, **config)

    def place(self, name: str, volume: str = "v") -> Path:
        """Give the directory of a Pod's volume; that of a claim is named by its PersistentVolume."""
        return self.volume(name, volume, PLUGIN)

    def line(self, name: str, volume: str = "v") -> str:
        """Give the line of the mount table of a Pod's volume."""
        return self.mounts()[str(self.place(name, volume))]

    def processes(self) -> list[str]:
        """Name what the daemon has started and still runs, by command line."""
        children = Path(f"/proc/{self.pid}/task").glob("*/children")
        pids = [pid for file in children for pid in file.read_text().split()]
        return [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in pids]
