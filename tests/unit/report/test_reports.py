"""The other reports, and the shape that each has as JSON."""

from dataclasses import replace

import msgspec

from tests.unit.report.worlds import FACETS, NOW, TYPE, add_pod, empty_world, fail, make_pod, mounted, run, unique
from volmgr.actual import ActualVolume
from volmgr.broken import Broken
from volmgr.desired import READING, DesiredMount, DesiredVolume
from volmgr.errors import ManifestError
from volmgr.model.driver_info import DriverInfo
from volmgr.model.meta import ObjectRef
from volmgr.model.volume import VolumeSpec
from volmgr.plugin import Searched
from volmgr.report.doctor import doctor
from volmgr.report.installed import plugins_report
from volmgr.report.metrics import metrics
from volmgr.report.orphans import orphans_report
from volmgr.report.plan import plan_report
from volmgr.report.pods import pod_status, ready, status
from volmgr.report.times import rfc3339
from volmgr.report.world import Orphan, ServerReading
from volmgr.volume_type import Origin


def test_times_are_rfc_3339_in_utc_and_never_is_none() -> None:
    assert rfc3339(1_800_000_000.25) == "2027-01-15T08:00:00.250Z"
    assert rfc3339(0) is None
    assert rfc3339(float("inf")) is None


def test_status_counts_mounted_volumes_and_gives_the_first_reason() -> None:
    world, web, api = empty_world(), make_pod("web", "a", "b"), make_pod("api", "a")
    add_pod(world, web)
    add_pod(world, api)
    mounted(world, api, "a")
    mounted(world, web, "a")
    fail(world, web, "b", "no space left")
    report = status(world)
    assert [(pod.name, pod.state, pod.mounted, pod.wanted) for pod in report.pods] == [
        ("api", "mounted", 1, 1),
        ("web", "pending", 1, 2),
    ]
    assert report.pods[0].reason == ""
    assert "no space left" in report.pods[1].reason


def test_the_status_of_one_pod_lists_healthy_volumes_too_with_their_path() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    mounted(world, pod, "a")
    report = pod_status(world, pod.uid)
    (volume,) = report.volumes
    assert volume.healthy
    assert volume.path == "/var/lib/volmgr/pods/uid-web/volumes/kubernetes.io~empty-dir/a"
    assert (report.state, report.since) == ("mounted", "2027-01-15T07:59:00.000Z")


def test_the_json_of_a_status_has_the_fields_of_the_report() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    world.complaints["/m/x.yaml"] = (ManifestError("is empty", file="/m/x.yaml"),)
    decoded = msgspec.json.decode(msgspec.json.encode(status(world)), type=dict[str, object])
    assert decoded == {
        "ready": True,
        "reasons": [],
        "pods": [
            {
                "namespace": "default",
                "name": "web",
                "uid": "uid-web",
                "state": "pending",
                "source": "directory",
                "origin": "/manifests/web.yaml",
                "since": "2027-01-15T07:59:00.000Z",
                "wanted": 1,
                "mounted": 0,
                "holds": 0,
                "reason": "volume a (emptyDir): not mounted; mount is due",
            }
        ],
        "complaints": ["/m/x.yaml: is empty"],
        "contact": [],
        "reading": None,
        "drained": False,
    }


def test_volumes_are_reported_in_the_order_of_their_pods_manifest() -> None:
    world, pod = empty_world(), make_pod("web", "b", "c", "a")
    add_pod(world, pod)
    assert [volume.names for volume in pod_status(world, pod.uid).volumes] == [("b",), ("c",), ("a",)]


def test_the_daemon_is_not_ready_before_sources_and_reconstruction() -> None:
    world = empty_world()
    assert ready(world).ready
    world.sources["api"] = "cannot be read"
    world.reconstructed = False
    assert ready(world).reasons == ("source api: cannot be read", "reconstruction is not done")


def test_a_plan_is_in_order_with_reasons_and_what_delays_it() -> None:
    world, old, new = empty_world(), make_pod("old", "a"), make_pod("new", "a", "b", "c")
    add_pod(world, old, leaving=True)
    mounted(world, old, "a")
    add_pod(world, new)
    fail(world, new, "a", "no space left", times=8)
    run(world, new, "b")
    report = plan_report(world)
    assert [(item.verb, item.pod, item.reason) for item in report.operations] == [
        ("unmount", "default/old", "its Pod has left"),
        ("mount", "default/new", "the Pod wants it"),
        ("mount", "default/new", "the Pod wants it"),
        ("mount", "default/new", "the Pod wants it"),
    ]
    assert [bool(item.delayed) for item in report.operations] == [False, True, True, False]
    assert "failed 8 times, next try at 2027-01-15T08:0" in report.operations[1].delayed


def test_a_plan_for_a_root_that_is_not_adopted_names_what_stays_after_that_for_want_of_a_type() -> None:
    world, gone = empty_world(), make_pod("gone", "a", "b")
    world.readiness = replace(world.readiness, read_only=True)
    mounted(world, gone, "a")
    mounted(world, gone, "b", plugin="kubernetes.io/nfs")
    served, unserved = plan_report(world).operations
    assert served.delayed == "the root directory is not adopted: run volmgr adopt"
    assert "serves kubernetes.io/nfs" in unserved.delayed


def test_a_plan_lists_what_waits_and_why_nothing_is_taken_away() -> None:
    world, pod = empty_world(), make_pod("web")
    add_pod(world, pod).errors["data"] = "PersistentVolumeClaim default/data does not exist"
    world.readiness = replace(world.readiness, unmount=False)
    report = plan_report(world)
    assert report.waiting[0].waits_for == "PersistentVolumeClaim default/data does not exist"
    assert report.notes == ("nothing is taken away before every source was read whole",)


def test_plugins_are_listed_with_fields_and_broken_ones_with_their_traceback() -> None:
    world = empty_world()
    world.plugins.broken.append(Broken(Origin("volmgr-nfs", "1", "nfs = x:Y"), "ImportError: no x", "Traceback …"))
    report = plugins_report(world)
    assert [(item.name, item.distribution) for item in report.types] == [(TYPE, "volmgr-emptydir")]
    assert report.types[0].fields[0].field == "emptyDir"
    assert report.broken[0].traceback == "Traceback …"


def test_orphans_are_directories_that_were_kept_and_volumes_of_unknown_types() -> None:
    world, pod = empty_world(), make_pod("web", "a", "b")
    world.orphans["/x"] = Orphan(pod_uid="uid-gone", path="/x", reason="it has data in it")
    add_pod(world, pod, leaving=True)
    mounted(world, pod, "a")
    mounted(world, pod, "b", plugin="kubernetes.io/nfs")
    report = orphans_report(world)
    assert [(orphan.pod_uid, orphan.volume) for orphan in report.orphans] == [
        ("uid-web", unique(pod, "b")),
        ("uid-gone", ""),
    ]
    assert "install volmgr-nfs" in report.orphans[0].reason


def test_the_doctor_names_sources_manifests_packages_and_hanging_operations_with_a_remedy() -> None:
    world, pod = empty_world(), make_pod("web", "a")
    add_pod(world, pod)
    run(world, pod, "a", hanging=True)
    world.sources["directory"] = "was a mount point and is none"
    world.complaints["/m/x.yaml"] = (ManifestError("is empty", file="/m/x.yaml"),)
    world.plugins.broken.append(Broken(Origin("volmgr-nfs", "1", "nfs = x:Y"), "ImportError: no x"))
    wrong = [finding for finding in doctor(world).findings if not finding.ok]
    assert [finding.check for finding in wrong] == [
        "source directory",
        "manifest /m/x.yaml",
        "package volmgr-nfs",
        "hanging operation",
    ]
    assert all(finding.remedy for finding in wrong)


def test_the_doctor_names_drivers_that_are_missing_and_those_of_which_a_cluster_is_not_told() -> None:
    world = empty_world()
    world.required_drivers = ("a.example.com", "b.example.com")
    world.drivers["b.example.com"] = DriverInfo(name="b.example.com", node_id="n")
    world.reading = ServerReading(
        server="https://10.0.0.1:6443", driver_problems={"b.example.com": "its zone is wrong"}
    )
    wrong = [finding for finding in doctor(world).findings if not finding.ok]
    assert [(finding.check, finding.detail) for finding in wrong] == [
        ("driver a.example.com", "waiting for driver a.example.com (never seen on this node since volmgrd started)"),
        ("driver b.example.com", "its zone is wrong"),
    ]
    assert all(finding.remedy for finding in wrong)


def test_the_doctor_says_of_a_missing_driver_what_who_looks_for_it_knows() -> None:
    world = empty_world()
    world.required_drivers = ("a.example.com",)
    why = "it is refused; repair it"
    misfits = {"a.example.com": "it is refused", "b.example.com": "it is refused, too"}
    world.plugins.searched["csi"] = Searched(
        field="csi", misfits=misfits, absent={"a.example.com": why}, problem="blind"
    )
    wrong = [(finding.check, finding.remedy) for finding in doctor(world).findings if not finding.ok]
    assert wrong == [
        ("driver a.example.com", f"{why}; or take it out of required_drivers"),
        ("drivers of csi", "do what it says; no driver is found until then"),
        ("driver b.example.com", "do what it says"),
    ]


def test_the_doctor_names_drivers_that_are_gone_while_a_volume_needs_them() -> None:
    world, pod = empty_world(), make_pod()
    for number, driver in enumerate(("gone.example.com", "gone.example.com", "here.example.com")):
        spec: VolumeSpec[object] = VolumeSpec(name=f"v{number}", type="csi", source=None, driver=driver)
        volume = DesiredVolume(name=f"kubernetes.io/csi/{driver}^{number}", plugin="csi", spec=spec, facets=FACETS)
        world.desired.add(volume, DesiredMount(pod=pod, spec=spec, outer_names=(spec.name,)))
        world.actual.put(volume.name, ActualVolume(name=volume.name, plugin="csi", spec=spec))
    left: VolumeSpec[object] = VolumeSpec(name="v9", type="csi", source=None, driver="left.example.com")
    world.actual.put("kubernetes.io/csi/v9", ActualVolume(name="kubernetes.io/csi/v9", plugin="csi", spec=left))
    world.drivers["here.example.com"] = DriverInfo(name="here.example.com", node_id="n")
    world.drivers_gone = {"gone.example.com": NOW, "unused.example.com": NOW}
    never = "never seen on this node since volmgrd started"
    since = "not registered since 2027-01-15T08:00:00.000Z"
    wrong = [finding for finding in doctor(world).findings if not finding.ok]
    assert [(finding.check, finding.detail) for finding in wrong] == [
        ("driver gone.example.com", f"waiting for driver gone.example.com ({since}); volumes here that need it: 2"),
        ("driver left.example.com", f"waiting for driver left.example.com ({never}); volumes here that need it: 1"),
    ]
    assert all(finding.remedy for finding in wrong)


def test_the_doctor_says_what_an_api_server_keeps_from_the_node() -> None:
    world = empty_world()
    world.sources["kubernetes"] = ""
    world.out_of_contact["kubernetes"] = "https://10.0.0.1:6443 does not answer"
    world.reading = ServerReading(server="https://10.0.0.1:6443", watches=3, asked=2, unregistered="it has no CSINode")
    world.attach_note = "there is no Node n1; register it"
    refused = "get secrets: forbidden"
    world.awaited_objects = {ObjectRef("Secret", "shop", str(number)): refused for number in range(12)}
    world.awaited_objects[ObjectRef("Secret", "shop", "soon")] = READING
    findings = doctor(world).findings
    wrong = [(finding.check, finding.detail) for finding in findings if not finding.ok]
    assert wrong[:3] == [
        ("source kubernetes", "https://10.0.0.1:6443 does not answer"),
        ("own CSINode", "it has no CSINode"),
        ("own Node", "there is no Node n1; register it"),
    ]
    assert wrong[3] == ("Secret shop/0", refused)
    assert wrong[-1] == ("objects", "2 more cannot be read")
    assert "soon" not in str(findings)
    assert ("API server", "https://10.0.0.1:6443: watches 3, objects asked for 2") in [
        (finding.check, finding.detail) for finding in findings if finding.ok
    ]


def test_metrics_count_pods_and_mounts_by_state() -> None:
    world, pod = empty_world(), make_pod("web", "a", "b")
    add_pod(world, pod)
    mounted(world, pod, "a")
    values = {gauge.name: gauge.values for gauge in metrics(world)}
    assert values["volmgr_pods"] == {("pending",): 1}
    assert values["volmgr_mounts"] == {(TYPE, "yes"): 1}
    assert values["volmgr_ready"] == {(): 1}
