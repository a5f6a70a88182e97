"""A cluster that does not answer: mounts end in time and say so, nobody else waits, what is mounted can go."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.root.acceptance.outside import memory
from tests.vm.cephfs.node import PATIENCE, CephNode, cephfs
from tests.vm.servers.ceph import Ceph


def test_stopped_monitors_are_named_harm_no_other_pod_and_are_waited_for(node: CephNode, ceph: Ceph) -> None:
    node.mounted_pod("one", cephfs())
    ceph.pause_monitor()
    node.put_pod("two", cephfs(path="/"), cephfs("other", path="/volumes"))
    node.mounted_pod("unrelated", memory())
    (node.data("one") / "file").write_text("works on")
    node.wait_in_vain("two", PATIENCE)
    node.until_why("two", f"within {PATIENCE} s")
    assert f"Ceph cluster with monitors {ceph.monitor} does not answer since" in node.why("two")
    node.remove_pod("unrelated")
    ceph.resume()
    (node.data("one") / "volumes").mkdir(exist_ok=True)
    node.wait("two")


def test_a_volume_is_unmounted_while_its_monitors_are_stopped(node: CephNode, ceph: Ceph) -> None:
    node.mounted_pod("one", cephfs())
    (node.data("one") / "file").write_text("written")
    ceph.pause_monitor()
    node.remove_pod("one")
    assert node.mounts() == {}


@contextmanager
def writing(node: CephNode, pod: str) -> Generator[subprocess.Popen[bytes]]:
    """Have a process that writes to a Pod's volume, and waits until the cluster has it."""
    argv = ("dd", "if=/dev/zero", f"of={node.data(pod)}/data", "bs=4k", "oflag=sync", "status=none")
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as writer:
        try:
            yield writer
        finally:
            writer.kill()


@pytest.mark.slow
def test_a_volume_of_a_dead_cluster_in_which_somebody_writes_is_unmounted_by_force(node: CephNode, ceph: Ceph) -> None:
    node.mounted_pod("one", cephfs())
    with writing(node, "one") as writer:
        ceph.pause()
        node.remove_pod("one")
        assert node.mounts() == {}
        writer.wait(60)
    assert "by force: its server does not answer" in node.log_text()
    ceph.resume()
    node.mounted_pod("one", cephfs())
    (node.data("one") / "data").unlink()
