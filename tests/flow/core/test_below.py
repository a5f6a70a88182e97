"""What is mounted below its volume's directory, on the host in memory; on the kernel: tests/root/core."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.core.below import STORIES, PublishedSource, Site, a_device_s_bind_that_somebody_unmounts_is_made_again
from tests.flow.core.probes import claim_of, storage
from volmgr.host.interface import Host
from volmgr.model.volume import Facets
from volmgr.plugin import (
    DeviceMountable,
    DeviceMounted,
    DeviceUnmounted,
    Handles,
    Mount,
    MountDevice,
    Mounted,
    Objects,
    Unmount,
    UnmountDevice,
    Unmounted,
    VolumePlugin,
    VolumeSpec,
)
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_on_the_host_in_memory(story: Callable[[Host], None]) -> None:
    story(FakeHost())


def test_a_bind(host: FakeHost) -> None:
    host.put("/srv/disk.img", bytes(64 << 10))
    a_device_s_bind_that_somebody_unmounts_is_made_again(host, Path("/srv/disk.img"), "64Ki")


def test_after_a_reboot_it_is_mounted_again() -> None:
    host = FakeHost()
    site = Site.with_pod(host)
    host.reboot()
    site.restart()
    assert site.plugin.calls == ["mount", "mount"]
    assert host.mounts.is_mount_point(site.place)


def test_files_are_written_again_after_a_reboot() -> None:
    host = FakeHost()
    site = Site.with_pod(host, files=True)
    host.reboot()
    site.restart()
    assert site.plugin.calls == ["mount", "mount"]


class Staged(VolumePlugin[PublishedSource], DeviceMountable[PublishedSource]):
    """A driver whose volumes are read-only by themselves once they are mounted on the node."""

    name = "example.com/staged"
    handles = (Handles("csi", driver="staged.example.com", source=PublishedSource),)
    supports_mount_options = True

    def __init__(self) -> None:
        self.calls: list[str] = []

    def facets(self, spec: VolumeSpec[PublishedSource], objects: Objects) -> Facets:
        del spec, objects
        return Facets(device=True)

    def device_target(self, spec: VolumeSpec[PublishedSource], host: Host) -> Path:
        return host.paths.plugin("kubernetes.io/csi") / spec.name / "globalmount"

    def mount_device(self, request: MountDevice[PublishedSource], host: Host) -> DeviceMounted:
        self.calls.append("mount_device")
        host.files.ensure_directory(request.target, 0o750)
        host.mounts.ensure_mounted(request.target, "tmpfs")
        host.mounts.remount(request.target, ("ro",))
        return DeviceMounted()

    def unmount_device(self, request: UnmountDevice, host: Host) -> DeviceUnmounted:
        host.filesystems.unmount(request.target)
        return DeviceUnmounted()

    def mount(self, request: Mount[PublishedSource], host: Host) -> Mounted:
        self.calls.append("mount")
        host.files.ensure_directory(request.target / "mount", 0o750)
        assert request.device_target is not None
        host.mounts.ensure_bound(request.device_target, request.target / "mount", options=("ro",))
        return Mounted(path=request.target / "mount")

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        host.filesystems.unmount(request.target / "mount")
        host.files.remove_directory(request.target)
        return Unmounted()


def test_what_is_read_only_by_itself_on_the_node_is_left_as_it_is(host: FakeHost) -> None:
    staged = Staged()
    node = TestNode(host, plugins_of(staged))
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1", source={"csi": {"driver": "staged.example.com"}}))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    for starts in range(2):
        for _ in range(starts):
            node.start()
            node.sources_ready()
        node.mounts_changed()
        node.advance(60)
        assert (staged.calls, node.warnings(), node.is_mounted("web")) == (["mount_device", "mount"], (), True)
    host.mounts.unmount(host.paths.plugin("kubernetes.io/csi") / "pv-d1/globalmount")
    node.mounts_changed()
    node.mounts_changed()
    assert staged.calls == ["mount_device", "mount", "mount_device"]
    node.delete("u1")
    assert host.table == {}


@pytest.mark.parametrize("options", [["ro"], ["ro", "noatime"]])
def test_what_mount_options_make_read_only_is_no_trouble(host: FakeHost, options: list[str]) -> None:
    staged = Staged()
    node = TestNode(host, plugins_of(staged))
    node.sources_ready()
    source = {"csi": {"driver": "staged.example.com"}}
    node.put_file("storage.yaml", *storage("d1", source=source, mountOptions=options))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    node.mounts_changed()
    assert (staged.calls, node.warnings()) == (["mount_device", "mount"], ())


class Shared(Staged):
    """A driver whose volumes are read-only for the Pods that ask for that."""

    name = "example.com/shared"
    handles = (Handles("csi", driver="shared.example.com", source=PublishedSource),)

    def mount_device(self, request: MountDevice[PublishedSource], host: Host) -> DeviceMounted:
        self.calls.append("mount_device")
        host.files.ensure_directory(request.target, 0o750)
        host.mounts.ensure_mounted(request.target, "tmpfs")
        return DeviceMounted()

    def mount(self, request: Mount[PublishedSource], host: Host) -> Mounted:
        self.calls.append("mount")
        host.files.ensure_directory(request.target / "mount", 0o750)
        assert request.device_target is not None
        options = ("ro",) if request.read_only else ()
        host.mounts.ensure_bound(request.device_target, request.target / "mount", options=options)
        return Mounted(path=request.target / "mount")


@pytest.mark.parametrize("readers", [["reads"], ["first", "third"], ["first", "reads", "third"]], ids=len)
def test_a_volume_that_one_pod_reads_and_another_writes_stays_as_each_has_it(
    host: FakeHost, readers: list[str]
) -> None:
    shared = Shared()
    node = TestNode(host, plugins_of(shared))
    node.sources_ready()
    source = {"csi": {"driver": "shared.example.com"}}
    node.put_file("storage.yaml", *storage("d1", source=source, modes=("ReadWriteMany",)))
    names = sorted({*readers, "second"})
    for name in names:
        node.apply(pod(name, claim_of("data", "d1", read_only=name in readers), uid=name))
    for starts in range(2):
        for _ in range(starts):
            node.start()
            node.sources_ready()
        node.mounts_changed()
        node.mounts_changed()
        assert (shared.calls, node.warnings()) == (["mount_device", *("mount" for _ in names)], ())
    written = host.paths.volume("second", "kubernetes.io/csi", "pv-d1") / "mount"
    host.mounts.remount(written, ("ro",))
    node.mounts_changed()
    node.mounts_changed()
    assert shared.calls.count("mount") == len(names) + 1
    assert not host.mounts.seen_below(written)[str(written)].read_only
