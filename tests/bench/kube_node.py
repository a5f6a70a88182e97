"""A daemon in Kubernetes mode to measure, and what its volumes look like when they are there."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.mount_table import PATIENCE, MountTable
from tests.bench.node import Node, Started
from tests.eventually import eventually
from tests.kube.client import Document
from tests.kube.kube_node import NodeIdentity
from volmgr.cli.client import Refused

_LOOK = 0.01
"""Seconds between looks at what is no mount, so that nothing announces it."""
_TYPES = {"emptyDir": "empty-dir", "configMap": "configmap", "secret": "secret", "projected": "projected"}


@dataclass(frozen=True, slots=True)
class Held:
    """What a daemon has: all of it must be as before when all Pods are as before."""

    threads: int
    descriptors: int
    mounts: int
    records: int


class KubeNode(Node):
    """One root directory with its daemon."""

    def __init__(self, top: Path, identity: NodeIdentity) -> None:
        options = ("--kubeconfig", str(identity.kubeconfig), "--node-name", identity.name)
        super().__init__(top, directory=False, options=options)
        self.identity = identity

    def check_ready(self) -> None:
        """Wait until it is ready for volumes of every kind: its CSINode is published after READY=1."""
        eventually(self._is_ready_for_all, "/readyz is 200")

    def _is_ready_for_all(self) -> bool:
        try:
            self.client.get("/readyz")
        except Refused:
            return False
        return True

    def start_over(self, documents: Sequence[Document]) -> tuple[Started, float]:
        """Start, and wait for all volumes of these Pods; gives also after how long, in seconds, they were there."""
        began = time.perf_counter()
        started = self.start()
        return started, self.until_there(documents) - began

    def until_there(self, documents: Sequence[Document]) -> float:
        """Wait for all volumes of some Pods; gives the time (time.perf_counter) at which they were seen."""
        left = [path for document in documents for path in self.volumes(document)]
        deadline = time.monotonic() + PATIENCE
        while left:
            if is_there(left[-1]):  # one at a time: looking at all would take the daemon's processor
                left.pop()
            elif time.monotonic() > deadline:
                raise TimeoutError(f"{len(left)} volumes never came, {left[-1]} among them")
            else:
                time.sleep(_LOOK)
        return time.perf_counter()

    def volumes(self, document: Document) -> list[Path]:
        """Give where the volumes of a Pod are."""
        at = self.root / "pods" / document["metadata"]["uid"] / "volumes"
        return [
            at / f"kubernetes.io~{name}" / volume["name"]
            for volume in document["spec"]["volumes"]
            for source, name in _TYPES.items()
            if source in volume
        ]

    def held(self, table: MountTable) -> Held:
        """Count what it has now."""
        return Held(
            threads=len(os.listdir(f"/proc/{self.pid}/task")),
            descriptors=len(os.listdir(f"/proc/{self.pid}/fd")),
            mounts=table.count_below(self.root),
            records=sum(len(files) for _, _, files in os.walk(self.root / "volmgr")),
        )


def is_there(path: Path) -> bool:
    """Say whether a volume is complete: a ConfigMap's is no mount, and has its files by way of `..data`."""
    return is_mounted(path) if path.parent.name.endswith("~empty-dir") else os.path.lexists(path / "..data")


def is_mounted(path: Path) -> bool:
    """Say whether a file system begins at a path; costs the same however many mounts there are."""
    try:
        return os.stat(path).st_dev != os.stat(path.parent).st_dev
    except FileNotFoundError:
        return False
