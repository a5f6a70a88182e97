"""image on this machine's kernel: what a container cannot do in it, and many Pods at once."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from volmgr.plugin import BusyError, Host, OperationError, Quantity
from volmgr.testing import Volume, pod
from volmgr.testing.real_host import RealHosts
from volmgr_image.contract import archive_of, entry, layout, tar, write
from volmgr_image.plugin import Image
from volmgr_image.settings import ImageSettings
from volmgr_image.source import ImageSource

pytestmark = pytest.mark.root


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[RealHosts]:
    with RealHosts(tmp_path / "hosts") as hosts:
        yield hosts


def volume(reference: str, of: str = "web") -> Volume:
    return Volume(Image(), ImageSource(reference=reference), pod=pod(of))


def mounted(wanted: Volume, host: Host) -> Path:
    path = wanted.mount(host).path
    assert path is not None
    return path


def test_nothing_in_an_image_can_be_written_or_executed_or_gains_rights(hosts: RealHosts) -> None:
    host, top = hosts.fresh()
    tool = archive_of([entry("tool", b"#!/bin/sh\necho ran\n", mode=0o4755)])
    write(host, top / "layout", layout([tool]))
    path = mounted(volume(f"oci:{top}/layout:v1"), host)
    assert (path / "tool").stat().st_mode & 0o7777 == 0o4755
    with pytest.raises(OSError, match="Read-only") as caught:
        (path / "new").touch()
    assert caught.value.errno == errno.EROFS
    assert not os.access(path / "tool", os.X_OK)
    flags = os.statvfs(path).f_flag
    assert flags & os.ST_NOSUID
    assert flags & os.ST_NODEV
    assert flags & os.ST_RDONLY


def test_a_pod_that_stands_in_an_image_is_named_and_the_image_stays(hosts: RealHosts) -> None:
    host, top = hosts.fresh()
    host = host.with_settings(ImageSettings(image_cache_limit=Quantity.of(0)))
    write(host, top / "layout", layout([tar({"file": b"1"})]))
    wanted = volume(f"oci:{top}/layout:v1")
    path = mounted(wanted, host)
    with (path / "file").open() as file:
        with pytest.raises(BusyError, match=str(os.getpid())):
            wanted.unmount(host)
        assert file.read() == "1"
    wanted.unmount(host)
    assert host.files.names(host.paths.state / "images" / "content") == ()


def test_a_full_disk_refuses_images_and_lets_those_that_are_there_go(hosts: RealHosts) -> None:
    host, top = hosts.fresh()
    host = host.with_settings(ImageSettings(image_cache_limit=Quantity.of(0)))
    root = host.paths.root
    for name, size in (("small", 1), ("large", 12 << 20)):
        write(host, top / name, layout([tar({"file": bytes(size)})]))
    host.files.ensure_directory(root, 0o755)
    host.mounts.ensure_mounted(root, "tmpfs", options=("size=8m",))
    there, wanted = volume(f"oci:{top}/small:v1"), volume(f"oci:{top}/large:v1", "other")
    mounted(there, host)
    with pytest.raises(OperationError, match="No space left"):
        wanted.mount(host)
    filler = os.open(root / "filler", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space left"):
        os.posix_fallocate(filler, 0, 1 << 30)
    while os.statvfs(root).f_bavail:
        os.write(filler, bytes(4096))
    os.close(filler)
    there.unmount(host)
    assert host.files.names(root / "volmgr/images/uses") == ()
    assert host.files.names(root / "volmgr/images/content") == ()
    host.files.remove_file(root / "filler")
    assert len((mounted(there, host) / "file").read_bytes()) == 1


def test_pods_that_come_and_go_at_once_find_their_image_while_all_others_leave(hosts: RealHosts) -> None:
    host, top = hosts.fresh()
    host = host.with_settings(ImageSettings(image_cache_limit=Quantity.of(0)))
    for number in range(3):
        write(host, top / f"layout{number}", layout([tar({"file": bytes([number]) * 5000})]))
    rounds: list[bool] = []

    def come_and_go(worker: int) -> None:
        for turn in range(30):
            number = (worker + turn) % 3
            wanted = volume(f"oci:{top}/layout{number}:v1", of=f"pod{worker}")
            found = (mounted(wanted, host) / "file").read_bytes()
            rounds.append(found == bytes([number]) * 5000)
            wanted.unmount(host)

    threads = [threading.Thread(target=come_and_go, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rounds == [True] * 180
    assert host.mounts.below(host.paths.root) == ()
    assert host.files.names(host.paths.state / "images" / "uses") == ()
    assert host.files.names(host.paths.state / "images" / "content") == ()
