"""CephFS on a real cluster, by the kernel's client and by ceph-fuse: what is written stays, whoever dies meanwhile."""

from __future__ import annotations

import errno
import json
import os
import signal

import pytest

from tests.root.acceptance.outside import pod
from tests.vm.cephfs.node import FSTYPES, CephNode, cephfs, secret
from tests.vm.servers.ceph import Ceph


def test_a_volume_is_written_to_over_a_killed_daemon_and_read_by_a_second_pod(node: CephNode) -> None:
    node.mounted_pod("one", cephfs())
    line = node.mounts()[str(node.data("one"))]
    assert f" - {FSTYPES[node.client]} " in line
    (node.data("one") / "file").write_text("written")
    node.restart()
    node.wait("one")
    assert node.mounts()[str(node.data("one"))] == line
    node.mounted_pod("two", cephfs())
    assert (node.data("two") / "file").read_text() == "written"
    (node.data("two") / "file").write_text("by the second")
    node.remove_pod("one")
    assert (node.data("two") / "file").read_text() == "by the second"
    (node.data("two") / "file").unlink()
    node.remove_pod("two")
    node.until_clean()


@pytest.mark.slow
def test_a_pod_may_have_a_directory_of_the_file_system_and_a_part_of_that(node: CephNode) -> None:
    node.mounted_pod("whole", cephfs())
    (node.data("whole") / "directory/part").mkdir(parents=True, exist_ok=True)
    (node.data("whole") / "directory/part/file").write_text("deep")
    wanted = pod("part", cephfs(path="/directory"))
    wanted["spec"]["containers"][0]["volumeMounts"][0]["subPath"] = "part"
    node.put("part.json", wanted)
    node.wait("part")
    assert os.listdir(node.data("part")) == ["part"]
    (container,) = json.loads(node.volmgr("mounts", "part", "--format", "json").stdout)["containers"]
    assert os.listdir(container["mounts"][0]["source"]) == ["file"]
    node.remove_pod("part")


@pytest.mark.slow
def test_a_read_only_volume_cannot_be_written_to(node: CephNode) -> None:
    node.mounted_pod("reader", cephfs(readOnly=True))
    with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
        (node.data("reader") / "file").write_text("no")


@pytest.mark.parametrize("client", ["fuse", pytest.param("kernel", marks=pytest.mark.slow)])
def test_a_wrong_secret_is_told_and_the_right_one_helps_and_nothing_is_left_of_the_failures_108(
    node: CephNode, ceph: Ceph
) -> None:
    node.put("secret.json", secret(ceph.user("other")))
    node.put_pod("one", cephfs(user="admin", secretRef={"name": "ceph"}))
    node.until_why("one", "the key is another one than the user's")
    node.put("secret.json", secret(ceph.key))
    node.wait("one")
    assert list(node.mounts()) == [str(node.data("one"))]
    assert len(node.servers()) == (node.client == "fuse")
    assert node.private() == []
    assert not node.data("one").with_name("v~keyring").exists()


@pytest.mark.slow
def test_a_user_of_its_own_sees_its_directory_alone(node: CephNode, ceph: Ceph) -> None:
    node.mounted_pod("whole", cephfs())
    (node.data("whole") / "own").mkdir(exist_ok=True)
    node.put("secret.json", secret(ceph.user("owner")))
    node.mounted_pod("owner", cephfs(user="owner", path="/own", secretRef={"name": "ceph"}))
    (node.data("owner") / "file").write_text("mine")
    assert (node.data("whole") / "own/file").read_text() == "mine"
    node.put_pod("thief", cephfs(user="owner", path="/", secretRef={"name": "ceph"}))
    node.until_why("thief", "cannot mount / of the Ceph file system")
    node.remove_pod("thief")


@pytest.mark.parametrize("client", ["fuse"])
def test_a_server_outlives_the_daemon_whose_process_group_is_killed_i82(node: CephNode) -> None:
    node.mounted_pod("one", cephfs())
    servers = node.servers()
    assert len(servers) == 1
    assert os.getpgid(servers[0]) != os.getpgid(node.pid)
    assert os.getsid(servers[0]) != os.getsid(node.pid)
    node.kill_group()
    (node.data("one") / "file").write_text("lives")
    node.start()
    node.wait("one")
    assert node.servers() == servers


@pytest.mark.parametrize("client", ["fuse"])
def test_a_dead_server_is_told_a_new_pod_gets_a_living_one_and_the_dead_mount_goes_i83(node: CephNode) -> None:
    node.mounted_pod("old", cephfs())
    (server,) = node.servers()
    node.until_settled(server)
    os.kill(server, signal.SIGKILL)
    node.until_why("old", "the volume is dead: the FUSE server behind it has gone")
    node.mounted_pod("new", cephfs())
    (node.data("new") / "file").write_text("lives")
    node.remove_pod("old")
    assert (node.data("new") / "file").read_text() == "lives"
