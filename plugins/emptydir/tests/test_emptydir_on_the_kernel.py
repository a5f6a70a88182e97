"""emptyDir on this machine's kernel, where it says more than a host in memory can."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from volmgr.plugin import BusyError, Host, Quantity
from volmgr.testing import Volume
from volmgr.testing.real_host import RealHosts
from volmgr_emptydir.plugin import EmptyDir, EmptyDirSource

pytestmark = pytest.mark.root
MIB = 1 << 20


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with RealHosts(tmp_path) as hosts:
        yield hosts.fresh()[0]


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


def memory(limit: str) -> Volume:
    return Volume(EmptyDir(), EmptyDirSource(medium="Memory", size_limit=Quantity.parse(limit)))


def options(host: Host, volume: Volume) -> set[str]:
    entry = host.mounts.entry(volume.target(host))
    assert entry is not None
    return {*entry.options, *entry.super_options}


def test_memory_is_full_at_its_limit_and_keeps_size_and_data_over_a_restart(host: Host) -> None:
    volume = memory("64Ki")
    target = volume.target(host)
    volume.mount(host)
    (target / "fits").write_bytes(b"x" * 64 * 1024)
    volume.mount(host)
    with pytest.raises(OSError, match="No space left") as caught:
        (target / "more").write_bytes(b"x")
    assert caught.value.errno == errno.ENOSPC
    assert (target / "fits").stat().st_size == 64 * 1024
    assert "size=64k" in options(host, volume)


def test_a_pod_limit_below_the_size_limit_wins(host: Host) -> None:
    volume = memory("64Mi")
    volume.mount(host, memory_limit=2 * MIB)
    assert host.mounts.file_system(volume.target(host)).size == 2 * MIB


def test_memory_is_never_swapped_where_the_kernel_can_promise_it(host: Host) -> None:
    volume = memory("1Mi")
    volume.mount(host)
    assert ("noswap" in options(host, volume)) is host.kernel.tmpfs_noswap


@pytest.mark.usefixtures("strict_umask")
@pytest.mark.parametrize("medium", ["", "Memory"])
def test_the_mode_is_0777_without_sticky_or_setgid_bit(host: Host, medium: str) -> None:
    volume = Volume(EmptyDir(), EmptyDirSource(medium=medium))
    volume.mount(host)
    assert volume.target(host).stat().st_mode & 0o7777 == 0o777
    marker = host.paths.pod_plugin(volume.pod.uid, EmptyDir.name, volume.name)
    assert marker.stat().st_mode & 0o7777 == 0o750
    assert (marker / "ready").read_bytes() == b""


@pytest.mark.parametrize("medium", ["", "Memory"])
def test_flags_are_there_when_they_are_asked_for_and_else_not(host: Host, medium: str) -> None:
    flags = {"nosuid", "nodev", "noexec"}
    volume = Volume(EmptyDir(), EmptyDirSource(medium=medium))
    volume.mount(host, options=("nosuid", "nodev", "noexec"))
    assert flags <= options(host, volume)
    volume.unmount(host)
    volume.mount(host)
    entry = host.mounts.entry(volume.target(host))
    assert entry is None or not flags & set(entry.options)


def test_a_process_in_the_volume_is_named_and_its_data_is_still_there(host: Host) -> None:
    volume = memory("1Mi")
    volume.mount(host)
    with (volume.target(host) / "log").open("wb") as held:
        held.write(b"last words")
        with pytest.raises(BusyError) as caught:
            volume.unmount(host)
        assert any(str(os.getpid()) in holder for holder in caught.value.holders)
    assert (volume.target(host) / "log").read_bytes() == b"last words"
    volume.unmount(host)
    assert not volume.target(host).exists()


def test_a_file_bound_into_the_volume_neither_blocks_teardown_nor_is_lost(host: Host, tmp_path: Path) -> None:
    volume = Volume(EmptyDir(), EmptyDirSource())
    volume.mount(host)
    source = tmp_path / "termination-log"
    source.write_bytes(b"not the volume's")
    (volume.target(host) / "log.txt").touch()
    host.mounts.ensure_bound(source, volume.target(host) / "log.txt")
    volume.unmount(host)
    assert not volume.target(host).exists()
    assert source.read_bytes() == b"not the volume's"
