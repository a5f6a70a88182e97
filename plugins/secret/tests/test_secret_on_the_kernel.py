"""secret on this machine's kernel, where it says more than a host in memory can."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from volmgr.plugin import BusyError, Host, ObjectMeta, ObjectRef, OperationError, Secret
from volmgr.testing import Volume
from volmgr.testing.real_host import RealHosts
from volmgr_secret.plugin import SecretSource, SecretVolume

pytestmark = pytest.mark.root
NAME = "login"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with RealHosts(tmp_path) as hosts:
        yield hosts.fresh()[0]


def volume(**data: bytes) -> Volume:
    found = Secret(metadata=ObjectMeta(name=NAME), data=data)
    return Volume(SecretVolume(), SecretSource(secret_name=NAME), objects={ObjectRef("Secret", "default", NAME): found})


def test_it_lies_in_memory_that_is_not_swapped_where_the_kernel_can_promise_that(host: Host) -> None:
    of = volume(key=b"k")
    of.mount(host)
    entry = host.mounts.entry(of.target(host))
    assert entry is not None
    assert entry.fstype == "tmpfs"
    assert ("noswap" in entry.super_options) == (host.kernel.tmpfs_noswap and not host.kernel.user_namespace)


def test_a_user_of_the_pod_s_group_reads_what_nobody_else_may(host: Host, tmp_path: Path) -> None:
    of = Volume(SecretVolume(), SecretSource(secret_name=NAME, default_mode=0o400), objects=volume(key=b"k").objects)
    of.mount(host, fs_group=4711)
    for directory in (tmp_path, *tmp_path.parents, *of.target(host).parents):
        if directory.stat().st_mode & 0o001 == 0:
            directory.chmod(0o751)
    key = of.target(host) / "key"

    def read(group: int) -> int:
        command = ["setpriv", "--reuid=65534", f"--regid={group}", "--clear-groups", "cat", str(key)]
        return host.commands.run(command, accept=(0, 1)).exit_code

    assert read(4711) == 0
    assert read(65534) != 0


def test_a_process_inside_is_named_and_the_next_try_after_its_end_succeeds(host: Host) -> None:
    of = volume(key=b"k")
    of.mount(host)
    with (of.target(host) / "key").open(), pytest.raises(BusyError, match=f"{os.getpid()}"):
        of.unmount(host)
    of.unmount(host)
    assert not of.target(host).exists()


def test_a_changed_secret_keeps_the_mount_and_what_was_opened_stays_readable(host: Host) -> None:
    of = volume(key=b"old")
    of.mount(host)
    before = host.mounts.entry(of.target(host))
    with (of.target(host) / "key").open("rb") as opened:
        volume(key=b"new").mount(host, remount=True)
        assert opened.read() == b"old"
    assert (of.target(host) / "key").read_bytes() == b"new"
    assert host.mounts.entry(of.target(host)) == before


def test_a_secret_larger_than_its_memory_is_refused_and_leaves_the_old_one(host: Host) -> None:
    of = volume(key=b"old")
    of.mount(host, memory_limit=1 << 16)
    with pytest.raises(OperationError, match=r"ENOSPC .* make room"):
        volume(key=os.urandom(1 << 17)).mount(host, remount=True, memory_limit=1 << 16)
    assert (of.target(host) / "key").read_bytes() == b"old"
    assert [name for name in host.files.names(of.target(host)) if not name.startswith("..2")] == ["..data", "key"]
