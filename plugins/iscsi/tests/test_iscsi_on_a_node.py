"""iscsi in a whole node on a host in memory: restarts, second Pods, portals that come later, the way out."""

import time
from collections.abc import Mapping
from pathlib import Path

from plugins.iscsi.tests.iscsi_site import IQN, Site

from volmgr.plugin import CommandResult
from volmgr.testing.node import FILES, TestNode, plugins_of
from volmgr_iscsi.plugin import Iscsi

PORTALS = ("10.0.0.1", "10.0.0.2")


def manifest(name: str, *portals: str) -> Mapping[str, object]:
    source = {"targetPortal": PORTALS[0], "portals": list(portals), "iqn": IQN, "lun": 0}
    container = {"name": "main", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"containers": [container], "volumes": [{"name": "data", "iscsi": source}]},
    }


def started(site: Site) -> TestNode:
    node = TestNode(site.host, plugins_of(Iscsi()), sources=("api", FILES))
    node.now = time.time()
    node.sources_ready()
    node.settle()
    return node


def test_a_portal_that_was_silent_is_logged_in_at_a_minute_later() -> None:
    site = Site()
    site.host.storage.multipathd, site.host.storage.paths_of_a_map = True, 1
    site.host.machine.silent.add("10.0.0.2")
    node = started(site)
    node.apply(manifest("web", *PORTALS[1:]))
    node.settle()
    assert node.is_mounted("web")
    assert [len(each.disks) for each in site.host.storage.maps] == [1]
    assert any("is used without portal 10.0.0.2:3260" in text for text in node.warnings())
    site.host.machine.silent.clear()
    node.advance(61)
    node.settle()
    assert [len(each.disks) for each in site.host.storage.maps] == [2]
    site.commands()
    node.advance(1000)
    node.settle()
    assert site.commands() == []  # all is well: nobody asks again
    node.delete("uid-web")
    node.settle()
    assert site.is_clean


def test_two_pods_share_a_lun_over_a_killed_daemon_and_the_last_one_gives_it_back() -> None:
    site = Site()
    node = started(site)
    node.apply(manifest("first"))
    node.settle()
    node.start()
    node.sources_ready()
    node.apply(manifest("second"))
    node.settle()
    assert node.is_mounted("first")
    assert node.is_mounted("second")
    assert len(site.initiator.sessions) == 1
    node.delete("uid-first")
    node.settle()
    assert len(site.initiator.sessions) == 1
    node.delete("uid-second")
    node.settle()
    assert site.is_clean
    assert site.host.table == {}


def test_a_disk_that_takes_the_name_of_one_that_went_keeps_no_volume_on_the_node() -> None:
    site = Site()
    node = started(site)
    node.apply(manifest("web"))
    node.settle()
    assert node.is_mounted("web")

    def iscsiadm(argv: tuple[str, ...], stdin: bytes) -> CommandResult:
        if "--logout" in argv:
            site.host.storage.plug((9, 0, 0, 0), "36001405ff")
            site.host.scsi.scan(9)
            site.host.busy[Path("/dev/sdb")] = ("another volume",)
        return site.initiator.program(argv, stdin)

    site.host.programs["iscsiadm"] = iscsiadm
    node.delete("uid-web")
    node.settle()
    assert [disk.name for disk in site.host.storage.known] == ["sdb"]
    assert site.host.files.names(site.host.paths.state / "volumes") == (), node.warnings()


def test_what_a_dead_node_left_is_given_back_although_nobody_wants_it() -> None:
    site = Site()
    node = started(site)
    node.apply(manifest("web"))
    node.settle()
    for name in ("mounts", "volumes", "pods"):
        records = site.host.paths.state / name
        if site.host.files.info(records) is not None:
            site.host.files.discard(records)
    node.start()
    node.sources_ready()
    node.settle()
    assert site.is_clean
    assert site.host.table == {}


def test_a_lun_as_a_device_is_given_back_after_a_killed_daemon() -> None:
    site = Site()
    node = started(site)
    mode = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "storageClassName": ""}
    size = {"storage": "16Mi"}
    source = {"targetPortal": PORTALS[0], "iqn": IQN, "lun": 0}
    volume = {"metadata": {"name": "disk"}, "spec": {**mode, "capacity": size, "iscsi": source}}
    claim = {"metadata": {"name": "disk"}, "spec": {**mode, "volumeName": "disk", "resources": {"requests": size}}}
    container = {"name": "main", "volumeDevices": [{"name": "data", "devicePath": "/dev/disk"}]}
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "database", "uid": "uid-database"},
        "spec": {"containers": [container], "volumes": [data]},
    }
    node.put_file(
        "disk.yaml",
        {"apiVersion": "v1", "kind": "PersistentVolume", **volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim},
    )
    node.apply(pod)
    node.settle()
    assert node.is_mounted("database"), node.warnings()
    node.start()
    node.sources_ready()
    node.settle()
    assert node.is_mounted("database")
    node.remove_file("disk.yaml")
    node.advance(5)
    node.delete("uid-database")
    node.settle()
    assert site.is_clean, node.warnings()
