"""A type that mounts below its volume's directory, as drivers of `csi` do, and what must come of that on every host."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.flow.core.probes import claim_of, storage
from volmgr import records
from volmgr.actual import PodMount
from volmgr.host.interface import Host, SeenMount
from volmgr.plugin import Handles, Mount, Mounted, Unmount, Unmounted, VolumePlugin
from volmgr.testing.loopdisk import LoopDisk
from volmgr.testing.node import TestNode, plugins_of, pod

NAME, GROUP = "example.com/published", 4321


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSource:
    """What is published: a tmpfs, or only files."""

    files: bool = False
    read_only: bool = False
    itself: bool = False
    """It is read-only by itself, as an image is; that is not asked for."""


class Published(VolumePlugin[PublishedSource]):
    """Mounts at `mount` below its directory, beside a file of its own."""

    name = NAME
    handles = (
        Handles("published", source=PublishedSource),
        Handles("csi", driver="published.example.com", source=PublishedSource),
    )

    def __init__(self) -> None:
        self.calls: list[str] = []

    def mount(self, request: Mount[PublishedSource], host: Host) -> Mounted:
        self.calls.append("mount")
        place = request.target / "mount"
        host.files.ensure_directory(place, 0o750)
        host.files.write(request.target / "vol_data.json", b"{}\n", 0o600)
        if request.spec.source.files:
            host.files.write(place / "file", b"of the driver", 0o644)
        else:
            new = not host.mounts.is_mount_point(place)
            host.mounts.ensure_mounted(place, "tmpfs")
            if new and request.spec.source.itself:
                host.mounts.remount(place, ("ro",))
        return Mounted(path=place)

    def unmount(self, request: Unmount, host: Host) -> Unmounted:
        self.calls.append("unmount")
        host.mounts.unmount(request.target / "mount")
        host.files.remove_file(request.target / "mount/file")
        host.files.remove_file(request.target / "vol_data.json")
        host.files.remove_directory(request.target / "mount")
        host.files.remove_directory(request.target)
        return Unmounted()


def restart(node: TestNode) -> None:
    """Start the daemon's insides again."""
    node.start()
    node.settle()
    node.sources_ready()


@dataclass
class Site:
    """A node on a host, with one Pod `web` that has a published volume."""

    host: Host
    plugin: Published
    node: TestNode

    @classmethod
    def with_pod(cls, host: Host, *, files: bool = False, group: int | None = GROUP, **csi: object) -> Site:
        """Let the Pod be mounted; with more of a source, by a driver of csi."""
        plugin = Published()
        site = cls(host, plugin, TestNode(host, plugins_of(plugin)))
        site.node.sources_ready()
        source = {"csi": {"driver": "published.example.com", **csi}} if csi else {"published": {"files": files}}
        context = {} if group is None else {"securityContext": {"fsGroup": group}}
        site.node.apply(pod("web", {"name": "data", **source}, uid="u1", **context))
        assert (site.node.is_mounted("web"), site.plugin.calls) == (True, ["mount"])
        return site

    @property
    def directory(self) -> Path:
        (volume,) = self.node.world.actual
        return self.host.paths.volume("u1", volume.kubelet_plugin, "data")

    @property
    def place(self) -> Path:
        return self.directory / "mount"

    def restart(self) -> None:
        restart(self.node)

    def mount(self) -> PodMount:
        """Give what is known of the Pod's mount."""
        (volume,) = self.node.world.actual
        return volume.mounts["u1"]


def unmounted_by_somebody_it_is_mounted_again(host: Host) -> None:
    site = Site.with_pod(host)
    host.mounts.unmount(site.place)
    site.node.mounts_changed()
    assert site.plugin.calls == ["mount", "mount"]
    assert host.mounts.is_mount_point(site.place)
    assert "its mount has vanished: somebody unmounted it" in site.node.warnings()


def turned_read_only_it_is_made_writable(host: Host) -> None:
    site = Site.with_pod(host)
    host.mounts.remount(site.place, ("ro",))
    site.node.mounts_changed()
    assert site.plugin.calls == ["mount", "mount"]
    assert host.mounts.seen_below(site.place) == {str(site.place): SeenMount(False)}


def what_a_driver_made_read_only_by_itself_is_left_as_it_is(host: Host) -> None:
    site = Site.with_pod(host, itself=True, group=None)
    site.node.mounts_changed()
    for _ in range(2):
        assert (site.plugin.calls, site.node.warnings()) == (["mount"], ())
        site.restart()
        site.node.mounts_changed()
    assert (site.plugin.calls, site.node.warnings()) == (["mount"], ())
    host.mounts.unmount(site.place)
    site.node.mounts_changed()
    site.node.mounts_changed()
    assert site.plugin.calls == ["mount", "mount"]
    assert host.mounts.seen_below(site.place) == {str(site.place): SeenMount(True)}


def what_a_driver_made_writable_and_turned_read_only_is_repaired(host: Host) -> None:
    site = Site.with_pod(host, itself=False)
    site.restart()
    host.mounts.remount(site.place, ("ro",))
    site.node.mounts_changed()
    assert site.plugin.calls == ["mount", "mount"]
    assert host.mounts.seen_below(site.place) == {str(site.place): SeenMount(False)}
    host.mounts.remount(site.place, ("ro",))
    site.restart()
    site.node.mounts_changed()
    assert host.mounts.seen_below(site.place) == {str(site.place): SeenMount(False)}


def after_a_restart_it_is_proven_and_nothing_is_called(host: Host) -> None:
    site = Site.with_pod(host)
    for _ in range(3):
        site.restart()
    assert (site.plugin.calls, site.node.is_mounted("web")) == (["mount"], True)
    assert site.mount().mount_point == site.mount().path == site.place
    host.mounts.unmount(site.place)
    site.node.mounts_changed()
    assert site.plugin.calls == ["mount", "mount"]


def what_went_while_nobody_looked_is_mounted_again(host: Host) -> None:
    site = Site.with_pod(host)
    host.mounts.unmount(site.place)
    site.restart()
    assert (site.plugin.calls, site.node.is_mounted("web")) == (["mount", "mount"], True)
    assert host.mounts.is_mount_point(site.place)


def another_mount_in_its_place_is_no_proof(host: Host) -> None:
    site = Site.with_pod(host)
    host.mounts.unmount(site.place)
    host.mounts.ensure_mounted(site.place, "tmpfs")
    site.restart()
    assert site.plugin.calls == ["mount", "mount"]


def a_driver_that_only_writes_files_is_proven_by_its_directory(host: Host) -> None:
    site = Site.with_pod(host, files=True)
    site.restart()
    site.node.mounts_changed()
    assert (site.plugin.calls, site.mount().mount_point) == (["mount"], None)
    host.files.remove_file(site.place / "file")
    host.files.remove_directory(site.place)
    site.restart()
    assert site.plugin.calls == ["mount", "mount"]
    assert host.files.info(site.place / "file") is not None


def its_files_and_not_the_directory_around_them_belong_to_the_group(host: Host) -> None:
    site = Site.with_pod(host)
    given, around = host.files.info(site.place), host.files.info(site.directory)
    assert given is not None
    assert around is not None
    assert (given.gid, around.gid) == (GROUP, 0)


def it_goes_with_its_pod(host: Host) -> None:
    site = Site.with_pod(host)
    site.node.delete("u1")
    assert site.node.is_unmounted("u1")
    assert host.mounts.below(host.paths.pods) == ()
    assert host.files.names(host.paths.pods) == ()


def a_record_that_names_no_proof_or_a_wrong_one_is_no_harm(host: Host) -> None:
    site = Site.with_pod(host)
    path = records.pod_mount(host.paths.state, "u1", "data")
    for proof in (None, "", "/", "/nowhere/at all"):
        found = json.loads(host.files.read(path, records.LIMIT) or b"{}")
        found.pop("proof")
        host.files.write(path, json.dumps(found if proof is None else {**found, "proof": proof}).encode(), 0o600)
        site.plugin.calls.clear()
        site.restart()
        assert (site.plugin.calls, site.node.is_mounted("web")) == (["mount"], True)


def a_device_s_bind_that_somebody_unmounts_is_made_again(host: Host, image: Path, size: str) -> None:
    node = TestNode(host, plugins_of(LoopDisk()))
    node.sources_ready()
    source = {"loopDisk": {"path": str(image)}}
    node.put_file("storage.yaml", *storage("disk", source=source, size=size, block=True))
    node.apply(pod("web", claim_of("data", "disk"), uid="u1", devices=["data"]))
    assert node.is_mounted("web"), node.warnings()
    (bind,) = [entry.target for entry in host.mounts.below(host.paths.plugins)]
    for again in (node.mounts_changed, partial(restart, node)):
        for lock in host.block.find_loops(bind):
            host.block.detach_loop(lock)
        host.mounts.unmount(bind)
        again()
        assert node.is_mounted("web"), node.warnings()
        assert host.mounts.is_mount_point(bind)
        assert len(host.block.find_loops(bind)) == 1
    node.delete("u1")
    assert host.mounts.below(host.paths.root) == ()


STORIES: tuple[Callable[[Host], None], ...] = (
    unmounted_by_somebody_it_is_mounted_again,
    turned_read_only_it_is_made_writable,
    what_a_driver_made_read_only_by_itself_is_left_as_it_is,
    what_a_driver_made_writable_and_turned_read_only_is_repaired,
    after_a_restart_it_is_proven_and_nothing_is_called,
    what_went_while_nobody_looked_is_mounted_again,
    another_mount_in_its_place_is_no_proof,
    a_driver_that_only_writes_files_is_proven_by_its_directory,
    its_files_and_not_the_directory_around_them_belong_to_the_group,
    it_goes_with_its_pod,
    a_record_that_names_no_proof_or_a_wrong_one_is_no_harm,
)
