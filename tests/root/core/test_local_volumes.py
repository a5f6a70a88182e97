"""local volumes on the real kernel, through the whole core: formatted, refused, shared, recreated, found again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.core.probes import claim_of, storage
from volmgr.host.interface import Host
from volmgr.model.volume import Presence
from volmgr.report.why import why
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr.testing.real_host import RealHosts
from volmgr_local.plugin import Local

MIB = 1 << 20
MOUNTS = "plugins/kubernetes.io/local-volume/mounts/pv-disk"
MAPS = "plugins/kubernetes.io~local-volume/volumeDevices/pv-disk"
NAME = f"{Local.name}/pv-disk"


class Site:
    """A real host with a node on it, and what its owner has."""

    def __init__(self, host: Host, top: Path) -> None:
        self.host = host
        self.top = top
        self.root = host.paths.root
        self.node = TestNode(host, plugins_of(Local()))
        self.node.sources_ready()

    def disk(self, size: int = 16 * MIB) -> Path:
        """Attach an empty disk, and give its stable name."""
        with (self.top / "disk.img").open("wb") as file:
            file.truncate(size)
        link = self.top / "by-id"
        link.unlink(missing_ok=True)
        link.symlink_to(self.host.block.attach_loop(self.top / "disk.img"))
        return link

    def directory(self) -> Path:
        path = self.top / "data"
        path.mkdir()
        (path / "marker").write_text("kept", encoding="utf-8")
        return path

    def offer(self, path: Path, *, size: str = "16Mi", fs_type: str = "", block: bool = False) -> None:
        """Let there be a PersistentVolume and the claim `disk` for a path."""
        source = {"local": {"path": str(path), **({"fsType": fs_type} if fs_type else {})}}
        self.node.put_file("storage.yaml", *storage("disk", source=source, size=size, block=block))

    def start_pod(self, name: str = "web", *, block: bool = False, group: int | None = None) -> Path:
        """Start a Pod that uses the claim; gives its volume's place."""
        spec = {} if group is None else {"securityContext": {"fsGroup": group}}
        devices = ("data",) if block else ()
        self.node.apply(pod(name, claim_of("data", "disk"), uid=f"u-{name}", devices=devices, **spec))
        paths = self.host.paths
        return (paths.block_volume if block else paths.volume)(f"u-{name}", Local.name, "pv-disk")

    def restart(self, *, forget: bool = False) -> None:
        """Kill the daemon and start it again, perhaps with its records of mounts lost."""
        for kind in ("mounts", "volumes") if forget else ():
            subprocess.run(["rm", "-r", str(self.host.paths.state / kind)], check=True)
        self.node.start()
        self.node.settle()
        self.node.sources_ready()

    @property
    def mounts(self) -> set[str]:
        """What is mounted below the root, relative to it."""
        found = {str(entry.target.relative_to(self.root)) for entry in self.host.mounts.below(self.root)}
        return found - {"."}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHosts]:
    with RealHosts(tmp_path_factory.mktemp("local")) as hosts:
        yield hosts


@pytest.fixture
def site(hosts: RealHosts) -> Iterator[Site]:
    yield Site(*hosts.fresh())
    hosts.clear()


def test_an_empty_disk_is_formatted_mounted_for_two_pods_and_given_back(site: Site) -> None:
    disk = site.disk()
    site.offer(disk)
    places = [site.start_pod(name) for name in ("a", "b")]
    assert site.node.is_mounted("a"), site.node.warnings()
    (places[0] / "file").write_text("kept", encoding="utf-8")
    assert (places[1] / "file").read_text(encoding="utf-8") == "kept"
    assert MOUNTS in site.mounts
    site.restart()
    for name in ("a", "b"):
        site.node.delete(f"u-{name}")
    assert site.mounts == set()
    assert not (site.root / MOUNTS).exists()
    assert site.host.block.is_free(disk)
    assert (site.start_pod("c") / "file").read_text(encoding="utf-8") == "kept"


def test_a_disk_that_is_not_empty_is_named_with_its_volume_and_what_empties_it(site: Site) -> None:
    disk = site.disk()
    with disk.open("r+b") as file:
        file.seek(12345)
        file.write(b"precious")
    before = (site.top / "disk.img").read_bytes()
    site.offer(disk)
    site.start_pod()
    (report,) = why(site.node.world, "web")
    command = f"blkdiscard --force --zeroout {disk}"
    for words in (str(disk), "PersistentVolume pv-disk", "data in the first MiB (at byte 12345)", command):
        assert words in report.text
    assert (site.top / "disk.img").read_bytes() == before
    subprocess.run(command.split(), check=True)
    site.node.advance(300)
    assert site.node.is_mounted("web"), site.node.warnings()


def test_a_mismatch_is_an_event_of_the_pod(site: Site) -> None:
    disk = site.disk(300 * MIB)
    subprocess.run(["mkfs.xfs", "-q", str(disk)], check=True)
    site.offer(disk, fs_type="ext4")
    site.start_pod()
    assert "filesystem mismatch: it has xfs, and the volume asks for ext4" in site.node.warnings()[0]


def test_a_directory_and_what_is_in_it_stay_the_owner_s(site: Site) -> None:
    data = site.directory()
    before = data.stat()
    site.offer(data)
    place = site.start_pod()
    assert site.node.is_mounted("web"), site.node.warnings()
    assert site.mounts == {str(place.relative_to(site.root))}
    (place / "new").write_text("the pod's", encoding="utf-8")
    site.restart()
    assert site.node.is_mounted("web")
    site.node.delete("u-web")
    assert site.mounts == set()
    assert not place.exists()
    assert (data / "new").read_text(encoding="utf-8") == "the pod's"
    assert (data.stat().st_mode, data.stat().st_gid) == (before.st_mode, before.st_gid)


def test_a_restart_with_a_directory_calls_nothing_again(site: Site) -> None:
    site.offer(site.directory())
    site.start_pod()
    site.restart()
    volume = site.node.world.actual.get(NAME)
    assert volume is not None
    assert (volume.device, volume.mounts["u-web"].state) == (Presence.YES, Presence.YES)
    assert not any(event.reason == "SuccessfulMountVolume" for event in site.node.world.events.after(0))


def test_a_read_only_directory_of_the_owner_is_not_made_writable(site: Site) -> None:
    data = site.directory()
    site.host.mounts.ensure_mounted(data, "tmpfs", options=("ro",))
    try:
        site.offer(data)
        site.start_pod()
        site.restart(forget=True)
        assert site.node.is_mounted("web"), site.node.warnings()
        entry = site.host.mounts.entry(data)
        assert entry is not None
        assert "ro" in entry.super_options
    finally:
        site.node.delete("u-web")
        site.host.mounts.unmount(data)


@pytest.mark.parametrize(("kind", "times"), [("directory", 200), ("disk", 50)])  # the report is of a directory
def test_two_hundred_recreations_each_see_the_marker(site: Site, kind: str, times: int) -> None:
    site.offer(site.directory() if kind == "directory" else site.disk())
    place = site.start_pod()
    (place / "marker").write_text("kept", encoding="utf-8")
    for number in range(times):
        site.node.delete("u-web")
        assert not place.exists()
        if number % 20 == 7:
            site.restart()
        site.start_pod()
        assert site.node.is_mounted("web"), site.node.warnings()
        assert (place / "marker").read_text(encoding="utf-8") == "kept"
        assert os.path.ismount(place) or kind == "directory"
    site.node.delete("u-web")
    assert site.mounts == set()


@pytest.mark.parametrize("kind", ["directory", "disk", "block"])
def test_a_volume_without_a_record_is_found_used_on_and_given_back(site: Site, kind: str) -> None:
    path = site.directory() if kind == "directory" else site.disk()
    site.offer(path, block=kind == "block")
    place = site.start_pod(block=kind == "block")
    before = site.mounts
    site.restart(forget=True)
    assert site.node.is_mounted("web"), site.node.warnings()
    assert site.mounts == before
    site.restart(forget=True)
    site.node.delete("u-web")
    assert site.mounts == set()
    assert not place.exists()
    assert not place.is_symlink()
    if kind != "directory":
        assert site.host.block.is_free(path)


def test_a_disk_is_mapped_locked_and_given_back(site: Site) -> None:
    disk = site.disk()
    site.offer(disk, block=True)
    link = site.start_pod(block=True)
    assert site.node.is_mounted("web"), site.node.warnings()
    assert link.readlink() == disk.readlink()
    assert site.mounts == {f"{MAPS}/u-web"}
    assert site.host.block.find_loops(site.root / MAPS / "u-web") != ()
    with link.open("r+b") as file:
        file.write(b"raw")
    site.restart()
    site.node.delete("u-web")
    assert site.mounts == set()
    assert not (site.root / MAPS).exists()
    assert (site.top / "disk.img").read_bytes().startswith(b"raw")


def test_a_disk_mounted_elsewhere_too_is_not_unmounted_and_its_mounts_are_named(site: Site) -> None:
    disk, elsewhere = site.disk(), site.top / "elsewhere"
    elsewhere.mkdir()
    site.offer(disk)
    site.start_pod()
    site.host.mounts.ensure_mounted(elsewhere, "ext4", source=str(disk))
    try:
        site.node.delete("u-web")
        assert MOUNTS in site.mounts
        assert f"still mounted by other references: {elsewhere}" in site.node.warnings()[-1]
    finally:
        site.host.mounts.unmount(elsewhere)
    site.node.advance(300)
    assert site.mounts == set()


def test_a_copy_of_the_node_s_mount_below_another_root_is_no_other_reference(site: Site) -> None:
    disk, copy = site.disk(), site.top / "rootfs" / MOUNTS
    copy.mkdir(parents=True)
    site.offer(disk)
    site.start_pod()
    site.host.mounts.ensure_bound(site.root / MOUNTS, copy)
    try:
        site.node.delete("u-web")
        assert site.mounts == set()
        warning = "is in use when it was no longer expected to be in use"
        assert warning in site.node.warnings()[-1]
        volume = site.node.world.actual.get(NAME)
        assert volume is not None
        assert volume.device is Presence.UNCERTAIN
    finally:
        site.host.mounts.unmount(copy)
    site.node.advance(300)
    assert site.node.world.actual.get(NAME) is None


def test_a_disk_that_vanished_is_given_back(site: Site) -> None:
    disk = site.disk()
    site.offer(disk, block=True)
    link = site.start_pod(block=True)
    disk.unlink()
    site.restart(forget=True)
    site.node.delete("u-web")
    assert site.node.is_unmounted("u-web"), site.node.warnings()
    assert site.mounts == set()
    assert not link.is_symlink()


def test_a_mounted_disk_grows_with_its_volume(site: Site) -> None:
    site.offer(site.disk(320 * MIB), fs_type="xfs", size="320Mi")
    place = site.start_pod()
    before = site.host.mounts.file_system(place).size
    os.truncate(site.top / "disk.img", 640 * MIB)
    (device,) = site.host.block.find_loops(site.top / "disk.img")
    site.host.block.refresh_size(device)
    site.offer(site.top / "by-id", fs_type="xfs", size="640Mi")
    assert site.node.warnings() == ()
    assert site.host.mounts.file_system(place).size > before * 1.5


def test_an_ext4_disk_grows_at_its_next_mount(site: Site) -> None:
    site.offer(site.disk())
    place = site.start_pod()
    (place / "file").write_text("kept", encoding="utf-8")
    before = site.host.mounts.file_system(place).size
    site.node.delete("u-web")
    os.truncate(site.top / "disk.img", 64 * MIB)
    (device,) = site.host.block.find_loops(site.top / "disk.img")
    site.host.block.refresh_size(device)
    site.offer(site.top / "by-id", size="64Mi")
    site.start_pod()
    assert site.host.mounts.file_system(place).size > 2 * before
    assert (place / "file").read_text(encoding="utf-8") == "kept"


def test_another_group_than_the_first_pod_s_is_an_event(site: Site) -> None:
    site.offer(site.directory())
    site.start_pod("a", group=1001)
    site.start_pod("b", group=1002)
    assert site.node.is_mounted("b")
    assert (site.top / "data").stat().st_gid == 1001
    (told,) = [event for event in site.node.world.events.after(0) if event.reason == "AlreadyMountedVolume"]
    assert "the requested fsGroup is 1002, but the volume pv-disk has GID 1001" in told.message


def test_a_disk_below_a_linked_name_is_formatted_once_though_the_name_changes(site: Site) -> None:
    disk = site.disk()
    site.offer(disk)
    (site.start_pod() / "file").write_text("kept", encoding="utf-8")
    site.node.delete("u-web")
    site.host.block.detach_loop(disk.readlink())
    blocker = site.top / "blocker.img"
    blocker.write_bytes(bytes(MIB))
    site.host.block.attach_loop(blocker)
    disk.unlink()
    disk.symlink_to(site.host.block.attach_loop(site.top / "disk.img"))
    assert (site.start_pod() / "file").read_text(encoding="utf-8") == "kept"
