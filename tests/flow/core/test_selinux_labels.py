"""SELinux labels of volumes through a whole node: options, conflicts between Pods, restarts, metrics."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.flow.core.probes import DISK_FACETS, Disk, Script, claim_of, storage
from volmgr.config import Config
from volmgr.report.metrics import metrics
from volmgr.report.why import why_lines
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

NAME = "example.com/disk/d1"
X, Y = (f"system_u:object_r:container_file_t:s0:c{each}" for each in ("1,c2", "3,c4"))
LABELS = ("container", "pod_context_mismatch", "volume_context_mismatch")


@pytest.fixture
def host() -> FakeHost:
    return FakeHost(container_label="system_u:object_r:container_file_t:s0")


@pytest.fixture
def disk_script() -> Script:
    return Script(facets=replace(DISK_FACETS, selinux=True))


def labelled(name: str, level: str, claim: str = "d1", **more: object) -> dict[str, Any]:
    """Give a Pod with a level of its own."""
    return pod(
        name,
        claim_of("data", claim),
        uid=f"u-{name}",
        securityContext={"seLinuxOptions": {"level": level}, **more},
    )


def counted(node: TestNode) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    """Give the metrics of labels that are not zero, by the middle of their names."""
    prefix = "volume_manager_selinux_"
    found = {each.name: each.values for each in metrics(node.world) if each.name.startswith(prefix)}
    return {name.removeprefix(prefix).removesuffix("_total"): values for name, values in found.items() if values}


def test_the_label_reaches_the_device_s_mount_and_the_pod_s(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1", modes=("ReadWriteOncePod",)))
    node.apply(labelled("a", "s0:c1,c2"))
    assert disk_script.last("mount_device").selinux_label == X
    assert disk_script.last("mount").selinux_label == X
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert (volume.device_label, volume.mounts["u-a"].label) == (X, X)
    assert counted(node) == {"volumes_admitted": {("example.com/disk", "RWOP"): 1}}


@pytest.mark.parametrize(("level", "relabel"), [("s0:c1,c2", False), ("", True)])
def test_a_runtime_is_asked_to_relabel_only_what_is_not_mounted_with_a_label(
    node: TestNode, level: str, relabel: bool
) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(labelled("a", level))
    (container,) = node.mounts("a").containers
    assert [mount.relabel for mount in container.mounts] == [relabel]


def test_a_second_pod_with_another_label_waits_says_why_and_is_mounted_with_its_own_later(
    node: TestNode, disk_script: Script
) -> None:
    node.put_file("storage.yaml", *storage("d1", modes=("ReadWriteMany",)))
    node.apply(labelled("a", "s0:c1,c2"))
    node.apply(labelled("b", "s0:c3,c4"))
    desired = node.world.desired.get(NAME)
    assert desired is not None
    assert (set(desired.mounts), desired.selinux_label) == ({"u-a"}, X)
    (line,) = (line for line in why_lines(node.world, "b") if "data" in line)
    for part in (X, Y, "default/a", "waits until"):
        assert part in line
    assert counted(node)["volume_context_mismatch_errors"] == {("example.com/disk", "RWX"): 1}
    disk_script.forget()
    node.delete("u-a")
    assert node.is_mounted("b")
    assert [each for each in disk_script.calls if "mount" in each] == [
        "unmount",
        "unmount_device",
        "mount_device",
        "mount",
    ]
    assert disk_script.last("mount_device").selinux_label == Y
    assert counted(node) == {"volumes_admitted": {("example.com/disk", "RWX"): 1}}


def test_two_that_wait_for_a_volume_do_not_both_get_it(node: TestNode) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(labelled("a", "s0:c1,c2"))
    node.apply(labelled("b", "s0:c3,c4"))
    node.apply(labelled("c", "s0:c5,c6"))
    node.delete("u-a")
    assert [node.is_mounted(name) for name in "bc"] == [True, False]
    node.delete("u-b")
    assert node.is_mounted("c")


def test_one_that_leaves_while_it_waits_is_heard_of_no_more(node: TestNode) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(labelled("a", "s0:c1,c2"))
    node.apply(labelled("b", "s0:c3,c4"))
    node.delete("u-b")
    node.delete("u-a")
    assert node.world.actual.get(NAME) is None
    assert counted(node) == {}


def test_pods_with_the_same_label_share_a_volume(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(labelled("a", "s0:c1,c2"), labelled("b", "s0:c1,c2"))
    assert node.is_mounted("a")
    assert node.is_mounted("b")
    assert disk_script.count("mount_device") == 1


def test_the_label_is_recorded_and_known_again_after_a_restart(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(labelled("a", "s0:c1,c2"))
    node.start()
    node.sources_ready()
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert (volume.device_label, volume.mounts["u-a"].label) == (X, X)
    assert node.is_mounted("a")
    assert disk_script.count("mount_device") == 1


@pytest.mark.parametrize("first", ["a", "z"])
def test_after_a_restart_it_belongs_to_the_pod_that_has_it_mounted_whoever_is_read_first(
    node: TestNode, first: str
) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(labelled(first, "s0:c1,c2"))
    node.apply(labelled("m", "s0:c3,c4"))
    node.start()
    node.sources_ready()
    assert node.is_mounted(first)
    assert not node.is_mounted("m")
    assert node.world.pods[f"u-{first}"].errors == {}
    node.delete(f"u-{first}")
    assert node.is_mounted("m")


def test_two_labels_in_one_pod_are_an_error_where_one_would_be_applied(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    document = labelled("a", "s0:c1,c2")
    second = {"name": "second", "securityContext": {"seLinuxOptions": {"level": "s0:c3,c4"}}}
    document["spec"]["containers"].append({**second, "volumeMounts": [{"name": "data", "mountPath": "/d"}]})
    node.apply(document)
    assert disk_script.calls == []
    assert "multiple SELinux labels" in node.world.pods["u-a"].errors["data"]
    assert counted(node) == {"pod_context_mismatch_errors": {("RWO",): 1}}


def test_one_claim_by_two_names_has_one_label(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    document = pod("a", claim_of("one", "d1"), claim_of("two", "d1"), uid="u-a")
    document["spec"]["containers"] = [
        {
            "name": name,
            "securityContext": {"seLinuxOptions": {"level": level}},
            "volumeMounts": [{"name": name, "mountPath": "/d"}],
        }
        for name, level in (("one", "s0:c1,c2"), ("two", "s0:c3,c4"))
    ]
    node.apply(document)
    assert "multiple SELinux labels" in node.world.pods["u-a"].errors["two"]
    assert disk_script.last("mount_device").selinux_label == X


def test_labels_that_are_not_applied_are_only_counted(host: FakeHost, disk_script: Script) -> None:
    node = TestNode(host, plugins_of(Disk(disk_script)), Config(selinux_mount=False))
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1", modes=("ReadWriteMany",)))
    node.apply(labelled("a", "s0:c1,c2"), labelled("b", "s0:c3,c4"), labelled("c", 's0"'))
    assert node.is_mounted("a")
    assert node.is_mounted("b")
    assert node.is_mounted("c")
    assert disk_script.last("mount_device").selinux_label == ""
    warned = counted(node)
    assert warned["volume_context_mismatch_warnings"] == {("example.com/disk", "RWX"): 2}
    assert warned["container_warnings"] == {("RWX",): 1}
    assert not [name for name in warned if name.endswith("errors")]


@pytest.mark.parametrize("why_not", ["no SELinux", "the type cannot", "Recursive"])
def test_nothing_is_labelled_where_it_cannot_be_or_is_not_wanted(
    host: FakeHost, disk_script: Script, why_not: str
) -> None:
    if why_not == "no SELinux":
        host = FakeHost()
    if why_not == "the type cannot":
        disk_script.facets = DISK_FACETS
    more = {"seLinuxChangePolicy": "Recursive"} if why_not == "Recursive" else {}
    node = TestNode(host, plugins_of(Disk(disk_script)))
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(labelled("a", "s0:c1,c2", **more), labelled("b", "s0:c3,c4", **more))
    assert node.is_mounted("a")
    assert node.is_mounted("b")
    assert disk_script.last("mount_device").selinux_label == ""
    assert counted(node) == {}


steps = st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "s0:c1,c2", "s0:c3,c4"]), st.booleans())


@given(st.lists(steps, max_size=14))
def test_whatever_pods_come_and_go_a_device_has_one_label_and_nobody_waits_for_nobody(
    story: list[tuple[str, str, bool]],
) -> None:
    script = Script(facets=replace(DISK_FACETS, selinux=True))
    host = FakeHost(container_label="system_u:object_r:container_file_t:s0")
    node = TestNode(host, plugins_of(Disk(script)))
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1", modes=("ReadWriteMany",)))
    there: dict[str, str] = {}
    for name, level, restart in story:
        if name in there:
            del there[name]
            node.delete(f"u-{name}")
        else:
            there[name] = level
            node.apply(labelled(name, level))
        if restart:
            node.start()
            node.sources_ready()
        mounted = {other for other in there if node.is_mounted(other)}
        assert bool(mounted) == bool(there), "somebody has it as long as somebody wants it"
        assert len({there[other] for other in mounted}) <= 1
        waiting = {other for other in there if other not in mounted}
        assert all(there[other] not in {there[one] for one in mounted} for other in waiting)
        actual = node.world.actual.get(NAME)
        assert (actual is None) == (not there)
        if actual is not None:
            (label,) = {there[other] for other in mounted}
            assert actual.device_label == (f"system_u:object_r:container_file_t:{label}" if label else "")
            assert set(actual.mounts) == {f"u-{other}" for other in mounted}
