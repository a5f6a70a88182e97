"""A node that mounts CephFS by one of its two clients."""

from __future__ import annotations

import base64
import os
import signal
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.vm.servers.ceph import Ceph
from tests.vm.servers.node import VmNode
from volmgr.cli.client import Client, Refused

PLUGIN = "kubernetes.io~cephfs"
FSTYPES = {"kernel": "ceph", "fuse": "fuse.ceph-fuse"}
PATIENCE = 20
"""Seconds that this node gives monitors to answer, and a dead cluster before it is unmounted by force."""
END = 60.0
"""Seconds within which a killed daemon has ended."""


def cephfs(name: str = "v", **source: Any) -> dict[str, Any]:  # noqa: ANN401 - YAML
    """Give a volume of the cluster."""
    return {"name": name, "cephfs": {"monitors": [Ceph.monitor], **source}}


def secret(key: str, name: str = "ceph") -> dict[str, Any]:
    """Give a Secret with a key."""
    data = {"key": base64.b64encode(key.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


class CephNode(VmNode):
    """A daemon with one of the two clients."""

    def __init__(self, top: Path, client: str) -> None:
        settings = {"client": client, "answer_within": PATIENCE, "force_after": PATIENCE}
        super().__init__(top, plugins={"kubernetes.io/cephfs": settings}, look_deadline="60s")
        self.client = client

    def kill_group(self) -> None:
        """End the daemon and all that is in its process group by SIGKILL."""
        os.killpg(self.pid, signal.SIGKILL)
        assert self.daemon is not None
        self.daemon.wait(END)

    def wait_in_vain(self, name: str, seconds: float) -> None:
        """Return when a Pod is not mounted after so many seconds: the daemon counts them, and nobody has to ask."""
        with closing(Client(str(self.socket))) as client, pytest.raises(Refused) as late:
            client.wait(name, "mounted", seconds)
        assert late.value.status == HTTPStatus.GATEWAY_TIMEOUT

    def data(self, pod: str, volume: str = "v") -> Path:
        """Give where a Pod finds its volume."""
        return self.volume(pod, volume, PLUGIN)

    def private(self) -> list[str]:
        """Name what is where keys are while a client mounts."""
        place = self.root / "volmgr/cephfs"
        return sorted(os.listdir(place)) if place.exists() else []

    def servers(self) -> list[int]:
        """Give the processes of ceph-fuse that serve something below this node's directory."""
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                except OSError:  # it ended meanwhile
                    continue
                if words[0].endswith(b"ceph-fuse") and any(word.startswith(bytes(self.top)) for word in words):
                    found.append(int(entry.name))
        return found

    def until_settled(self, server: int) -> None:
        """Return when a ceph-fuse has tried whether it may remount, which it does first of all, by a child.

        Until then the mount is busy. And that child has the server's connection to the kernel: where only the server is
        killed, and the child waits for its answer, the mount is not dead, but hangs.
        """
        tasks = Path(f"/proc/{server}/task")
        eventually(
            lambda: not any(_said(task / "comm") == "tester" for task in tasks.iterdir()),
            "a ceph-fuse that has settled",
        )
        eventually(lambda: not any(_said(task / "children") for task in tasks.iterdir()), "the end of its child")

    def until_clean(self) -> None:
        """Return when nothing is left, no server and no place of a key either."""
        super().until_clean()
        eventually(lambda: not self.servers(), "the end of each ceph-fuse")
        assert self.private() == []


def _said(file: Path) -> str:
    """Give what a file of a thread says; nothing of one that has ended."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
