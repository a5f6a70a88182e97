"""Volumes of a CSI driver, Block ones included, are laid out alike, and taken over both ways; the driver lives on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.csi import objects as csi
from tests.csi.fault_driver.running import ProcessDriver, running_fault_process
from tests.csi.node import CSI
from tests.eventually import eventually
from tests.takeover import objects
from tests.takeover.driver_site import KNOWN, DriverSite
from tests.takeover.site import MountTable
from tests.takeover.test_same_layout import differences, layout, table
from volmgr_csi.settings import NAME

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

DRIVER = "bench.csi.local"
"""The driver's name in `tests/bench/kubelet/csidrv.go`."""
KEPT = (DRIVER, "volumeDevices", "volumeDevices/staging", "volumeDevices/publish")
SCAFFOLD = {f"plugins/{NAME}/{name}" for name in KEPT}
"""Directories that kubelet leaves, empty, when no volume is left, and volmgrd where it did not make them."""


class CsiSite(DriverSite):
    """A site whose two Pods have a disk and a device of a driver in common, and an inline volume each."""

    def __init__(self, top: Path, program: Path, driver: ProcessDriver) -> None:
        """Make volumes and manifests; only the driver runs."""
        super().__init__(top, program, driver, SCAFFOLD)
        driver.add_volume("csi-disk")
        driver.add_volume("csi-raw", block=True)
        self.volmgr.put("csi.json", *_bound("csi-disk", csi={"fsType": "ext4"}), *_bound("csi-raw", volumeMode="Block"))

    def put_pods(self, **_said: object) -> None:
        """Let both Pods be wanted."""
        scratch = {"csi": {"driver": DRIVER, "volumeAttributes": {"size": "1048576"}}}
        for name, uid in (("shop", objects.SHOP), ("guest", objects.GUEST)):
            claims = {each: {"persistentVolumeClaim": {"claimName": each}} for each in ("csi-disk", "csi-raw")}
            self.volmgr.put(
                f"{name}.json", objects.pod(name, uid, {**claims, "scratch": scratch}, devices=("csi-raw",))
            )

    def published(self, name: str, uid: str = objects.SHOP) -> Path:
        """Give where a volume is published for a Pod."""
        return self.path("csi", name, uid) / "mount"

    def raw(self, uid: str = objects.SHOP) -> Path:
        """Give the link to the device of a Pod."""
        return self.root / "pods" / uid / "volumeDevices" / CSI / "pv-csi-raw"

    def mark_csi(self) -> None:
        """Write into every volume, as the Pod `shop` would."""
        (self.published("pv-csi-disk") / "marker").write_text("disk")
        (self.published("scratch") / "marker").write_text("scratch")
        self.raw().write_bytes(b"marked")

    def check_csi(self, uid: str = objects.SHOP) -> None:
        """Find what mark_csi() has written, as a Pod would."""
        assert (self.published("pv-csi-disk", uid) / "marker").read_text() == "disk"
        with self.raw(uid).open("rb") as device:
            assert device.read(6) == b"marked"

    def lose_pods(self) -> None:
        """Let everything of the Pods be gone but what is staged, as a crash between the two calls leaves it."""
        for lock in self.locks():
            subprocess.run(["losetup", "--detach", lock], check=True)
        for path in sorted(self.mounts(), reverse=True):
            if not path.endswith("/globalmount"):
                subprocess.run(["umount", path], check=True)
        for volume in self.driver.volumes.all():
            volume.published = {}
            self.driver.volumes.keep(volume)
        for uid in (objects.SHOP, objects.GUEST):
            shutil.rmtree(self.root / "pods" / uid)
        devices = self.root / "plugins" / NAME / "volumeDevices"
        for file in (*devices.glob("publish/*/*"), *devices.glob("*/dev/*")):
            file.unlink()


def _bound(name: str, **more: Any) -> tuple[objects.Object, objects.Object]:  # noqa: ANN401 - YAML
    """Give a PersistentVolume of the driver and its claim, bound as controllers leave them."""
    volume, claim = csi.bound(DRIVER, name, **more)
    return objects.bound(volume, claim)


@pytest.fixture
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessDriver]:
    with running_fault_process(tmp_path_factory.mktemp("d"), name=DRIVER, node_id=objects.NODE) as driver:
        yield driver


@pytest.fixture
def csi_site(tmp_path: Path, program: Path, driver: ProcessDriver) -> Iterator[CsiSite]:
    site = CsiSite(tmp_path, program, driver)
    try:
        yield site
    finally:
        site.close()


def test_both_lay_out_a_driver_s_volumes_the_same(csi_site: CsiSite) -> None:
    site = csi_site
    site.put_pods()
    site.kubelet_mounts()
    site.kill_kubelet()
    kubelets = layout(site.root), table(site.root), site.records()
    asked = site.asked()
    site.kubelet_clears()
    assert site.remains() == {}
    site.remove_root()
    before = len(site.driver.calls())
    site.volmgr_mounts()
    ours = layout(site.root), table(site.root), site.records()
    assert len(ours[2]) == 6  # two Pods' disks and inline volumes, the disk's and the device's own
    assert differences(ours[2], kubelets[2]) == {}
    assert differences(ours[0], kubelets[0]) == KNOWN
    assert differences(ours[1], kubelets[1]) == {}
    assert site.asked(before) == asked


def test_what_kubelet_has_mounted_of_a_driver_stays_and_goes_with_its_pods(
    csi_site: CsiSite, table: MountTable
) -> None:
    site = csi_site
    site.put_pods()
    site.kubelet_mounts()
    site.mark_csi()
    site.kill_kubelet()
    mounts, calls = site.mounts(), len(site.driver.calls())
    table.changed()
    node = site.volmgr
    node.start(ready=False)
    eventually(lambda: set(node.uids()) == {objects.SHOP, objects.GUEST})
    node.volmgr("adopt")
    for name in site.pods:
        node.wait(name)
    assert not table.changed(), node.log_text()
    assert site.mounts() == mounts
    site.check_csi()
    site.check_csi(objects.GUEST)
    undone = {"NodeUnpublishVolume", "NodeUnstageVolume"}
    assert not undone & {call.method for call in site.driver.calls()[calls:]}
    site.remove_pods()
    for name in site.pods:
        node.volmgr("wait", name, "--for", "unmounted")
    site.until_gone()
    node.stop()


def test_kubelet_goes_on_with_a_driver_s_volumes_and_takes_them_down(csi_site: CsiSite, table: MountTable) -> None:
    site = csi_site
    site.put_pods()
    site.volmgr_mounts()
    site.mark_csi()
    mounts = site.mounts()
    table.changed()
    site.kubelet_mounts()
    assert not table.changed()
    assert site.mounts() == mounts
    site.check_csi()
    site.kill_kubelet()
    assert site.kubelet_clears() == []
    assert site.remains() == {}


def test_what_is_staged_for_no_pod_is_unstaged_by_volmgrd_and_kept_for_ever_by_kubelet(csi_site: CsiSite) -> None:
    site = csi_site
    site.put_pods()
    site.kubelet_mounts()
    site.kill_kubelet()
    site.remove_pods()
    site.lose_pods()
    mounts = site.mounts()
    assert len(mounts) == 1
    site.kubelet_clears()
    assert site.mounts() == mounts  # what kubelet does not find by a Pod's directory, it does not know
    assert [len(volume.staged) for volume in site.driver.volumes.all()] == [1, 1]
    node = site.volmgr
    node.start(ready=False)
    node.volmgr("adopt")
    site.until_gone()
    node.stop()
