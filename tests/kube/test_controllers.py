"""Disks that the real controllers attach and detach: binder, attach-detach controller, csi-attacher, and the node."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.kube.client import Document
from tests.kube.cluster import MANAGED_ATTACHMENT, Cluster
from tests.kube.drivers import LoopCsi
from tests.kube.kube_node import KubeNode, NodeIdentity
from tests.kube.loop_type.disks import ATTACHED, SLOW, UNATTACHED, Disk, Disks, history, refused, running_disks, settle
from volmgr.kube.resources import ATTACHMENTS, CLAIMS, PODS


@pytest.fixture(scope="module")
def disks(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disks]:
    with running_disks(cluster, "node-of-disks", tmp_path_factory.mktemp("disks")) as disks:
        yield disks


def in_use(node: Document) -> list[str]:
    """Give what a Node says."""
    return list(node["status"].get("volumesInUse") or [])


@contextmanager
def away(disks: Disks) -> Generator[None]:
    """Let the API server be away for the node; the controllers have it."""
    disks.proxy.refuse()
    disks.proxy.cut()
    yield
    disks.proxy.resume()


def test_a_disk_is_bound_attached_mounted_unmounted_and_only_then_detached(disks: Disks, namespace: str) -> None:
    disk, key = disks.add(namespace), f"{namespace}/web"
    since = disks.admin.get(disks.path)["metadata"]["resourceVersion"]
    place = disks.place(disk, disks.mounted(disk))
    assert disks.admin.get(CLAIMS.path(namespace, disk.handle))["status"]["phase"] == "Bound"
    assert disks.in_use() == [disk.unique]
    assert disks.driver.attached_to(disk.handle) == disks.name
    assert str(place) in disks.node.mount_ids()
    (place / "marker").write_text("kept")

    disks.delete(disk)
    disks.node.wait(key, "unmounted")
    disks.until_detached(disk)
    assert disks.in_use() == []

    node = [(at, in_use(said)) for at, _, said in history(disks.admin, disks.path, since)]
    reported = next(at for at, used in node if disk.unique in used)
    taken_back = next(at for at, used in node if at > reported and disk.unique not in used)
    attachment = history(disks.admin, disk.attachment, since)
    made, detaching = (
        attachment[0][0],
        next(at for at, _, said in attachment if "deletionTimestamp" in said["metadata"]),
    )
    assert made < taken_back < detaching <= attachment[-1][0]

    again = disks.place(disk, disks.mounted(disk, "again"))
    assert (again / "marker").read_text() == "kept"
    disks.delete(disk, "again")
    disks.until_detached(disk)


def test_nothing_is_mounted_before_the_status_of_the_node_says_that_it_is_in_use(disks: Disks, namespace: str) -> None:
    disk, key = disks.add(namespace), f"{namespace}/web"
    with refused(disks, "nodes/status"):
        place = disks.place(disk, disks.run(disk))
        disks.admin.until(disk.attachment, lambda found: bool(found.get("status", {}).get("attached")))
        disks.node.until_why(key, "waits until the node status reports the volume in use")
        assert disks.loops(disk) == []
        assert not place.exists()
    disks.node.wait(key)
    assert str(place) in disks.node.mount_ids()


def test_a_disk_stays_attached_until_its_mount_is_really_gone(disks: Disks, namespace: str) -> None:
    disk, key = disks.add(namespace), f"{namespace}/web"
    place = disks.place(disk, disks.mounted(disk))
    with (place / "busy").open("w"):
        disks.delete(disk)
        disks.node.until_why(key, "it is in use; held by")
        other = disks.add(namespace, "other")
        disks.mounted(other, "later")  # for which the controllers have looked at the node once more
        assert disk.unique in disks.in_use()
        attachment = disks.attachment(disk)
        assert attachment is not None
        assert "deletionTimestamp" not in attachment["metadata"]
    disks.node.wait(key, "unmounted")
    disks.until_detached(disk)


def test_two_pods_share_a_disk_until_the_last_one_has_gone(disks: Disks, namespace: str) -> None:
    disk = disks.add(namespace)
    first, second = (disks.place(disk, disks.mounted(disk, name)) for name in ("first", "second"))
    (first / "marker").write_text("shared")
    assert (second / "marker").read_text() == "shared"
    disks.delete(disk, "first")
    disks.node.wait(f"{namespace}/first", "unmounted")
    assert disks.in_use() == [disk.unique]
    assert str(second) in disks.node.mount_ids()
    disks.delete(disk, "second")
    disks.until_detached(disk)


MAKING = [f"{when} {what}" for what in ("wait_for_attach", "mount_device", "mount") for when in ("before", "after")]
UNMAKING = [f"{when} {what}" for what in ("unmount", "unmount_device") for when in ("before", "after")]


def test_a_daemon_that_is_killed_between_any_two_steps_goes_on_where_it_was(disks: Disks, namespace: str) -> None:
    disk, key = disks.add(namespace), f"{namespace}/web"

    def killed_at_each(moments: list[str]) -> None:
        for moment in moments:
            if moment != moments[0]:
                disks.restart_to_die_at(moment)
            disks.until_dead()
            assert disks.attachment(disk) is not None, moment
            assert disks.in_use() == [disk.unique], moment
        disks.node.start()

    disks.die_at(MAKING[0])
    place = disks.place(disk, disks.run(disk))
    killed_at_each(MAKING)
    disks.node.wait(key)
    assert len(disks.loops(disk)) == 1
    (place / "marker").write_text("kept")

    ids = disks.node.mount_ids()
    disks.node.kill()
    disks.node.start()
    disks.node.wait(key)
    assert disks.node.mount_ids() == ids
    assert disks.in_use() == [disk.unique]

    disks.die_at(UNMAKING[0])
    disks.delete(disk)
    killed_at_each(UNMAKING)
    disks.node.wait(key, "unmounted")
    disks.until_detached(disk)
    assert disks.in_use() == []


def test_an_api_server_that_is_away_in_the_middle_delays_and_takes_nothing_away(disks: Disks, namespace: str) -> None:
    disk, key = disks.add(namespace), f"{namespace}/web"
    with refused(disks, "nodes/status"):
        place = disks.place(disk, disks.run(disk))
        disks.node.until_why(key, "waits until the node status reports the volume in use")
        with away(disks):
            disks.admin.until(disk.attachment, lambda found: bool(found.get("status", {}).get("attached")))
            disks.node.until_why(key, "waits until the node status reports the volume in use")
    disks.node.wait(key)

    with away(disks):
        disks.delete(disk)
        other = disks.add(namespace, "other")
        disks.run(other, "later")
        disks.admin.until(other.attachment, lambda found: bool(found.get("status", {}).get("attached")))
        assert str(place) in disks.node.mount_ids()
        assert disks.in_use() == [disk.unique]
        assert disks.attachment(disk) is not None
    disks.node.wait(key, "unmounted")
    disks.node.wait(f"{namespace}/later")
    disks.until_detached(disk)


def test_a_node_without_the_annotation_is_named_and_gets_it(disks: Disks, namespace: str) -> None:
    disk, key = disks.add(namespace), f"{namespace}/web"
    with refused(disks, "nodes", "nodes/status"):
        disks.admin.patch(disks.path, {"metadata": {"annotations": {MANAGED_ATTACHMENT: None}}})
        place = disks.place(disk, disks.run(disk))
        disks.node.until_why(key, f'Node {disks.name} has no annotation {MANAGED_ATTACHMENT}: "true"')
    disks.admin.until(disks.path, lambda node: node["metadata"]["annotations"].get(MANAGED_ATTACHMENT) == "true")

    def is_attached_after_an_event() -> bool:
        """Change the Pod: by itself the controller looks at Pods that it passed over every 3 minutes only."""
        label = str(disks.admin.get(PODS.path(namespace, "web"))["metadata"]["resourceVersion"])
        disks.admin.patch(PODS.path(namespace, "web"), {"metadata": {"labels": {"look": label}}})
        return disks.attachment(disk) is not None

    eventually(is_attached_after_an_event, "the disk is attached")
    disks.node.wait(key)
    assert str(place) in disks.node.mount_ids()


def test_what_keeps_a_controller_from_attaching_is_said_until_it_has(disks: Disks, namespace: str) -> None:
    disk, key = disks.add(namespace, image=False), f"{namespace}/web"
    disks.run(disk)
    disks.node.until_why(key, "failed to attach it", f'no volume "{disk.handle}"', "not yet in node's status")
    disks.driver.add_volume(disk.handle)
    disks.node.wait(key)


def test_a_node_that_has_no_room_for_one_more_is_named(disks: Disks, namespace: str) -> None:
    disk, key = disks.add(namespace, driver=SLOW), f"{namespace}/web"
    disks.run(disk)
    disks.admin.until(disk.attachment, lambda _: True)
    error = {"time": "2026-01-01T00:00:00Z", "message": "16 of 16", "errorCode": 8}
    disks.admin.patch(f"{disk.attachment}/status", {"status": {"attached": False, "attachError": error}})
    disks.node.until_why(key, "VolumeAttachLimitExceeded", "16 of 16")
    disks.delete(disk)
    disks.node.wait(key, "unmounted")


def test_a_driver_that_needs_no_attaching_waits_for_no_controller(disks: Disks, namespace: str) -> None:
    disk = disks.add(namespace, driver=UNATTACHED)
    place = disks.place(disk, disks.mounted(disk))
    assert str(place) in disks.node.mount_ids()
    assert disks.attachment(disk) is None
    assert disk.unique not in disks.in_use()
    disks.delete(disk)
    eventually(lambda: disks.loops(disk) == [], "the node has given it back")


def test_a_disk_for_one_pod_goes_to_the_next_when_that_has_left(disks: Disks, namespace: str) -> None:
    disk = disks.add(namespace, accessModes=["ReadWriteOncePod"])
    disks.mounted(disk, "first")
    second = disks.place(disk, disks.run(disk, "second"))
    disks.node.until_why(f"{namespace}/second", "ReadWriteOncePod access mode and is already in use by another pod")
    disks.delete(disk, "first")
    disks.node.wait(f"{namespace}/second")
    assert str(second) in disks.node.mount_ids()
    assert disks.in_use() == [disk.unique]


def test_a_disk_may_be_a_device(disks: Disks, namespace: str) -> None:
    disk: Disk = disks.add(namespace, volumeMode="Block")
    container: dict[str, Any] = {"name": "main", "image": "none"}
    container["volumeDevices"] = [{"name": "v", "devicePath": "/dev/disk"}]
    made = disks.run(disk, containers=[container])
    disks.node.wait(f"{namespace}/web")
    link = disks.node.root / "pods" / made["metadata"]["uid"] / "volumeDevices/kubernetes.io~csi" / disk.handle
    assert str(link.readlink()) in disks.loops(disk)
    link.write_bytes(b"raw")
    disks.delete(disk)
    disks.node.wait(f"{namespace}/web", "unmounted")
    disks.until_detached(disk)
    assert disks.image(disk).read_bytes()[:3] == b"raw"


def test_where_the_node_attaches_no_controller_does_and_the_annotation_goes(
    disks: Disks, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    identity = NodeIdentity.added_to(cluster, f"{namespace}-alone", managed_attachment=False)
    config = tmp_path / "config"
    config.write_text(json.dumps({"controller_attach": False}))
    with KubeNode(identity, tmp_path, "--config", str(config), python=disks.node.python) as node:
        alone = Disks(cluster, disks.driver, node, disks.proxy)
        disk, key = alone.add(namespace), f"{namespace}/web"
        place = alone.place(disk, alone.mounted(disk))
        assert str(place) in node.mount_ids()
        assert len(alone.loops(disk)) == 1
        assert alone.driver.attached_to(disk.handle) == ""
        assert alone.attachment(disk) is None
        alone.delete(disk)
        node.wait(key, "unmounted")
        eventually(lambda: alone.loops(disk) == [], "the disk is detached")
        # Last, since a controller that has once seen it attaches until it is started again.
        cluster.admin.patch(alone.path, {"metadata": {"annotations": {MANAGED_ATTACHMENT: "true"}}})
        cluster.admin.until(alone.path, lambda node: MANAGED_ATTACHMENT not in node["metadata"].get("annotations", {}))
    cluster.admin.delete(alone.path)
    settle(alone)


def test_an_api_server_that_is_started_anew_before_and_after_a_disk_is_attached_changes_nothing(
    lone_cluster: Cluster, disks: Disks, tmp_path: Path
) -> None:
    identity, admin = NodeIdentity.added_to(lone_cluster, "node-of-restarts"), lone_cluster.admin
    lone_cluster.add_namespace("restarts")
    top = tmp_path / "driver"
    driver = LoopCsi(ATTACHED, identity.name, top, top / "registration.sock")
    driver.volumes.mkdir(parents=True)
    admin.create(driver.driver_object())
    with KubeNode(identity, tmp_path, python=disks.node.python) as node:
        alone = Disks(lone_cluster, driver, node, disks.proxy)
        disk, key = alone.add("restarts"), "restarts/web"
        admin.patch(CLAIMS.path("restarts", disk.handle), {"spec": {"volumeName": disk.handle}})
        admin.patch(CLAIMS.path("restarts", disk.handle, "status"), {"status": {"phase": "Bound"}})
        place = alone.place(disk, alone.run(disk))
        admin.until(alone.path, lambda node: in_use(node) == [disk.unique])
        lone_cluster.restart_api_server()
        attach_as_a_controller(alone, disk)
        node.wait(key)
        ids = node.mount_ids()
        assert str(place) in ids

        lone_cluster.restart_api_server()
        assert node.mount_ids() == ids
        alone.delete(disk)
        admin.until(alone.path, lambda node: in_use(node) == [])
        assert node.mount_ids() == {}
        assert alone.loops(disk) == []
    admin.delete(alone.path)


def attach_as_a_controller(disks: Disks, disk: Disk) -> None:
    """Do as the controllers, which are not in this cluster: they would be away for a minute after a restart."""
    source = {"persistentVolumeName": disk.handle}
    disks.admin.create(
        {
            "apiVersion": ATTACHMENTS.api_version,
            "kind": ATTACHMENTS.kind,
            "metadata": {"name": disk.attachment.rpartition("/")[2]},
            "spec": {"attacher": disk.driver, "nodeName": disk.node, "source": source},
        }
    )
    status = {"attached": True, "attachmentMetadata": {"image": str(disks.image(disk))}}
    disks.admin.patch(f"{disk.attachment}/status", {"status": status})
    listed = {"status": {"volumesAttached": [{"name": disk.unique, "devicePath": ""}]}}
    disks.admin.patch(f"{disks.path}/status", listed)
