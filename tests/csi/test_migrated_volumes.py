"""In-tree volumes on a real daemon: their driver is called with what they became, and kubelet's files say so."""

from __future__ import annotations

import base64
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.csi import objects
from tests.csi.fault_driver.running import ThreadDriver, running_fault_driver
from tests.csi.node import CSI, CsiNode, registry
from tests.root.acceptance.outside import pod

EBS, DISK, SHARE = "ebs.csi.aws.com", "disk.csi.azure.com", "file.csi.azure.com"
URI = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d"
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "azure-storage-account-acme-secret", "namespace": "default"},
    "data": {"azurestorageaccountkey": base64.b64encode(b"key").decode()},
}


@contextmanager
def driver_at(top: Path, name: str) -> Generator[ThreadDriver]:
    """Run a driver that registers with the node below `top`."""
    registration = registry(top) / "driver-reg.sock"
    with running_fault_driver(top / "driver", registration=registration, name=name, controller=()) as driver:
        yield driver


def test_a_disk_of_a_pod_is_staged_and_published_by_its_driver_over_a_kill(top: Path) -> None:
    ebs = {"volumeID": "aws://us-east-1a/vol-1", "fsType": "ext4", "partition": 1}
    with driver_at(top, EBS) as driver, CsiNode(top) as node:
        driver.add_volume("vol-1")
        node.put("driver.json", objects.driver_object(EBS, modes=["Persistent"]))
        node.until_registered(EBS)
        node.put("web.json", pod("web", {"name": "v", "awsElasticBlockStore": ebs}))
        node.wait("web")
        (target,) = node.root.glob(f"pods/uid-web/volumes/{CSI}/*")
        assert target.name == "ebs.csi.aws.com-vol-1"
        (staged,) = driver.calls("NodeStageVolume")
        assert staged.request["volumeId"] == "vol-1"
        assert staged.request["volumeContext"] == {"partition": "1"}
        assert staged.request["volumeCapability"]["mount"] == {"fsType": "ext4"}
        assert staged.request["volumeCapability"]["accessMode"] == {"mode": "SINGLE_NODE_WRITER"}
        (said,) = [data for path, data in node.vol_data().items() if path.startswith("pods/")]
        assert (said["specVolID"], said["driverName"], said["volumeHandle"]) == (target.name, EBS, "vol-1")
        assert said["volumeLifecycleMode"] == "Persistent"
        node.kill()
        node.start()
        node.wait("web")
        assert len(driver.calls("NodeStageVolume", "NodePublishVolume")) == 2
        (node.manifests / "web.json").unlink()
        node.until_clean()
        known = driver.volumes.get("vol-1")
        assert not known.staged
        assert not known.published


def test_a_disk_whose_name_has_slashes_lies_where_kubelet_looks(top: Path) -> None:
    with driver_at(top, DISK) as driver, CsiNode(top) as node:
        driver.add_volume(URI)
        node.put("driver.json", objects.driver_object(DISK, modes=["Persistent"]))
        node.until_registered(DISK)
        disk = {"name": "v", "azureDisk": {"diskName": "d", "diskURI": URI, "kind": "Managed"}}
        node.put("web.json", pod("web", disk))
        node.wait("web")
        place = f"pods/uid-web/volumes/{CSI}/{URI.replace('/', '~')}"
        assert (node.root / place / "mount").is_dir()
        assert node.vol_data()[f"{place}/vol_data.json"]["specVolID"] == URI
        node.kill()
        for record in (node.root / "volmgr/mounts/uid-web").iterdir():
            record.unlink()
        node.start()
        node.wait("web")
        assert len(driver.calls("NodeStageVolume")) == 1
        (node.manifests / "web.json").unlink()
        node.until_clean()


def test_a_share_is_mounted_with_the_secret_of_its_claim_s_namespace(top: Path) -> None:
    share = {"secretName": "azure-storage-account-acme-secret", "shareName": "share"}
    handles = ("#acme#share#pv#default", "#acme#share#own#default")
    with driver_at(top, SHARE) as driver, CsiNode(top) as node:
        for handle in handles:
            driver.add_volume(handle)
        node.put("driver.json", objects.driver_object(SHARE, modes=["Persistent"]))
        node.until_registered(SHARE)
        pv = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "azureFile": share},
        }
        checked = node.put("storage.json", pv, objects.claim("c", accessModes=["ReadWriteMany"], volumeName="pv"))
        assert "storage.json: ok" in node.volmgr("check", str(checked)).stdout
        node.put("web.json", pod("web", objects.claimed("c"), {"name": "own", "azureFile": share}))
        node.until_why("web", "Secret default/azure-storage-account-acme-secret")
        node.put("secret.json", SECRET)
        node.wait("web")
        told = {call.request["volumeId"]: call.request["secrets"] for call in driver.calls("NodeStageVolume")}
        assert told == {handle: {"azurestorageaccountkey": "key"} for handle in handles}


def test_without_the_driver_a_volume_waits_for_it_by_name(top: Path) -> None:
    with CsiNode(top) as node:
        node.put("driver.json", objects.driver_object(EBS, modes=["Persistent"]))
        node.put("web.json", pod("web", {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}))
        node.until_why("web", f"driver name {EBS} not found in the list of registered CSI drivers")
        with driver_at(top, EBS) as driver:
            driver.add_volume("vol-1")
            node.wait("web")
            (node.manifests / "web.json").unlink()
            node.until_clean()
