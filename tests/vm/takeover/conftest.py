"""A server of each type, and a site with a volume of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.servers.fibre_channel import STORAGE, FibreChannel
from tests.vm.servers.iscsid import Iscsid
from tests.vm.servers.lio import Lio
from tests.vm.servers.nfs import KernelNfs
from tests.vm.takeover.site import Site, Storage

IQN = "iqn.2026-01.io.test:takeover"


def disks() -> list[str]:
    return sorted(f"disk {each}" for each in os.listdir("/sys/block") if each.startswith(("sd", "dm-")))


@pytest.fixture
def nfs() -> Iterator[Storage]:
    with KernelNfs() as server:
        source = {"server": "127.0.0.1", "path": str(server.export("a"))}
        yield Storage({"nfs": source}, "kubernetes.io~nfs", list)


@pytest.fixture
def iscsi() -> Iterator[Storage]:
    with Lio() as lio, Iscsid() as initiator:
        lio.target(IQN).map(3, lio.backstore("takeover"))
        source = {"targetPortal": "127.0.0.1:3260", "iqn": IQN, "lun": 3, "fsType": "ext4"}

        def left() -> list[str]:
            return [*initiator.sessions(), *initiator.records(), *disks()]

        yield Storage({"iscsi": source}, "kubernetes.io~iscsi", left)


@pytest.fixture
def fc() -> Iterator[Storage]:
    with FibreChannel() as fabric:
        # One path: of several without a multipath map kubelet removes the one that it had mounted, and no other.
        fabric.map(5, fabric.backstore("takeover"), STORAGE[:1])
        source = {"targetWWNs": list(fabric.wwns[:1]), "lun": 5, "fsType": "ext4"}
        yield Storage({"fc": source}, "kubernetes.io~fc", disks)


@pytest.fixture(params=["nfs", "iscsi", "fc"])
def site(request: pytest.FixtureRequest, top: Path) -> Iterator[Site]:
    storage: Storage = request.getfixturevalue(request.param)
    site = Site(top, storage)
    try:
        yield site
    finally:
        site.clear()
