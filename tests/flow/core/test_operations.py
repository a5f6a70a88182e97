"""Which operations run beside which, when a failed one runs again, and what an overdue one keeps (behaviours §2.7)."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flow.core.probes import (
    DISK_FACETS,
    Disk,
    EmptyDir,
    Plain,
    Script,
    claim_of,
    config_map,
    needs,
    node_item,
    plain,
    storage,
)
from volmgr.config import Config
from volmgr.errors import OperationError, PluginError, SpecError, TransientError, UncertainError
from volmgr.messages import DriverAppeared
from volmgr.model.volume import Facets, Presence
from volmgr.operations import Verb
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr.volume_type import Origin
from volmgr_hostpath.plugin import HostPath

SHARED = "example.com/disk/d1"
SHARED_CLAIMS = [claim_of("data", "d1")]


def running(node: TestNode) -> list[str]:
    """Give what runs now, `mount ua`."""
    return sorted(f"{operation.verb} {operation.pod_uid}".strip() for operation in node.world.running)


def offer(node: TestNode, *uids: str) -> None:
    """Let Pods that share a disk be accepted, and let nothing run to its end yet."""
    for uid in uids:
        node.registry.apply(node_item(node, pod(uid, claim_of("data", "d1"), uid=uid)))
    node.reconciler.step()


# --- exclusion ---


def test_volumes_of_two_pods_are_mounted_side_by_side(node: TestNode) -> None:
    for uid in ("ua", "ub"):
        node.registry.apply(node_item(node, pod(uid, plain("data"), uid=uid)))
    node.reconciler.step()
    assert running(node) == ["mount ua", "mount ub"]


@pytest.mark.parametrize(
    "facets",
    [replace(DISK_FACETS, device=False), replace(DISK_FACETS, attach=False), DISK_FACETS],
    ids=["attachable", "device-mountable", "both"],
)
def test_a_shared_disk_is_mounted_for_one_pod_after_the_other(
    node: TestNode, disk_script: Script, facets: Facets
) -> None:
    disk_script.facets = facets
    node.put_file("storage.yaml", *storage("d1"))
    offer(node, "ua", "ub")
    seen: list[list[str]] = []
    while node.world.running:
        seen.append(running(node))
        node.step()
        node.reconciler.step()
    assert all(len(each) == 1 for each in seen)
    assert seen[-2:] == [["mount ua"], ["mount ub"]]


def test_a_shared_disk_is_unmounted_for_both_pods_side_by_side_and_on_the_node_once(node: TestNode) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(*(pod(uid, claim_of("data", "d1"), uid=uid) for uid in ("ua", "ub")))
    node.registry.delete("ua")
    node.registry.delete("ub")
    node.reconciler.step()
    assert running(node) == ["unmount ua", "unmount ub"]
    node.step()
    node.reconciler.step()
    assert running(node) == ["unmount ub"]
    node.step()
    node.reconciler.step()
    assert running(node) == ["unmount_device"]


def test_what_was_refused_is_looked_at_again_so_no_stale_operation_runs(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    offer(node, "ua", "ub")
    node.registry.delete("ub")
    node.settle()
    assert disk_script.count("mount") == 1
    assert node.is_mounted("ua")


# --- back-off ---


def test_a_failed_mount_is_tried_again_after_500_ms_twice_as_long_each_time_up_to_122_s(
    node: TestNode, plain_script: Script
) -> None:
    plain_script.fail("mount", *[OperationError("refused")] * 12)
    node.apply(pod("web", plain("data"), uid="u1"))
    attempts = [node.now]
    while plain_script.count("mount") < 12:
        due = node.reconciler.timers.next_due()
        assert due is not None
        before = plain_script.count("mount")
        node.advance(due - node.now)
        if plain_script.count("mount") > before:
            attempts.append(node.now)
    gaps = [later - earlier for earlier, later in itertools.pairwise(attempts)]
    assert gaps == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122, 122]
    node.advance(122)
    assert node.is_mounted("web")


def test_within_its_back_off_nothing_runs_and_the_next_try_is_named(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", *[OperationError("refused")] * 2)
    node.apply(pod("web", plain("data"), uid="u1"))
    node.advance(0.5)
    node.advance(0.9)
    assert plain_script.count("mount") == 2
    (report,) = why(node.world, "web")
    (volume,) = report.volumes
    assert (volume.step, volume.attempts, volume.last_error) == ("mount", 2, "refused")
    assert volume.next_retry is not None


def test_a_mount_that_never_works_costs_ten_attempts_and_one_event_a_minute_at_most(
    node: TestNode, plain_script: Script
) -> None:
    plain_script.fail("mount", *[TransientError("driver x is not registered")] * 1000)
    node.apply(pod("web", plain("data"), uid="u1"))
    node.advance(60)
    assert plain_script.count("mount") <= 10
    found = [event for event in node.world.events.after(0) if "driver x" in event.message]
    assert {event.message for event in found} == {"mount: driver x is not registered"}
    assert found[-1].count == plain_script.count("mount"), "one event that counts"


def test_the_end_of_its_pod_drops_a_mount_s_back_off(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", UncertainError("timeout"), UncertainError("timeout"))
    node.apply(pod("web", plain("data"), uid="u1"))
    node.advance(0.5)
    node.delete("u1")
    assert plain_script.calls == ["mount", "mount", "unmount"]


def test_a_pod_that_returns_is_mounted_at_once_though_its_unmount_is_backed_off(
    node: TestNode, plain_script: Script
) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    plain_script.fail("unmount", *[OperationError("busy")] * 5)
    node.delete("u1")
    node.advance(5)
    node.apply(pod("web", plain("data"), uid="u1"))
    assert node.is_mounted("u1")


def test_an_object_that_changes_drops_the_back_off_of_whoever_needs_it(
    node: TestNode, plain_script: Script, disk_script: Script
) -> None:
    plain_script.references = disk_script.references = needs("password")
    node.put_file("storage.yaml", *storage("d1"))
    node.put_file("password.yaml", config_map("password", is_right="no"))
    plain_script.fail("mount", *[OperationError("wrong password")] * 8)
    disk_script.fail("mount_device", *[OperationError("wrong password")] * 8)
    node.apply(pod("web", plain("tmp"), claim_of("data", "d1"), uid="u1"))
    node.advance(60)
    plain_script.plans.clear()
    disk_script.plans.clear()
    node.put_file("password.yaml", config_map("password", is_right="yes"))
    assert node.is_mounted("web")


def test_a_driver_that_appears_is_mounted_with_at_once(host: FakeHost, plain_script: Script) -> None:
    waiting = Script(facets=Facets())
    waiting.fail("mount", *[TransientError("driver is not registered", waits_for=Plain.name)] * 8)
    node = TestNode(host, plugins_of(EmptyDir(waiting)))
    node.sources_ready()
    node.apply(pod("needs", {"name": "v", "emptyDir": {}}, uid="u1"))
    node.advance(60)
    assert waiting.count("mount") == 7
    waiting.plans.clear()
    node.reconciler.post(DriverAppeared(Plain(plain_script), Origin("test", "0", "test")))
    node.settle()
    assert node.is_mounted("needs")


def test_another_pod_s_operation_never_drops_a_back_off(node: TestNode, disk_script: Script) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    disk_script.fail("mount", *[OperationError("no")] * 100)
    node.apply(*(pod(uid, claim_of("data", "d1"), uid=uid) for uid in ("ua", "ub")))
    node.advance(60)
    assert disk_script.count("mount") <= 2 * 8


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "Always"])
def test_a_volume_is_tried_again_whatever_the_pod_s_restart_policy(
    node: TestNode, plain_script: Script, policy: str
) -> None:
    plain_script.fail("mount", OperationError("no such export"))
    node.apply(pod("web", plain("data"), uid="u1", restartPolicy=policy))
    node.advance(0.5)
    assert node.is_mounted("web")


def test_a_pod_that_is_never_started_again_gets_its_host_path_once_it_is_there(host: FakeHost) -> None:
    node = TestNode(host, plugins_of(HostPath()))
    node.sources_ready()
    volume = {"name": "v", "hostPath": {"path": "/srv/data", "type": "Directory"}}
    node.apply(pod("web", volume, uid="u1", restartPolicy="Never"))
    node.advance(600)
    assert "/srv/data is not a directory, it does not exist" in why(node.world, "web")[0].text
    host.mkdir("/srv/data")
    node.advance(122)
    assert node.is_mounted("web")


# --- classes of errors ---


@pytest.mark.parametrize(
    ("error", "state", "again"),
    [
        (TransientError("later", waits_for="driver x"), Presence.NO, True),
        (SpecError("spec.path is wrong"), Presence.NO, False),
        (PluginError("mount.nfs is not installed"), Presence.NO, True),
        (OperationError("refused"), Presence.NO, True),
        (UncertainError("timeout"), Presence.UNCERTAIN, True),
        (ZeroDivisionError("a bug"), Presence.UNCERTAIN, True),
        (SystemExit(3), Presence.UNCERTAIN, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_a_mount_s_error_says_what_is_left_and_whether_it_is_tried_again(
    node: TestNode, plain_script: Script, error: BaseException, state: Presence, again: bool
) -> None:
    plain_script.fail("mount", error)
    node.apply(pod("web", plain("data"), uid="u1"))
    volume = node.world.actual.get("example.com/plain/u1-data")
    mount = volume.mounts.get("u1") if volume else None
    assert (mount.state if mount else Presence.NO) is state
    node.advance(600)
    assert node.is_mounted("web") is again
    assert plain_script.count("mount") == (2 if again else 1)


@pytest.mark.parametrize(
    "error", [SpecError("x"), PluginError("x"), OperationError("x"), UncertainError("x"), KeyError()]
)
def test_whatever_an_unmount_fails_with_but_a_transient_error_it_is_uncertain_and_tried_again(
    node: TestNode, plain_script: Script, error: BaseException
) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    plain_script.fail("unmount", error)
    node.delete("u1")
    volume = node.world.actual.get("example.com/plain/u1-data")
    assert volume is not None
    assert volume.mounts["u1"].state is Presence.UNCERTAIN
    node.advance(0.5)
    assert node.is_unmounted("u1")


def test_an_unmount_that_changed_nothing_leaves_the_mount_as_it_was(node: TestNode, plain_script: Script) -> None:
    node.apply(pod("web", plain("data"), uid="u1"))
    plain_script.fail("unmount", TransientError("later"))
    node.delete("u1")
    volume = node.world.actual.get("example.com/plain/u1-data")
    assert volume is not None
    assert volume.mounts["u1"].state is Presence.YES


def test_a_wrong_manifest_is_tried_again_once_it_has_changed(node: TestNode, disk_script: Script) -> None:
    disk_script.fail("mount", SpecError("spec.diskProbe.disk is wrong"))
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    node.advance(600)
    assert disk_script.count("mount") == 1
    node.put_file("storage.yaml", *storage("d1", source={"diskProbe": {"disk": "d1", "readOnly": True}}))
    assert node.is_mounted("web")


# --- overdue operations, endpoints ---


def overdue(node: TestNode) -> None:
    """Let the running operations pass their deadline and its grace."""
    node.now += node.config.operation_deadline + node.config.quarantine_grace
    node.reconciler.step()


def test_an_overdue_mount_is_named_keeps_its_keys_and_settles_as_uncertain(
    node: TestNode, plain_script: Script
) -> None:
    node.registry.apply(node_item(node, pod("web", plain("data"), uid="u1")))
    node.reconciler.step()
    overdue(node)
    (state,) = node.world.running.values()
    assert state.quarantined
    assert any("mount does not return" in text for text in node.warnings())
    assert "past its deadline: quarantined until it really ends" in why(node.world, "web")[0].text
    node.registry.delete("u1")
    node.reconciler.step()
    assert running(node) == ["mount u1"], "its unmount must not overtake it"
    node.settle()
    assert plain_script.calls == ["mount", "unmount"]


def test_a_mount_that_ends_late_is_made_again(node: TestNode, plain_script: Script) -> None:
    node.registry.apply(node_item(node, pod("web", plain("data"), uid="u1")))
    node.reconciler.step()
    overdue(node)
    node.step()
    node.reconciler.step()
    volume = node.world.actual.get("example.com/plain/u1-data")
    assert volume is not None
    assert volume.mounts["u1"].state is Presence.UNCERTAIN
    node.advance(0.5)
    assert node.is_mounted("web")
    assert plain_script.calls == ["mount", "mount"]


@pytest.fixture
def narrow(host: FakeHost, node: TestNode, plain_script: Script) -> TestNode:
    """A node that does two operations at once per endpoint, with three Pods of one server."""
    plain_script.endpoint = "server"
    narrow = TestNode(host, node.plugins, Config(endpoint_operations=2))
    narrow.sources_ready()
    return narrow


def test_so_many_mounts_of_one_endpoint_run_at_once(narrow: TestNode, plain_script: Script) -> None:
    for uid in ("ua", "ub", "uc"):
        narrow.registry.apply(node_item(narrow, pod(uid, plain("data"), uid=uid)))
    narrow.reconciler.step()
    assert running(narrow) == ["mount ua", "mount ub"]
    overdue(narrow)
    assert running(narrow) == ["mount ua", "mount ub", "mount uc"], "overdue ones leave the limit"
    narrow.settle()
    narrow.advance(1)
    assert all(narrow.is_mounted(uid) for uid in ("ua", "ub", "uc"))
    assert plain_script.count("mount") == 5


def test_so_many_unmounts_of_one_endpoint_run_at_once(narrow: TestNode) -> None:
    uids = ("ua", "ub", "uc")
    narrow.apply(*(pod(uid, plain("data"), uid=uid) for uid in uids))
    for uid in uids:
        narrow.registry.delete(uid)
    narrow.reconciler.step()
    assert running(narrow) == ["unmount ua", "unmount ub"]
    narrow.settle()
    assert all(narrow.is_unmounted(uid) for uid in uids)


# --- many Pods, one volume ---


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from("abcd"), st.integers(0, 3)), max_size=25),
    st.randoms(use_true_random=False),
    st.lists(st.sampled_from(["mount", "unmount", "mount_device", "unmount_device", "attach", "detach"]), max_size=8),
)
def test_many_pods_that_come_and_go_on_one_volume_end_as_they_are_wanted(
    steps: list[tuple[bool, str, int]], chance: random.Random, failures: list[str]
) -> None:
    plain_script, script = Script(facets=Facets()), Script(facets=DISK_FACETS)
    node = TestNode(FakeHost(), plugins_of(Plain(plain_script), Disk(script)), choose=chance.randrange)
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1", modes=("ReadWriteMany",)))
    for number, operation in enumerate(failures):
        script.fail(operation, OperationError("no") if number % 2 else UncertainError("perhaps"))
    wanted: set[str] = set()
    for come, letter, chores in steps:
        uid = f"u{letter}"
        if come:
            node.registry.apply(node_item(node, pod(f"pod-{letter}", claim_of("data", "d1"), uid=uid)))
            wanted.add(uid)
        elif uid in wanted:
            node.registry.delete(uid)
            wanted.discard(uid)
        for _ in range(chores):
            node.step()
    node.settle()
    node.advance(1000)
    volume = node.world.actual.get(SHARED)
    assert set(volume.mounts if volume else ()) == wanted
    assert all(node.is_mounted(uid) for uid in wanted)
    assert set(node.host.files.names(node.host.paths.pods)) == wanted
    assert (volume is None) == (not wanted)
    if not wanted:
        assert node.host.files.names(node.host.paths.state / "volumes") == ()
        assert node.host.files.names(node.host.paths.state / "mounts") == ()
    assert Verb.UNMOUNT_DEVICE not in {operation.verb for operation in node.world.running}


def test_forty_pods_that_come_and_go_on_one_volume_leave_nothing_waiting(disk_script: Script) -> None:
    chance = random.Random(24)
    node = TestNode(FakeHost(), plugins_of(Disk(disk_script)), choose=chance.randrange)
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1", modes=("ReadWriteMany",)))
    for operation in ("mount", "unmount", "mount_device", "unmount_device", "attach", "detach"):
        disk_script.fail(operation, *chance.choices([None, OperationError("no"), UncertainError("perhaps")], k=20))
    uids = [f"u{number}" for number in range(40)]
    wanted: set[str] = set()
    for uid in chance.choices(uids, k=400):
        if uid in wanted:
            node.registry.delete(uid)
        else:
            node.registry.apply(node_item(node, pod(uid, claim_of("data", "d1"), uid=uid)))
        wanted ^= {uid}
        for _ in range(chance.randrange(4)):
            node.step()
    node.settle()
    node.advance(1000)
    assert {uid for uid in uids if node.is_mounted(uid)} == wanted
    assert {uid for uid in uids if node.is_unmounted(uid)} == set(uids) - wanted
    assert node.world.running == {}
    assert len(node.world.admission) == 0
    for uid in sorted(wanted):
        node.delete(uid)
    node.advance(1000)
    assert node.host.files.names(node.host.paths.state / "volumes") == ()


def test_an_uncertain_failure_keeps_its_back_off_and_a_clean_one_its_uncertainty_no_longer(
    node: TestNode, disk_script: Script
) -> None:
    node.put_file("storage.yaml", *storage("d1"))
    disk_script.fail("mount_device", *[UncertainError("timeout")] * 2, OperationError("refused"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    seen: list[tuple[float, Presence]] = []
    start = node.now
    for seconds in (0.5, 0.5, 0.5):
        volume = node.world.actual.get(SHARED)
        assert volume is not None
        seen.append((disk_script.count("mount_device"), volume.device))
        node.advance(seconds)
    volume = node.world.actual.get(SHARED)
    assert volume is not None
    assert node.now == start + 1.5
    assert seen == [(1, Presence.UNCERTAIN), (2, Presence.UNCERTAIN), (2, Presence.UNCERTAIN)]
    assert (disk_script.count("mount_device"), volume.device) == (3, Presence.NO)


class _Far(Plain):
    """A type whose mounts may take an hour."""

    mount_deadline = 3600.0


def test_a_type_may_allow_its_mounts_more_time_and_no_other_operation(host: FakeHost, plain_script: Script) -> None:
    node = TestNode(host, plugins_of(_Far(plain_script)))
    node.sources_ready()
    node.registry.apply(node_item(node, pod("web", plain("data"), uid="u1")))
    node.reconciler.step()
    overdue(node)
    (state,) = node.world.running.values()
    assert not state.quarantined
    node.settle()
    node.registry.delete("u1")
    node.reconciler.step()
    assert running(node) == ["unmount u1"]
    overdue(node)
    (state,) = node.world.running.values()
    assert state.quarantined
    node.settle()
