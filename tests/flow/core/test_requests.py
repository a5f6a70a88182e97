"""What an operation is asked with, and what is on disk before it begins; what a Pod's volumes resolve to."""

from __future__ import annotations

import pytest

from tests.flow.core.probes import Disk, Plain, ProbeSource, Script, claim, claim_of, config_map, needs, plain, storage
from volmgr.config import Config
from volmgr.errors import OperationError
from volmgr.journal import Journal
from volmgr.model.volume import Presence
from volmgr.plugin import Attach, Attached, Host, Mount, Mounted
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

DISK = "example.com/disk/d1"


@pytest.fixture
def disks(node: TestNode) -> TestNode:
    """A node with a PersistentVolume."""
    node.put_file("storage.yaml", *storage("d1"))
    return node


def test_a_read_only_claim_adds_ro_to_the_options(node: TestNode, disk_script: Script) -> None:
    node.apply(pod("web", claim_of("data", "d1", read_only=True), uid="u1"))
    node.put_file("storage.yaml", *storage("d1"))
    assert disk_script.last("mount").read_only
    assert disk_script.last("mount").options == ("ro",)
    assert disk_script.last("mount_device").options == ("ro",)


@pytest.mark.parametrize(
    ("whole", "containers", "expected"),
    [
        (None, [None, None], None),
        (7, [None, None], 7),
        (7, [8, 8], 8),
        (7, [8, None], None),
        (None, [8, None], None),
        (None, [8, 8], 8),
        (0, [None, None], 0),
    ],
)
def test_the_user_is_the_one_that_all_containers_run_as(
    node: TestNode, plain_script: Script, whole: int | None, containers: list[int | None], expected: int | None
) -> None:
    manifest = pod("web", plain("data"), uid="u1")
    manifest["spec"]["containers"].append({"name": "second"})
    for container, user in zip(manifest["spec"]["containers"], containers, strict=True):
        if user is not None:
            container["securityContext"] = {"runAsUser": user}
    if whole is not None:
        manifest["spec"]["securityContext"] = {"runAsUser": whole}
    node.apply(manifest)
    assert plain_script.last("mount").fs_user == expected


def test_the_group_of_the_first_waiting_pod_goes_with_the_device(disks: TestNode, disk_script: Script) -> None:
    disk_script.fail("mount_device", OperationError("not yet"))
    disks.apply(pod("a", claim_of("data", "d1"), uid="ua", securityContext={"fsGroup": 11}))
    disks.apply(pod("b", claim_of("data", "d1"), uid="ub", securityContext={"fsGroup": 12}))
    disks.hold("ua", 4711)
    disks.delete("ua")
    disks.advance(0.5)
    assert [
        request.fs_group
        for call, request in zip(disk_script.calls, disk_script.requests, strict=True)
        if call == "mount_device"
    ] == [11, 12]
    assert disk_script.last("mount").fs_group == 12


def test_the_core_gives_a_volume_s_files_to_the_group(node: TestNode) -> None:
    node.apply(pod("web", plain("data"), uid="u1", securityContext={"fsGroup": 1234}))
    info = node.host.files.info(node.host.paths.volume("u1", Plain.name, "data"))
    assert info is not None
    assert info.gid == 1234
    assert info.mode & 0o7777 == 0o2770


def test_objects_and_the_deadline_are_handed_over(node: TestNode, plain_script: Script) -> None:
    plain_script.references = needs("settings")
    node.put_file("settings.yaml", config_map("settings", key="value"))
    node.apply(pod("web", plain("data"), uid="u1"))
    request = plain_script.last("mount")
    assert [str(ref) for ref in request.objects] == ["ConfigMap default/settings"]
    assert request.deadline == node.host.clock() + Config().operation_deadline
    assert not request.cancelled()


class Witness(Plain):
    """Looks at the records when it is asked to mount."""

    name = "example.com/witness"

    def mount(self, request: Mount[ProbeSource], host: Host) -> Mounted:
        record = Journal(host).read_mount(request.pod.uid, request.spec.name)
        self._script.calls.append(record.step if record else "no record")
        return Mounted()


def test_a_mount_is_recorded_before_it_begins_and_when_it_is_done() -> None:
    script = Script()
    node = TestNode(FakeHost(), plugins_of(Witness(script)))
    node.sources_ready()
    node.apply(pod("web", plain("data"), uid="u1"))
    assert script.calls == ["mounting"]
    record = Journal(node.host).read_mount("u1", "data")
    assert record is not None
    assert (record.step, record.plugin, record.spec.source) == ("mounted", "example.com/witness", {"disk": "data"})


class WitnessDisk(Disk):
    """Looks at the records when it is asked to attach."""

    name = "example.com/witness-disk"

    def attach(self, request: Attach[ProbeSource], host: Host) -> Attached:
        record = Journal(host).read_volume(request.volume)
        self._script.calls.append(f"recorded as {record.attached.value}" if record else "no record")
        return super().attach(request, host)


def test_an_attachment_is_recorded_as_uncertain_before_it_begins(disk_script: Script) -> None:
    node = TestNode(FakeHost(), plugins_of(WitnessDisk(disk_script)))
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert disk_script.calls[0] == "recorded as uncertain"
    record = Journal(node.host).read_volume("example.com/witness-disk/d1")
    assert record is not None
    assert (record.attached, record.device, record.device_path) == (Presence.YES, Presence.YES, "fake/device/path")


def test_a_full_disk_before_a_mount_starts_nothing_and_is_tried_again(node: TestNode, plain_script: Script) -> None:
    node.apply(pod("first", plain("data"), uid="u1"))
    assert isinstance(node.host, FakeHost)
    plain_script.fail("mount", OperationError("not yet"))
    node.apply(pod("web", plain("data"), uid="u2"))
    node.host.disk_full = True
    node.advance(0.5)
    assert not node.is_mounted("web")
    assert "no space left on device" in why(node.world, "web")[0].text
    node.host.disk_full = False
    node.advance(122)
    assert node.is_mounted("web")


# --- resolving ---


def test_a_type_whose_pure_method_raises_spoils_that_volume_alone(
    node: TestNode, plain_script: Script, disk_script: Script
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("oops")

    disk_script.pure = fail
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", plain("good"), claim_of("bad", "d1"), uid="u1"))
    assert plain_script.calls == ["mount"]
    assert node.world.pods["u1"].errors == {"bad": "facets() of test-disk 0 (test) failed: ZeroDivisionError: oops"}
    disk_script.pure = lambda: None
    node.put_file("storage.yaml", *storage("d1", size="2Gi"))
    assert node.is_mounted("web")


def test_a_type_that_says_nonsense_spoils_that_volume_alone(node: TestNode, plain_script: Script) -> None:
    plain_script.endpoint = 7  # type: ignore[assignment]
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("good", "d1"), plain("bad"), uid="u1"))
    assert node.world.pods["u1"].errors == {"bad": "endpoint() of test-plain 0 (test) gave 7 instead of str"}
    assert len(node.world.actual.of_pod("u1")) == 1


def test_the_unique_name_of_a_shared_volume_is_its_type_and_what_it_says(disks: TestNode) -> None:
    disks.apply(pod("web", claim_of("data", "d1"), plain("tmp"), uid="u1"))
    assert {volume.name for volume in disks.world.desired} == {DISK, "example.com/plain/u1-tmp"}


def test_an_unknown_type_names_its_package_and_the_rest_is_mounted(node: TestNode, plain_script: Script) -> None:
    node.apply(pod("web", plain("good"), {"name": "bad", "nfs": {"server": "s", "path": "/x"}}, uid="u1"))
    assert plain_script.calls == ["mount"]
    assert node.world.pods["u1"].errors == {
        "bad": "no installed package serves volume type 'nfs'; install volmgr-nfs, then run volmgr plugins reload"
    }


def test_an_ephemeral_claim_of_another_pod_is_refused(node: TestNode) -> None:
    pv, _ = storage("web-scratch")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1", "controller": True}
    ephemeral: dict[str, object] = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    node.put_file("storage.yaml", pv, claim("web-scratch", "pv-web-scratch"))
    node.apply(pod("web", ephemeral, uid="u1"))
    assert node.world.pods["u1"].errors == {
        "scratch": "PVC default/web-scratch was not created for pod default/web (pod is not owner)"
    }
    node.put_file("storage.yaml", pv, claim("web-scratch", "pv-web-scratch", {"ownerReferences": [owner]}))
    assert node.is_mounted("web"), node.world.pods["u1"].errors


def test_a_volume_of_another_node_is_refused_where_this_node_is_known(host: FakeHost, node: TestNode) -> None:
    named = TestNode(host, node.plugins, Config(node_name="n1"))
    named.sources_ready()
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    pv, pvc = storage("d1", nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    named.put_file("storage.yaml", pv, pvc)
    node_object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"zone": "a"}}}
    named.put_file("node.yaml", node_object)
    named.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert named.world.pods["u1"].errors == {"data": "PersistentVolume pv-d1: its nodeAffinity does not match node n1"}
    node_object["metadata"] = {"name": "n1", "labels": {"zone": "b"}}
    named.put_file("node.yaml", node_object)
    assert named.is_mounted("web")
