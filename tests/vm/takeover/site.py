"""A root directory that kubelet's volume manager and volmgrd have in turn, with a volume that a network brings."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.eventually import eventually
from tests.takeover import objects
from tests.vm.servers.node import VmNode
from volmgr.host import syscalls

SLOW = 5
"""So many times longer than elsewhere kubelet waits here for the last changes."""
PATIENCE = 240.0


@dataclass(frozen=True)
class Storage:
    """A volume of one type, and what the node has of its storage while nobody uses it."""

    source: Mapping[str, Any]
    plugin: str
    """The directory of the type."""
    left: Callable[[], list[str]]
    """Names sessions, disks and the like that are still there."""


class Site(VmNode):
    """A node whose root kubelet's volume manager may have, too: never both at once."""

    def __init__(self, top: Path, storage: Storage) -> None:
        super().__init__(top, "--node-name", objects.NODE)
        self.storage = storage
        self.kubelet: subprocess.Popen[str] | None = None
        self.put("node.json", objects.node())

    def put_shop(self) -> None:
        """Let the Pod `shop` want the volume, in the words in which an API server keeps it."""
        self.put("shop.json", objects.pod("shop", objects.SHOP, {"v": self.storage.source}))

    @property
    def place(self) -> Path:
        """Where the Pod finds it."""
        return self.root / "pods" / objects.SHOP / "volumes" / self.storage.plugin / "v"

    def mount_ids(self) -> dict[str, int]:
        """Give the id of each mount below the root, which no other mount ever has had or will have."""
        return {path: syscalls.statx(path).mount for path in self.mounts()}

    def until_nothing_is_left(self) -> None:
        """Return when neither the root nor the kernel has anything of the volume."""
        self.until_clean()
        eventually(lambda: not self.storage.left(), lambda: f"nothing, but {self.storage.left()}: {self.log_text()}")

    def kubelet_mounts(self) -> None:
        """Let kubelet's volume manager mount what the Pod wants, on whatever root there is."""
        argv = self._kubelet("mount", "-manifests", str(self.manifests))
        self.kubelet = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.kubelet.stdout is not None
        said = self.kubelet.stdout.readline()
        assert said == "MOUNTED\n", said + self.kubelet_log()

    def kill_kubelet(self) -> None:
        """End it as kill -9 does."""
        if self.kubelet is not None:
            self.kubelet.kill()
            self.kubelet.communicate(timeout=PATIENCE)
            self.kubelet = None

    def kubelet_clears(self) -> list[str]:
        """Let kubelet's volume manager start with no Pod wanted; gives what it complains of at the end."""
        argv = self._kubelet("clear", "-slow", str(SLOW))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=False)
        *problems, last = done.stdout.splitlines() or [""]
        assert last == "CLEARED", done.stdout + done.stderr + self.kubelet_log()
        return problems

    def _kubelet(self, command: str, *options: str) -> list[str]:
        return [str(program()), command, "-root", str(self.root), "-log", str(self.top / "kubelet.log"), *options]

    def kubelet_log(self) -> str:
        """Give what kubelet has logged since its last start."""
        log = self.top / "kubelet.log"
        return log.read_text() if log.exists() else ""

    def clear(self) -> None:
        """End and take away what a test that failed left."""
        self.kill_kubelet()
        super().clear()


def program() -> Path:
    """Give kubelet's volume manager, which the machine outside has built and shares."""
    directories = [Path(line.split(" ", 1)[1]) for line in Path("/vm/shares").read_text().splitlines()]
    (found,) = (each / "kubelet-anchor" for each in directories if (each / "kubelet-anchor").exists())
    return found
