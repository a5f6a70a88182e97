"""LUNs of a real target, mounted by a real node: written, kept over a killed daemon, shared, given back whole."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.root.acceptance.outside import memory
from tests.vm.iscsi.site import Site, block, claimed, disks, file_of, persistent, session_states, volume
from tests.vm.servers.lio import Target
from tests.vm.servers.node import VmNode
from tests.vm.servers.packets import swallowed

_DIRECT = ("bs=64k", "count=16", "oflag=direct", "status=none")
"""What lets dd write 1 MiB to the storage itself."""


def test_a_lun_is_kept_over_a_killed_daemon_and_a_lost_server_shared_and_given_back(
    node: VmNode, site: Site, target: Target
) -> None:
    node.mounted_pod("first", volume(target))
    file_of(node, "first").write_text("kept")
    assert site.initiator.sessions() == (f"127.0.0.1:3260 {target.iqn}",)
    assert len(disks()) == 1
    before, sessions = node.mounts(), site.initiator.sessions()
    node.restart()
    node.wait("first")
    node.mounted_pod("second", volume(target))
    assert file_of(node, "second").read_text() == "kept"
    assert before.items() <= node.mounts().items()
    assert site.initiator.sessions() == sessions
    with swallowed("127.0.0.1", 3260):
        writer = subprocess.Popen(["dd", "if=/dev/zero", f"of={file_of(node, 'second', 'more')}", *_DIRECT])
        eventually(lambda: session_states() == ("FAILED",), lambda: str(session_states()))
        node.mounted_pod("other", memory())
        assert writer.poll() is None
    assert writer.wait(120) == 0
    assert session_states() == ("LOGGED_IN",)
    for name in ("first", "other"):
        node.remove_pod(name)
    assert file_of(node, "second").read_text() == "kept"
    node.remove_pod("second")
    site.until_nothing_is_left(node)
    node.mounted_pod("third", volume(target))
    assert file_of(node, "third").read_text() == "kept"
    assert file_of(node, "third", "more").stat().st_size == 1 << 20


def test_a_lun_as_a_device_is_a_disk_of_its_size(node: VmNode, target: Target) -> None:
    node.put("block.json", *block(target))
    node.mounted_pod("database", claimed("block"), **_device("v"))
    device = node.device("database", "kubernetes.io~iscsi", "block")
    with device.open("r+b", buffering=0) as disk:
        disk.write(b"raw".ljust(4096, b"\0"))
        os.fsync(disk.fileno())
        assert disk.seek(0, os.SEEK_END) == 64 << 20
    node.restart()
    node.wait("database")
    assert device.read_bytes()[:3] == b"raw"


@pytest.mark.slow
def test_a_mounted_file_system_grows_with_its_lun(node: VmNode, site: Site, target: Target) -> None:
    disk = site.lio.backstore("growing", 64 << 20)
    target.map(3, disk)
    source = volume(target, 3)["iscsi"]
    node.put("claim.json", *persistent("grows", source))
    node.mounted_pod("first", claimed("grows"))
    place = file_of(node, "first", volume="grows")
    before = _blocks(place)
    disk.grow(128 << 20)
    node.put("claim.json", *persistent("grows", source, size="128Mi"))
    eventually(lambda: _blocks(place) > 1.7 * before, lambda: node.why("first") + node.log_text())


def test_two_luns_of_a_target_share_a_session_in_whichever_order_they_go(
    node: VmNode, site: Site, target: Target
) -> None:
    target.map(1, site.lio.backstore("second"))
    for first, last in ((0, 1), (1, 0)):
        node.mounted_pod("zero", volume(target, 0))
        node.mounted_pod("one", volume(target, 1))
        assert len(site.initiator.sessions()) == 1
        names = ("zero", "one")
        node.remove_pod(names[first])
        eventually(lambda: len(disks()) == 1, lambda: str(disks()))
        assert len(site.initiator.sessions()) == 1
        file_of(node, names[last]).write_text("works")
        node.remove_pod(names[last])
        site.until_nothing_is_left(node)


@pytest.mark.slow
def test_a_target_whose_name_begins_like_another_s_is_another(node: VmNode, site: Site, target: Target) -> None:
    longer = site.lio.target(f"{target.iqn}0")
    longer.map(0, site.lio.backstore("longer"))
    node.mounted_pod("one", volume(target))
    node.mounted_pod("ten", volume(longer))
    node.remove_pod("one")
    eventually(lambda: site.initiator.sessions() == (f"127.0.0.1:3260 {longer.iqn}",), lambda: str(site.left()))
    file_of(node, "ten").write_text("works")


@pytest.mark.slow
def test_an_initiator_name_of_its_own_is_that_of_the_session(node: VmNode, site: Site, target: Target) -> None:
    name = "iqn.2026-01.io.test:of-its-own"
    node.mounted_pod("first", volume(target, initiatorName=name))
    assert target.sessions() == (name,) or name in str(target.sessions())
    assert site.initiator.interfaces() == ("127.0.0.1:3260:v",)
    node.restart()
    node.wait("first")


def test_a_lun_number_that_leads_to_another_disk_never_serves_the_old_one(
    node: VmNode, site: Site, target: Target
) -> None:
    target.map(1, site.lio.backstore("keeps"))
    node.mounted_pod("keeps", volume(target, 1))  # so that the session stays
    node.mounted_pod("first", volume(target, 0))
    file_of(node, "first").write_text("of the first")
    node.remove_pod("first")
    eventually(lambda: len(disks()) == 1, lambda: str(disks()))
    (host,) = os.listdir("/sys/class/iscsi_host")
    with open(f"/sys/class/scsi_host/{host}/scan", "w") as scan:  # somebody else has looked for it
        scan.write("0 0 0")
    eventually(lambda: len(disks()) == 2, lambda: str(disks()))
    target.unmap(0)
    other = site.lio.backstore("other", 32 << 20)
    target.map(0, other)
    node.mounted_pod("second", volume(target, 0))
    assert not file_of(node, "second").exists()
    sizes = sorted(int(Path("/sys/block", name, "size").read_text()) << 9 for name in disks())
    assert sizes == [32 << 20, 64 << 20]


@pytest.mark.slow
def test_a_lun_that_is_not_there_is_told(node: VmNode, site: Site, target: Target) -> None:
    node.put_pod("waits", volume(target, 7))
    node.until_why("waits", "shows this node no LUN 7")
    target.map(7, site.lio.backstore("late"))
    node.wait("waits")


def _device(name: str) -> dict[str, object]:
    return {"containers": [{"name": "main", "volumeDevices": [{"name": name, "devicePath": "/dev/disk"}]}]}


def _blocks(path: object) -> int:
    place = os.path.dirname(str(path))
    return int(subprocess.run(["stat", "-f", "-c", "%b", place], capture_output=True, check=True).stdout)
