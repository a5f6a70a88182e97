"""What a Pod's volumes live through: used or not, resolved or not, terminating, held, returning, replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flow.core.probes import Script, claim_of, config_map, empty_dirs, needs, node_item, plain, storage
from volmgr.actual import ActualVolume, PodMount
from volmgr.config import Config
from volmgr.errors import OperationError, TransientError
from volmgr.messages import NodeStatusRead
from volmgr.model.objects import AttachedVolume, Node
from volmgr.model.volume import Attachable, Facets, Presence
from volmgr.plugin import ObjectMeta
from volmgr.report.waiting import is_mounted
from volmgr.report.why import summary_for_timeout, why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, pod

DELETED = {"deletionTimestamp": "2026-11-29T20:00:00Z"}
DISK = "example.com/disk/d1"


def text_of(node: TestNode, selector: str) -> str:
    """Give what `why` says."""
    return "\n".join(report.text for report in why(node.world, selector))


def test_a_volume_that_no_container_uses_is_not_mounted_nor_waited_for(node: TestNode, plain_script: Script) -> None:
    manifest = pod("web", plain("used"), uid="u1")
    manifest["spec"]["volumes"].append(plain("unused"))
    node.apply(manifest)
    assert node.is_mounted("web")
    assert [request.spec.name for request in plain_script.requests] == ["used"]
    assert [volume.name for volume in node.world.desired] == ["example.com/plain/u1-used"]


@pytest.mark.parametrize("kind", ["initContainers", "ephemeralContainers"])
def test_containers_of_every_kind_use_volumes(node: TestNode, kind: str) -> None:
    manifest = pod("web", uid="u1")
    manifest["spec"]["volumes"] = [plain("data")]
    manifest["spec"][kind] = [{"name": "other", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]
    node.apply(manifest)
    assert node.host.files.names(node.host.paths.volumes("u1") / "example.com~plain") == ("data",)


def test_the_same_pod_offered_twice_is_one_pod_with_one_volume(node: TestNode, plain_script: Script) -> None:
    for _ in range(2):
        node.apply(pod("web", plain("data"), uid="u1"))
    assert len(node.world.desired) == 1
    assert plain_script.calls == ["mount"]


def test_a_claim_listed_twice_is_one_volume_under_both_names_and_mounted_once(
    node: TestNode, disk_script: Script
) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("v1", "d1"), claim_of("v2", "d1"), uid="u1"))
    (volume,) = node.world.desired
    assert volume.mounts["u1"].outer_names == ("v1", "v2")
    assert disk_script.count("mount") == 1
    assert node.is_mounted("web")
    node.delete("u1")
    assert node.is_unmounted("u1")
    assert disk_script.count("unmount") == 1


def test_a_volume_that_cannot_be_resolved_is_an_error_of_its_own_and_mounted_when_it_can(
    node: TestNode, plain_script: Script
) -> None:
    node.apply(pod("web", plain("good"), claim_of("bad", "d1"), uid="u1"))
    assert node.world.pods["u1"].errors == {
        "bad": "PersistentVolumeClaim default/d1 does not exist; add it to the manifests"
    }
    assert plain_script.calls == ["mount"]
    assert not node.is_mounted("web")
    assert "volume bad (persistentVolumeClaim): not mounted; cannot be resolved" in text_of(node, "web")
    assert "good" not in text_of(node, "web")
    node.put_file("storage.yaml", *storage("d1"))
    assert node.world.pods["u1"].errors == {}
    assert node.is_mounted("web")


def test_a_claim_that_stops_resolving_never_unmounts_a_living_pod_s_volume(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    node.remove_file("storage.yaml")
    assert "data" in node.world.pods["u1"].errors
    node.advance(3600)
    assert disk_script.count("unmount") == 0
    node.delete("u1")
    assert node.is_unmounted("u1")
    assert disk_script.count("detach") == 1


def test_ten_errors_of_one_pod_are_kept(node: TestNode) -> None:
    node.apply(pod("web", *(claim_of(f"v{number:02}", f"c{number}") for number in range(15)), uid="u1"))
    assert sorted(node.world.pods["u1"].errors) == [f"v{number:02}" for number in range(5, 15)]
    assert not node.is_mounted("web")


def test_a_pod_that_left_takes_its_wishes_and_its_record_with_it(node: TestNode) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    node.delete("u1")
    assert len(node.world.desired) == 0
    assert len(node.world.actual) == 0
    assert "u1" not in node.world.pods
    assert node.host.files.info(node.host.paths.pod("u1")) is None
    assert not node.registry.knows("u1")


def test_while_a_mount_runs_and_its_pod_leaves_it_is_unmounted_afterwards(node: TestNode, plain_script: Script) -> None:
    node.registry.apply(node_item(node, pod("web", plain("data"), uid="u1")))
    node.reconciler.step()
    assert [str(operation.verb) for operation in node.world.running] == ["mount"]
    node.registry.delete("u1")
    node.settle()
    assert plain_script.calls == ["mount", "unmount"]
    assert node.is_unmounted("u1")


# --- terminating, finished, held ---


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_s_volumes_go_without_waiting_for_its_deletion(node: TestNode, phase: str) -> None:
    node.put_file("storage.yaml", *storage("d1", modes=("ReadWriteOncePod",)))
    node.put_file("web.yaml", pod("web", claim_of("data", "d1"), plain("tmp"), uid="u1"))
    node.apply(pod("next", claim_of("data", "d1"), uid="u2"))
    assert not node.is_mounted("next")
    node.put_file("web.yaml", pod("web", claim_of("data", "d1"), plain("tmp"), uid="u1", status={"phase": phase}))
    assert node.world.actual.of_pod("u1") == ()
    assert node.is_mounted("next")


def test_a_finished_pod_s_volumes_stay_where_that_is_configured(host: FakeHost, node: TestNode) -> None:
    keeping = TestNode(host, node.plugins, Config(keep_terminated_pod_volumes=True))
    keeping.sources_ready()
    keeping.put_file("web.yaml", pod("web", plain("data"), uid="u1"))
    keeping.put_file("web.yaml", pod("web", plain("data"), uid="u1", status={"phase": "Succeeded"}))
    assert len(keeping.world.actual.of_pod("u1")) == 1
    keeping.remove_file("web.yaml")
    assert keeping.is_unmounted("u1")


def test_a_terminating_pod_s_volumes_stay_while_it_is_held_then_go(node: TestNode, plain_script: Script) -> None:
    node.put_file("web.yaml", pod("web", plain("data"), uid="u1"))
    hold = node.hold("u1", 4711)
    node.put_file("web.yaml", pod("web", plain("data"), uid="u1", metadata=DELETED))
    assert plain_script.calls == ["mount"]
    assert "held by" in text_of(node, "u1")
    node.release(hold)
    assert plain_script.calls == ["mount", "unmount"]


def test_nothing_new_is_mounted_for_a_terminating_pod_that_is_held(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", *[OperationError("not yet")] * 2)
    node.put_file("web.yaml", pod("web", plain("data"), uid="u1"))
    node.hold("u1", 4711)
    node.put_file("web.yaml", pod("web", plain("data"), uid="u1", metadata=DELETED))
    node.advance(600)
    assert plain_script.calls == ["mount"]


@pytest.mark.parametrize(("ready", "mounts"), [(False, 1), (True, 0)])
def test_a_held_terminating_pod_is_added_before_its_sources_were_read_and_only_kept_after(
    host: FakeHost, node: TestNode, plain_script: Script, ready: bool, mounts: int
) -> None:
    plain_script.fail("mount", OperationError("not yet"))
    node.put_file("web.yaml", pod("web", plain("data"), uid="u1"))
    node.hold("u1", 4711)
    node.put_file("web.yaml", pod("web", plain("data"), uid="u1", metadata=DELETED))
    plain_script.calls.clear()
    node.start()
    if ready:
        node.registry.state("api", ready=True)
    node.settle()
    assert plain_script.count("mount") == mounts


@pytest.mark.parametrize("ready", [False, True])
@pytest.mark.parametrize(
    ("metadata", "status", "mounts"),
    [({}, {}, 1), (DELETED, {}, 0), ({}, {"phase": "Succeeded"}, 0), ({}, {"phase": "Failed"}, 0)],
    ids=["running", "terminating and held by nobody", "succeeded", "failed"],
)
def test_a_new_pod_is_added_only_while_it_runs(
    host: FakeHost,
    node: TestNode,
    plain_script: Script,
    ready: bool,
    metadata: dict[str, object],
    status: dict[str, object],
    mounts: int,
) -> None:
    fresh = TestNode(host, node.plugins)
    if ready:
        fresh.sources_ready()
    fresh.put_file("web.yaml", pod("web", plain("data"), uid="u1", metadata=metadata, status=status))
    assert plain_script.count("mount") == mounts


def test_a_pod_that_left_and_is_held_keeps_its_volumes_until_the_last_hold_is_gone(
    node: TestNode, plain_script: Script
) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    first, second = node.hold("u1", 11), node.hold("u1", 12)
    node.delete("u1")
    node.release(first)
    node.advance(3600)
    assert plain_script.calls == ["mount"]
    assert not node.is_unmounted("u1")
    node.release(second)
    assert plain_script.calls == ["mount", "unmount"]
    assert node.is_unmounted("u1")


def test_a_hold_outlives_the_daemon(node: TestNode, plain_script: Script) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    hold = node.hold("u1", 11)
    node.delete("u1")
    node.start()
    node.sources_ready()
    node.advance(3600)
    assert plain_script.count("unmount") == 0
    node.release(hold)
    assert plain_script.count("unmount") == 1
    assert node.is_unmounted("u1")


def test_a_pod_that_returns_while_it_leaves_keeps_its_mount(node: TestNode, plain_script: Script) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    hold = node.hold("u1", 11)
    node.delete("u1")
    node.apply(pod("web", plain("data"), uid="u1"))
    node.release(hold)
    node.advance(60)
    assert plain_script.calls == ["mount"]
    assert node.is_mounted("u1")


def test_a_pod_that_returns_with_another_source_has_that_volume_unmounted_first(
    node: TestNode, plain_script: Script
) -> None:
    node.apply(pod("web", plain("data", "old"), plain("same"), uid="u1"))
    hold = node.hold("u1", 11)
    node.delete("u1")
    plain_script.fail("unmount", OperationError("busy"))
    node.apply(pod("web", plain("data", "new"), plain("same"), uid="u1"))
    assert plain_script.calls == ["mount", "mount"], "somebody still uses the old one"
    node.release(hold)
    assert plain_script.calls == ["mount", "mount", "unmount"]
    assert not node.is_mounted("u1")
    node.advance(0.5)
    assert plain_script.calls[3:] == ["unmount", "mount"]
    assert plain_script.last("mount").spec.source.disk == "new"
    assert node.is_mounted("u1")
    node.release(hold)


def test_another_uid_in_the_same_file_means_that_the_old_pod_goes_and_the_new_one_comes(
    node: TestNode, plain_script: Script
) -> None:
    node.put_file("web.yaml", pod("web", plain("data"), uid="u1"))
    node.put_file("web.yaml", pod("web", plain("data"), uid="u2"))
    assert node.is_mounted("u2")
    assert node.is_unmounted("u1")
    assert plain_script.count("unmount") == 1
    assert node.host.files.names(node.host.paths.pods) == ("u2",)


# --- remounting ---


def test_a_changed_object_is_mounted_again_only_where_the_type_says_so(node: TestNode, plain_script: Script) -> None:
    plain_script.references = needs("settings")
    plain_script.facets = Facets(remount=True)
    node.put_file("settings.yaml", config_map("settings", key="1"))
    node.apply(pod("web", plain("data"), uid="u1"))
    assert [request.remount for request in plain_script.requests] == [False]
    node.put_file("settings.yaml", config_map("settings", key="2"))
    assert [request.remount for request in plain_script.requests] == [False, True]
    (item,) = plain_script.last("mount").objects.values()
    assert item.data == {"key": "2"}
    node.put_file("other.yaml", config_map("other", key="3"))
    assert plain_script.count("mount") == 2


def test_a_failed_remount_keeps_the_mount_and_its_old_revision(node: TestNode, plain_script: Script) -> None:
    plain_script.references = needs("settings")
    plain_script.facets = Facets(remount=True)
    node.put_file("settings.yaml", config_map("settings", key="1"))
    node.apply(pod("web", plain("data"), uid="u1"))
    plain_script.fail("mount", OperationError("full"))
    node.put_file("settings.yaml", config_map("settings", key="2"))
    volume = node.world.actual.get("example.com/plain/u1-data")
    assert volume is not None
    assert volume.mounts["u1"].state is Presence.YES
    assert not node.is_mounted("web")
    node.advance(0.5)
    assert node.is_mounted("web")


def test_a_missing_object_is_waited_for_named_and_wakes_at_once(node: TestNode, plain_script: Script) -> None:
    plain_script.references = needs("settings")
    node.apply(pod("web", plain("data"), uid="u1"))
    assert plain_script.calls == []
    assert "waits for ConfigMap default/settings" in text_of(node, "web")
    node.put_file("settings.yaml", config_map("settings"))
    assert node.is_mounted("web")


def test_an_optional_object_is_not_waited_for(node: TestNode, plain_script: Script) -> None:
    plain_script.references = needs("settings", optional=True)
    node.apply(pod("web", plain("data"), uid="u1"))
    assert node.is_mounted("web")


# --- sizes ---


@pytest.mark.parametrize(
    ("limit", "sizes"),
    [(None, ["1Gi", "2Gi", "3Gi", None]), ("1Gi", ["1Gi", "2Gi", "3Gi", None])],
    ids=["no limits", "two containers of 1Gi"],
)
def test_the_size_limit_is_the_smaller_of_the_pod_s_limits_and_the_volume_s(
    host: FakeHost, limit: str | None, sizes: list[str | None]
) -> None:
    script = Script(facets=Facets())
    node = TestNode(host, empty_dirs(script))
    node.sources_ready()
    volumes = [
        {"name": f"v{number}", "emptyDir": {"sizeLimit": size} if size else {}} for number, size in enumerate(sizes)
    ]
    manifest = pod("web", *volumes, uid="u1")
    if limit:
        resources = {"resources": {"limits": {"ephemeral-storage": limit}}}
        manifest["spec"]["containers"][0].update(resources)
        manifest["spec"]["containers"].append({"name": "second", **resources})
    node.apply(manifest)
    gib = 1 << 30
    expected = [1, 2, 2, 2] if limit else [1, 2, 3, 0]
    assert [request.size_limit for request in script.requests] == [number * gib for number in expected]


# --- waiting ---


def test_a_wait_ends_with_the_last_volume_and_not_before(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", None, OperationError("not yet"))
    waiter = node.wait("web", is_mounted)
    node.apply(pod("web", plain("a"), plain("b"), uid="u1"))
    assert not waiter.done.is_set()
    node.advance(0.5)
    assert waiter.done.is_set()


def test_a_timeout_names_what_is_missing_in_kubelet_s_words(host: FakeHost, node: TestNode) -> None:
    unready = TestNode(host, node.plugins, sources=("api", "directory"))
    unready.settle()
    assert summary_for_timeout(unready.world, "web").startswith("Pod web is not known: timed out")
    unready.apply(pod("web", claim_of("v", "nothing"), uid="u1"))
    assert summary_for_timeout(unready.world, "web").startswith(
        "unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: timed out waiting"
    )


def test_a_timeout_of_unmounting_names_what_is_mounted_but_not_what_is_uncertain(
    node: TestNode, plain_script: Script
) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    assert summary_for_timeout(node.world, "web", "unmounted").startswith("mounted volumes=[example.com/plain/u1-data]")
    plain_script.fail("unmount", OperationError("busy"))
    node.delete("u1")
    assert summary_for_timeout(node.world, "u1", "unmounted").startswith("mounted volumes=[]")
    assert not node.is_unmounted("u1")


def test_one_message_names_the_bad_volume_its_step_and_error_and_none_of_the_good_ones(
    node: TestNode, plain_script: Script
) -> None:
    plain_script.fail("mount", None, OperationError("slow chown"))
    node.apply(pod("web", plain("a"), plain("b"), plain("c"), plain("d"), uid="u1"))
    text = text_of(node, "web")
    assert "volume b (plainProbe): not mounted; mount failed once since" in text
    assert "slow chown" in text
    assert not any(f"volume {name} " in text for name in "acd")


def test_one_line_says_which_volume_which_step_since_when_what_failed_and_when_again(
    node: TestNode, plain_script: Script
) -> None:
    error = TransientError("driver x is not registered")
    plain_script.fail("mount", None, error, None, None, error)
    node.apply(pod("web", plain("a"), plain("b"), plain("c"), plain("d"), uid="u1"))
    node.advance(0.5)
    line = (
        "  volume b (plainProbe): not mounted; mount failed 2 times since 1970-01-12T13:46:40.000Z,"
        " next try at 1970-01-12T13:46:41.500Z; driver x is not registered"
    )
    assert text_of(node, "web") == f"Pod default/web (u1): pending\n{line}"
    assert line.strip() in summary_for_timeout(node.world, "web")


# --- one Pod at a time ---


def test_a_volume_of_one_pod_is_refused_to_a_second_with_kubelet_s_words(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1", modes=("ReadWriteOncePod",)))
    node.apply(pod("a", claim_of("data", "d1"), uid="ua"), pod("b", claim_of("data", "d1"), uid="ub"))
    assert node.is_mounted("a")
    assert not node.is_mounted("b")
    message = "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
    assert message in text_of(node, "b")
    assert disk_script.count("mount") == 1
    node.delete("ua")
    assert node.is_mounted("b")
    assert disk_script.count("unmount_device") == 0


# --- who attaches ---


def status(attached: dict[str, str], in_use: tuple[str, ...] = ()) -> NodeStatusRead:
    """Give a node status."""
    return NodeStatusRead(
        Node(
            metadata=ObjectMeta(name="node"),
            volumes_attached=tuple(AttachedVolume(name=name, device_path=path) for name, path in attached.items()),
            volumes_in_use=in_use,
        )
    )


@pytest.fixture
def controlled(host: FakeHost, node: TestNode) -> TestNode:
    """A node whose volumes a controller attaches."""
    controlled = TestNode(host, node.plugins, Config(controller_attach=True))
    controlled.sources_ready()
    controlled.put_file("storage.yaml", *storage("d1"))
    return controlled


def hear(node: TestNode, message: NodeStatusRead) -> None:
    """Let the node hear of its status."""
    node.reconciler.post(message)
    node.settle()


def test_a_controlled_volume_waits_until_it_is_reported_in_use_and_attached(
    controlled: TestNode, disk_script: Script
) -> None:
    controlled.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    hear(controlled, status({}))
    controlled.advance(60)
    assert disk_script.calls == []
    assert controlled.warnings() == ()
    assert "waits until the node status reports the volume in use" in text_of(controlled, "web")
    hear(controlled, status({}, (DISK,)))
    assert disk_script.calls == []
    assert controlled.warnings() == ()
    assert f"volume {DISK} is not yet in node's status" in text_of(controlled, "web")
    hear(controlled, status({DISK: "/dev/sda"}, (DISK,)))
    assert disk_script.calls == ["wait_for_attach", "mount_device", "mount"]
    assert disk_script.last("wait_for_attach").device_path == "/dev/sda"
    assert controlled.is_mounted("web")


def test_a_controlled_volume_is_never_detached_and_leaves_nothing_behind(
    controlled: TestNode, disk_script: Script
) -> None:
    controlled.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    hear(controlled, status({DISK: "/dev/sda"}, (DISK,)))
    controlled.delete("u1")
    assert disk_script.calls == ["wait_for_attach", "mount_device", "mount", "unmount", "unmount_device"]
    assert controlled.world.actual.get(DISK) is None
    assert controlled.host.files.names(controlled.host.paths.state / "volumes") == ()


def test_what_the_node_status_does_not_report_any_more_is_not_in_use(controlled: TestNode) -> None:
    controlled.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    hear(controlled, status({}, (DISK,)))
    (volume,) = controlled.world.desired
    assert volume.reported_in_use
    hear(controlled, status({}))
    (volume,) = controlled.world.desired
    assert not volume.reported_in_use


def test_nothing_is_unmounted_before_the_node_status_was_read(controlled: TestNode, disk_script: Script) -> None:
    controlled.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    hear(controlled, status({DISK: "/dev/sda"}, (DISK,)))
    controlled.start()
    controlled.sources_ready()
    controlled.delete("u1")
    controlled.advance(60)
    assert disk_script.count("unmount") == 0
    hear(controlled, status({DISK: "/dev/sda"}, (DISK,)))
    assert disk_script.count("unmount") == 1
    assert controlled.is_unmounted("u1")


def in_use(node: TestNode) -> tuple[str, ...]:
    """Give what the node status is to say."""
    return node.world.volumes_in_use


def test_a_volume_is_in_use_from_when_it_is_wanted_until_it_is_detached(
    controlled: TestNode, disk_script: Script
) -> None:
    assert in_use(controlled) == ()
    controlled.put_file("more.yaml", *storage("d0"))
    controlled.apply(pod("web", claim_of("data", "d1"), claim_of("more", "d0"), plain("tmp"), uid="u1"))
    both = ("example.com/disk/d0", DISK)
    assert in_use(controlled) == both
    hear(controlled, status(dict.fromkeys(both, "/dev/sda"), both))
    assert controlled.is_mounted("web")
    assert in_use(controlled) == both
    disk_script.fail("unmount_device", OperationError("busy"))
    controlled.delete("u1")
    assert len(in_use(controlled)) == 1
    controlled.advance(0.5)
    assert in_use(controlled) == ()


@pytest.mark.parametrize(
    ("attached", "attachable", "path"),
    [({DISK: "fake/path"}, Attachable.YES, "fake/path"), ({}, Attachable.NO, "/dev/reconstructed")],
)
def test_what_is_unknown_of_a_reconstructed_volume_is_settled_by_the_node_status_and_nothing_else(
    controlled: TestNode, attached: dict[str, str], attachable: Attachable, path: str
) -> None:
    known = ActualVolume(
        name=DISK,
        plugin="example.com/disk",
        attachable=Attachable.UNKNOWN,
        attached=Presence.UNCERTAIN,
        device=Presence.UNCERTAIN,
        device_path="/dev/reconstructed",
    ).with_mount(PodMount(pod_uid="u1", spec_name="pv-d1", state=Presence.UNCERTAIN))
    other = replace(known, name="example.com/other/x", plugin="example.com/other", attachable=Attachable.YES)
    for volume in (known, other):
        controlled.world.actual.put(volume.name, volume)
    controlled.world.plugins.types.clear()  # nobody unmounts it meanwhile
    hear(controlled, status(attached))
    found = controlled.world.actual.get(DISK)
    assert found is not None
    assert (found.attachable, found.device_path) == (attachable, path)
    unchanged = controlled.world.actual.get(other.name)
    assert unchanged is not None
    assert unchanged.attachable is Attachable.YES
    hear(controlled, status({}))
    again = controlled.world.actual.get(DISK)
    assert again is not None
    assert again.attachable is attachable


def test_a_driver_that_attaches_no_more_needs_no_handshake_and_no_detach(
    controlled: TestNode, disk_script: Script
) -> None:
    controlled.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    hear(controlled, status({DISK: "/dev/sda"}, (DISK,)))
    disk_script.facets = Facets(device=True)
    controlled.apply(pod("other", claim_of("data", "d1"), uid="u2"))
    (wanted,) = controlled.world.desired
    actual = controlled.world.actual.get(DISK)
    assert actual is not None
    assert not wanted.facets.attach
    assert actual.attachable is Attachable.NO
    assert controlled.is_mounted("other")
    assert DISK not in controlled.world.actual.attached


# --- unready, foreign, drained ---


def test_nothing_is_unmounted_before_every_source_was_read_and_mounts_go_on(
    node: TestNode, plain_script: Script
) -> None:
    node.put_file("a.yaml", pod("a", plain("data"), uid="ua"))
    node.remove_file("a.yaml")
    assert plain_script.calls == ["mount", "unmount"]
    node.put_file("a.yaml", pod("a", plain("data"), uid="ua"))
    node.host.files.remove_directory(node.host.paths.root / "nothing")
    node.start()
    for _ in range(100):
        node.reconciler.step()
        node.advance(0.1)
    assert plain_script.count("unmount") == 1
    node.apply(pod("b", plain("data"), uid="ub"))
    assert node.is_mounted("b")
    node.registry.delete("ub")
    node.settle()
    assert plain_script.count("unmount") == 1
    node.sources_ready()
    assert plain_script.count("unmount") == 2
    assert node.is_mounted("a")


def test_a_foreign_root_is_not_touched_until_it_is_adopted(host: FakeHost, node: TestNode) -> None:
    script = Script(facets=Facets())
    foreign = FakeHost()
    foreign.mkdir(foreign.paths.volume("old", "example.com/plain", "data"), 0o750)
    other = TestNode(foreign, empty_dirs(script, plain_too=True))
    other.sources_ready()
    other.apply(pod("web", plain("data"), uid="u1"))
    other.advance(60)
    assert [call for call in script.calls if call != "reconstruct"] == []
    assert "run volmgr adopt" in text_of(other, "web")
    other.reconciler.set_read_only(read_only=False)
    other.settle()
    assert other.is_mounted("web")
    assert script.count("unmount") == 1


def test_draining_takes_everything_down_but_what_is_held(node: TestNode, plain_script: Script) -> None:
    node.apply(pod("a", plain("data"), uid="ua"), pod("b", plain("data"), uid="ub"))
    hold = node.hold("ub", 11)
    node.reconciler.drain()
    node.settle()
    assert node.world.actual.of_pod("ua") == ()
    assert len(node.world.actual.of_pod("ub")) == 1
    node.release(hold)
    assert len(node.world.actual) == 0
    node.advance(3600)
    assert plain_script.count("mount") == 2
