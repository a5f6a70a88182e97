"""csi on a real kernel: drivers that see other directories, that mount twice, and whose file systems die."""

from __future__ import annotations

import subprocess  # noqa: TID251 - what an administrator does to mounts
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.csi.fault_driver.profile import STAGE
from tests.csi.fault_driver.rules import Rule
from tests.csi.fault_driver.running import ProcessDriver, ThreadDriver, running_fault_driver, running_fault_process
from tests.root.host.fuse import SilentFuse
from volmgr.host import syscalls
from volmgr.plugin import (
    CSIDriver,
    CsiSource,
    DriverInfo,
    Host,
    ObjectMeta,
    OperationError,
    PersistentVolume,
    UncertainError,
)
from volmgr.testing import Sample, Volume, pod
from volmgr.testing.real_host import RealHosts
from volmgr_csi.driver.connection import Connection
from volmgr_csi.driver.drivers import Abilities, Driver, KnownDrivers, drivers_of
from volmgr_csi.settings import CsiSettings
from volmgr_csi.volume import Csi

pytestmark = pytest.mark.root

MS_BIND = 0x1000
PRIVATE = ("unshare", "--mount", "--propagation", "private")
ELSEWHERE = (
    "unshare",
    "--mount",
    "--propagation",
    "unchanged",
    "sh",
    "-ec",
    'mount --rbind "$1" "$2"; mount --make-private "$1"; mount -t tmpfs hidden "$1"; shift 2; exec "$@"',
    "sh",
)
"""Runs a command that sees the node's directory at another path, where mounts propagate, and not at its own."""


@dataclass
class Site:
    """A real host, with a driver that registered there."""

    host: Host
    driver: ThreadDriver | ProcessDriver
    known: KnownDrivers

    def volume(self, handle: str = "disk", name: str = "web") -> Volume:
        """Give a volume of the driver, for a Pod."""
        pv = PersistentVolume(metadata=ObjectMeta(name="data"), type="csi", access_modes=("ReadWriteMany",))
        sample = Sample(
            source=CsiSource(driver=self.driver.name, volume_handle=handle),
            objects=(self.driver_object(),),
            spec={"pv": pv, "access_modes": pv.access_modes},
            pod=pod(name),
        )
        return Volume.of(Csi(), sample)

    def driver_object(self, *, pod_info_on_mount: bool = False) -> CSIDriver:
        """Give the driver's CSIDriver: nobody attaches its volumes."""
        return CSIDriver(
            metadata=ObjectMeta(name=self.driver.name),
            attach_required=False,
            pod_info_on_mount=pod_info_on_mount,
            volume_lifecycle_modes=("Persistent", "Ephemeral"),
        )

    def target(self, volume: Volume) -> Path:
        """Give where a volume is published."""
        return volume.target(self.host) / "mount"


@pytest.fixture
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHosts]:
    with RealHosts(tmp_path_factory.mktemp("h")) as found:
        yield found


def registered(host: Host, driver: ThreadDriver | ProcessDriver) -> Site:
    """Let a driver be registered, as who watches its socket does."""
    known = drivers_of(host)
    info = DriverInfo(name=driver.name, node_id=driver.profile.node_id)
    stages = STAGE in driver.profile.node
    connection = Connection(driver.name, str(driver.socket))
    known.put(Driver(info=info, abilities=Abilities(stage=stages), connection=connection))
    driver.add_volume("disk")
    return Site(host, driver, known)


@contextmanager
def threads(hosts: RealHosts, **profile: Any) -> Generator[Site]:  # noqa: ANN401 - fields
    """Give a site whose driver mounts in the test's own mount namespace."""
    host, top = hosts.fresh()
    with running_fault_driver(top / "driver", **profile) as driver:
        yield registered(host, driver)


@contextmanager
def processes(hosts: RealHosts, within: Sequence[str]) -> Generator[Site]:
    """Give a site whose driver is a process somewhere else; the host's root directory is shared with who wants that."""
    host, top = hosts.fresh()
    root = host.paths.root
    for command in (("mount", "--bind", root, root), ("mount", "--make-rshared", root)):
        subprocess.run(command, check=True)
    (top / "seen").mkdir()
    inside = [*within, str(root), str(top / "seen")] if within == ELSEWHERE else within
    with running_fault_process(top / "driver", within=inside, node=()) as driver:
        yield registered(host, driver)


def test_a_driver_whose_mounts_do_not_reach_the_node_is_told_of_propagation_i63(hosts: RealHosts) -> None:
    with processes(hosts, PRIVATE) as site:
        volume = site.volume()
        volume.mount_device(site.host)
        with pytest.raises(UncertainError) as caught:
            volume.mount(site.host)
        assert str(caught.value) == (
            f"csi driver {site.driver.name} has mounted {site.target(volume)} where the node does not see it: give its"
            f" container {site.host.paths.root} with mountPropagation Bidirectional (rshared)"
        )
        volume.unmount(site.host)
        assert not volume.target(site.host).exists()


def test_a_driver_that_sees_other_directories_is_told_so_and_works_with_their_mapping_i63(hosts: RealHosts) -> None:
    with processes(hosts, ELSEWHERE) as site:
        volume = site.volume()
        volume.mount_device(site.host)
        with pytest.raises(UncertainError) as caught:
            volume.mount(site.host)
        assert str(caught.value).startswith(
            f"csi driver {site.driver.name} says that it published {site.target(volume)}, and nothing is there on the"
            f" node: it sees other directories; give it {site.host.paths.root} at the same path,"
        )
        volume.unmount(site.host)
        root = site.host.paths.root
        seen = str(root.parent / "top/seen")
        host = site.host.with_settings(CsiSettings(paths={site.driver.name: {str(root): seen}}))
        assert volume.mount(host).notices == ()
        (site.target(volume) / "file").write_text("of the Pod")
        assert site.driver.calls("NodePublishVolume")[-1].request["targetPath"] == (
            f"{seen}/pods/uid-web/volumes/kubernetes.io~csi/data/mount"
        )
        volume.unmount(host)
        assert not volume.target(host).exists()


def test_a_driver_that_mounts_again_what_is_mounted_is_named_i23(hosts: RealHosts) -> None:
    with threads(hosts, stacks=True) as site:
        volume = site.volume()
        volume.mount_device(site.host)
        assert volume.mount(site.host).notices == ()
        (notice,) = volume.mount(site.host, remount=True).notices
        assert (notice.reason, "mounted" in notice.message) == ("StackedMounts", True)
        volume.unmount(site.host)
        volume.unmount_device(site.host)
        assert site.host.mounts.below(site.host.paths.root) == ()


def test_a_dead_file_system_is_unpublished_and_unstaged_i83(hosts: RealHosts) -> None:
    with threads(hosts) as site:
        volume = site.volume()
        die(site, volume)
        volume.unmount(site.host)
        assert not volume.target(site.host).exists()
        volume.unmount_device(site.host)
        assert site.host.mounts.below(site.host.paths.root) == ()


def die(site: Site, volume: Volume) -> None:
    """Stage and publish a volume whose FUSE server then dies: the node's mount and the Pod's are both of it."""
    volume.mount_device(site.host)
    volume.mount(site.host)
    staged = volume.device_target(site.host)
    assert staged is not None
    target = site.target(volume)
    for path in (target, staged):
        site.host.mounts.unmount(path)
    fuse = SilentFuse(staged)
    syscalls.mount(str(staged), str(target), "", MS_BIND)
    fuse.die()
    for path in (staged, target):
        with pytest.raises(OSError, match="not connected"):
            (path / "file").stat()


def test_a_new_pod_of_a_dead_file_system_has_it_staged_anew_i83(hosts: RealHosts) -> None:
    with threads(hosts) as site:
        volume = site.volume()
        die(site, volume)
        other = replace(volume, pod=pod("other"))
        assert other.mount(site.host).notices == ()
        (site.target(other) / "file").write_text("of the Pod")
        assert [call.method for call in site.driver.calls()] == [
            "NodeStageVolume",
            "NodePublishVolume",
            "NodeStageVolume",
            "NodePublishVolume",
        ]
        for each in (volume, other):
            each.unmount(site.host)
        volume.unmount_device(site.host)
        assert site.host.mounts.below(site.host.paths.root) == ()


def test_files_of_a_driver_that_mounts_nothing_are_its_volume_i15(hosts: RealHosts) -> None:
    with threads(hosts, inline="files") as site:
        inline = CsiSource(driver=site.driver.name)
        volume = Volume.of(Csi(), Sample(source=inline, objects=(site.driver_object(pod_info_on_mount=True),)))
        assert volume.mount(site.host).notices == ()
        fresh = replace(volume, plugin=Csi())
        assert fresh.reconstruct(site.host).spec.driver == site.driver.name
        fresh.unmount(site.host)
        assert len(site.driver.calls("NodeUnpublishVolume")) == 1
        assert not volume.target(site.host).exists()


def test_a_link_in_the_place_of_a_mount_leads_a_driver_nowhere(hosts: RealHosts, tmp_path: Path) -> None:
    with threads(hosts) as site:
        volume = site.volume()
        volume.mount_device(site.host)
        for remount in (False, True):
            volume.mount(site.host, remount=remount)
            site.host.mounts.unmount(site.target(volume))
            site.target(volume).rmdir()
            site.target(volume).symlink_to(tmp_path)
        volume.unmount(site.host)
        volume.unmount_device(site.host)
        assert tmp_path.is_dir()
        assert site.host.mounts.below(tmp_path) == site.host.mounts.below(site.host.paths.root) == ()
        assert not volume.target(site.host).exists()


def test_a_link_in_the_place_of_a_staged_volume_is_removed_before_its_driver_unmounts_where_it_leads(
    hosts: RealHosts, tmp_path: Path
) -> None:
    with threads(hosts) as site:
        volume = site.volume()
        volume.mount_device(site.host)
        staged = volume.device_target(site.host)
        assert staged is not None
        site.host.mounts.unmount(staged)
        staged.rmdir()
        staged.symlink_to(tmp_path)
        site.driver.script(Rule(method="NodeUnstageVolume", code="INTERNAL"))
        with pytest.raises(OperationError):
            volume.unmount_device(site.host)
        assert not staged.is_symlink()
        volume.unmount_device(site.host)
        assert not staged.parent.exists()
