"""Labels of volumes on a kernel with SELinux, permissive: mounted with `context=`, seen by whoever asks for them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.root.acceptance.objects import CLAIMED, claim, persistent
from tests.root.acceptance.outside import memory
from tests.vm.servers.fibre_channel import FibreChannel
from tests.vm.servers.iscsid import Iscsid
from tests.vm.servers.lio import Lio
from tests.vm.servers.node import VmNode
from volmgr.host.kernel import read_kernel

FILES = "system_u:object_r:container_file_t"
"""As the guest's policy says in `contexts/lxc_contexts`."""
IQN = "iqn.2026-01.io.test:labelled"


@dataclass(frozen=True)
class Storage:
    """A disk of a type that can be labelled."""

    source: dict[str, Any]
    plugin: str
    """The directory of the type."""
    volume: str = "data"

    def offered(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return persistent(self.volume, self.source, "64Mi"), claim(size="64Mi", volumeName=self.volume)


@pytest.fixture
def iscsi() -> Iterator[Storage]:
    with Lio() as lio, Iscsid():
        lio.target(IQN).map(0, lio.backstore("labelled"))
        source = {"targetPortal": "127.0.0.1:3260", "iqn": IQN, "lun": 0, "fsType": "ext4"}
        yield Storage({"iscsi": source}, "kubernetes.io~iscsi")


@pytest.fixture
def fc() -> Iterator[Storage]:
    with FibreChannel() as fabric:
        fabric.map(5, fabric.backstore("labelled"))
        source = {"targetWWNs": list(fabric.wwns), "lun": 5, "fsType": "ext4"}
        yield Storage({"fc": source}, "kubernetes.io~fc")


ONE_OF_THEM = pytest.mark.parametrize("storage", ["iscsi", pytest.param("fc", marks=pytest.mark.slow)], indirect=True)
"""What the core does with labels, of whatever type a volume is."""


@pytest.fixture(params=["iscsi", "fc"])
def storage(request: pytest.FixtureRequest) -> Storage:
    found: Storage = request.getfixturevalue(request.param)
    return found


def level(words: str) -> dict[str, Any]:
    """Give what a Pod says of its label."""
    return {"securityContext": {"seLinuxOptions": {"level": words}}}


def label(path: Path) -> str:
    return os.getxattr(path, "security.selinux").decode().rstrip("\0")


def context(line: str) -> str:
    """Give the label that a line of mountinfo says; it escapes nothing of one."""
    found = re.search(r'context="?([^" ]+?)"?(?: |$|,(?!c\d))', line)
    return found[1] if found else ""


def test_the_label_of_containers_files_is_the_policys() -> None:
    assert read_kernel().container_label == f"{FILES}:s0"


def test_a_volume_is_mounted_with_the_label_of_its_pod(node: VmNode, storage: Storage) -> None:
    node.put("storage.json", *storage.offered())
    node.mounted_pod("web", CLAIMED, **level("s0:c10,c20"))
    place = node.volume("web", storage.volume, storage.plugin)
    (place / "file").write_text("labelled")
    assert label(place / "file") == label(place) == f"{FILES}:s0:c10,c20"
    assert context(node.mounts()[str(place)]) == f"{FILES}:s0:c10,c20"
    node.remove_pod("web")


@ONE_OF_THEM
def test_the_next_pod_of_another_label_waits_and_then_finds_the_files_with_its_own(
    node: VmNode, storage: Storage
) -> None:
    node.put("storage.json", *storage.offered())
    node.mounted_pod("first", CLAIMED, **level("s0:c10,c20"))
    place = node.volume("first", storage.volume, storage.plugin)
    (place / "file").write_text("kept")
    node.put_pod("next", CLAIMED, **level("s0:c30,c40"))
    node.until_why("next", f"{FILES}:s0:c10,c20")
    node.remove_pod("first")
    node.wait("next")
    place = node.volume("next", storage.volume, storage.plugin)
    assert (place / "file").read_text() == "kept"
    assert label(place / "file") == f"{FILES}:s0:c30,c40"
    node.remove_pod("next")


@ONE_OF_THEM
def test_a_label_is_known_after_a_kill_and_a_start(node: VmNode, storage: Storage) -> None:
    node.put("storage.json", *storage.offered())
    node.mounted_pod("web", CLAIMED, **level("s0:c10,c20"))
    mounts = node.mounts()
    node.restart()
    node.wait("web")
    assert node.mounts() == mounts
    node.put_pod("other", CLAIMED, **level("s0:c1,c2"))
    node.until_why("other", f"{FILES}:s0:c10,c20")
    (node.manifests / "other.json").unlink()
    node.remove_pod("web")


@ONE_OF_THEM
def test_a_pod_without_a_level_gets_no_label(node: VmNode, storage: Storage) -> None:
    node.put("storage.json", *storage.offered())
    node.mounted_pod("web", CLAIMED)
    assert context(node.mounts()[str(node.volume("web", storage.volume, storage.plugin))]) == ""
    node.remove_pod("web")


def test_a_volume_that_a_pod_declares_itself_gets_no_label(node: VmNode) -> None:
    node.mounted_pod("web", memory(), **level("s0:c10,c20"))
    assert context(node.mounts()[str(node.volume("web"))]) == ""
    node.remove_pod("web")
