"""In-tree volumes, which both serve as csi, are laid out alike and taken over both ways, whatever their names are."""

from __future__ import annotations

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

DRIVER = "disk.csi.azure.com"
"""A driver whose volumes are named by paths."""
DISKS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks"
DEFAULTS = {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False}
"""What an API server adds; files pass none."""
SCAFFOLD = {f"plugins/{NAME}/{DRIVER}", f"plugins/{NAME}"}
"""Directories that kubelet leaves, empty, when no volume is left."""


def azure_disk(name: str) -> dict[str, Any]:
    return {"azureDisk": {"diskName": name, "diskURI": f"{DISKS}/{name}", "kind": "Managed", **DEFAULTS}}


class MigratedSite(DriverSite):
    """A site whose two Pods have a claimed disk in common, and one each that they declare."""

    def __init__(self, top: Path, program: Path, driver: ProcessDriver) -> None:
        """Make volumes and manifests; only the driver runs."""
        super().__init__(top, program, driver, SCAFFOLD)
        for name in ("common", "shop", "guest"):
            driver.add_volume(f"{DISKS}/{name}")
        self.volmgr.put("disk.json", *_bound("common"))

    def put_pods(self, **_said: object) -> None:
        """Let both Pods be wanted."""
        claim = {"persistentVolumeClaim": {"claimName": "common"}}
        for name, uid in (("shop", objects.SHOP), ("guest", objects.GUEST)):
            self.volmgr.put(f"{name}.json", objects.pod(name, uid, {"common": claim, "own": azure_disk(name)}))


def _bound(name: str) -> tuple[objects.Object, objects.Object]:
    """Give a PersistentVolume of the in-tree type and its claim, bound as controllers leave them."""
    volume, claim = csi.bound(DRIVER, name, **azure_disk(name))
    del volume["spec"]["csi"], claim["spec"]["azureDisk"]
    return objects.bound(volume, claim)


@pytest.fixture
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessDriver]:
    with running_fault_process(tmp_path_factory.mktemp("d"), name=DRIVER, node_id=objects.NODE) as driver:
        yield driver


@pytest.fixture
def migrated(tmp_path: Path, program: Path, driver: ProcessDriver) -> Iterator[MigratedSite]:
    site = MigratedSite(tmp_path, program, driver)
    try:
        yield site
    finally:
        site.close()


def test_both_lay_them_out_and_ask_the_driver_the_same(migrated: MigratedSite) -> None:
    site = migrated
    site.put_pods()
    site.kubelet_mounts()
    site.kill_kubelet()
    kubelets, asked = (layout(site.root), table(site.root), site.records()), site.asked()
    assert (site.root / "pods" / objects.SHOP / "volumes" / CSI / f"{DISKS}/shop".replace("/", "~")).is_dir()
    site.kubelet_clears()
    assert site.remains() == {}
    site.remove_root()
    before = len(site.driver.calls())
    site.volmgr_mounts()
    assert len(site.records()) == 7
    assert differences(site.records(), kubelets[2]) == {}
    assert differences(layout(site.root), kubelets[0]) == KNOWN
    assert differences(table(site.root), kubelets[1]) == {}
    assert site.asked(before) == asked


def test_what_kubelet_has_mounted_stays_and_goes_with_its_pods(migrated: MigratedSite, table: MountTable) -> None:
    site = migrated
    site.put_pods()
    site.kubelet_mounts()
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
    undone = {"NodeUnpublishVolume", "NodeUnstageVolume"}
    assert not undone & {call.method for call in site.driver.calls()[calls:]}
    site.remove_pods()
    for name in site.pods:
        node.volmgr("wait", name, "--for", "unmounted")
    site.until_gone()
    node.stop()


def test_kubelet_goes_on_with_them_and_takes_them_down(migrated: MigratedSite, table: MountTable) -> None:
    site = migrated
    site.put_pods()
    site.volmgr_mounts()
    mounts = site.mounts()
    table.changed()
    site.kubelet_mounts()
    assert not table.changed()
    assert site.mounts() == mounts
    site.kill_kubelet()
    assert site.kubelet_clears() == []
    assert site.remains() == {}
