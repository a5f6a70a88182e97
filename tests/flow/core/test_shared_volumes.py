"""Attachable, device-mountable volumes: which operations, how often, in which order (behaviours §2.8, scenarios C)."""

import pytest

from tests.flow.core.probes import Script, claim_of, storage
from volmgr.errors import DeviceLostError, OperationError, UncertainError
from volmgr.model.volume import Presence
from volmgr.plugin import Notice
from volmgr.testing.node import TestNode, pod

NAME = "example.com/disk/d1"
MAKING = ["attach", "wait_for_attach", "mount_device", "mount"]
TIMEOUT = UncertainError("it took too long")
FAILURE = OperationError("it failed")


@pytest.fixture(autouse=True)
def one_disk(node: TestNode) -> None:
    node.put_file("storage.yaml", *storage("d1"))


def test_no_pods_no_operations(node: TestNode, disk_script: Script) -> None:
    node.advance(3600)
    assert disk_script.calls == []


def test_a_pod_s_disk_is_attached_mounted_on_the_node_and_then_for_the_pod(node: TestNode, disk_script: Script) -> None:
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert disk_script.calls == MAKING
    assert node.is_mounted("web")
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert (volume.attached, volume.device, volume.device_path) == (Presence.YES, Presence.YES, "fake/device/path")
    request = disk_script.last("mount")
    assert request.device_path == "fake/device/path"
    assert request.device_target == node.host.paths.root / "plugins/example.com/disk/mounts/d1"
    assert request.target == node.host.paths.root / "pods/u1/volumes/example.com~disk/pv-d1"


def test_what_is_odd_of_a_mounted_device_is_an_event_of_its_volume(node: TestNode, disk_script: Script) -> None:
    disk_script.notices = (Notice("PathsMissing", "1 of 2 paths is there"),)
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert node.is_mounted("web")
    told = [(event.reason, event.message, event.volume) for event in node.world.events.after(0)]
    assert told.count(("PathsMissing", "1 of 2 paths is there", NAME)) == 1


def test_a_removed_pod_s_disk_is_unmounted_unmounted_on_the_node_and_detached_in_that_order(
    node: TestNode, disk_script: Script
) -> None:
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    node.delete("u1")
    assert disk_script.calls == [*MAKING, "unmount", "unmount_device", "detach"]
    assert node.world.actual.get(NAME) is None
    assert node.is_unmounted("u1")


def test_the_device_goes_once_and_only_after_the_last_of_two_pods(node: TestNode, disk_script: Script) -> None:
    node.apply(pod("a", claim_of("data", "d1"), uid="ua"), pod("b", claim_of("data", "d1"), uid="ub"))
    assert disk_script.calls == [*MAKING, "mount"]
    node.registry.delete("ua")
    node.registry.delete("ub")
    node.settle()
    assert disk_script.calls[5:] == ["unmount", "unmount", "unmount_device", "detach"]


def test_one_pod_keeps_its_disk_when_the_other_goes(node: TestNode, disk_script: Script) -> None:
    node.apply(pod("a", claim_of("data", "d1"), uid="ua"), pod("b", claim_of("data", "d1"), uid="ub"))
    node.delete("ua")
    assert disk_script.calls[5:] == ["unmount"]
    assert node.is_mounted("b")
    node.apply(pod("a", claim_of("data", "d1"), uid="ua"))
    assert disk_script.calls[6:] == ["mount"]


def test_a_device_that_a_mount_did_not_find_is_mounted_again_before_that_mount_is(
    node: TestNode, disk_script: Script
) -> None:
    disk_script.fail("mount", DeviceLostError("it is not staged"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert disk_script.calls == [*MAKING, "mount_device"]
    node.advance(1)
    assert disk_script.calls == [*MAKING, "mount_device", "mount"]
    assert node.is_mounted("web")


def test_a_device_that_was_lost_is_made_again_for_who_has_it_and_who_wants_it(
    node: TestNode, disk_script: Script
) -> None:
    node.apply(pod("a", claim_of("data", "d1"), uid="ua"))
    disk_script.fail("mount", DeviceLostError("it is not staged"))
    disk_script.fail("mount_device", FAILURE)
    node.apply(pod("b", claim_of("data", "d1"), uid="ub"))
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert (volume.device, set(volume.mounts)) == (Presence.UNCERTAIN, {"ua"})
    assert disk_script.count("unmount_device") == 0
    node.advance(2)
    assert node.is_mounted("b")
    node.delete("ua")
    node.delete("ub")
    assert disk_script.calls[-2:] == ["unmount_device", "detach"]


def test_a_volume_knows_each_of_the_two_pods_that_have_it(node: TestNode) -> None:
    node.apply(pod("a", claim_of("data", "d1"), uid="ua"), pod("b", claim_of("data", "d1"), uid="ub"))
    assert {uid for volume in node.world.actual for uid in volume.mounts} == {"ua", "ub"}
    node.delete("ub")
    assert {uid for volume in node.world.actual for uid in volume.mounts} == {"ua"}


@pytest.mark.parametrize(
    ("errors", "state", "unmounts"),
    [
        pytest.param([TIMEOUT], Presence.UNCERTAIN, 1, id="timeout"),
        pytest.param([FAILURE], Presence.NO, 0, id="failure"),
        pytest.param([TIMEOUT, FAILURE], Presence.NO, 0, id="timeout then failure"),
    ],
)
def test_a_device_is_unmounted_iff_its_mount_may_be_there(
    node: TestNode, disk_script: Script, errors: list[BaseException], state: Presence, unmounts: int
) -> None:
    disk_script.fail("mount_device", *errors)
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    for _ in errors[1:]:
        node.advance(0.5)
    assert disk_script.count("mount_device") == len(errors)
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert volume.device is state
    node.delete("u1")
    assert disk_script.count("unmount_device") == unmounts
    assert disk_script.count("unmount") == 0
    assert disk_script.count("detach") == 1
    assert node.world.actual.get(NAME) is None
    assert node.host.files.names(node.host.paths.state / "volumes") == ()


@pytest.mark.parametrize(
    ("errors", "state", "unmounts"),
    [
        pytest.param([TIMEOUT], Presence.UNCERTAIN, 1, id="timeout"),
        pytest.param([FAILURE], Presence.NO, 0, id="failure"),
        pytest.param([TIMEOUT, FAILURE], Presence.NO, 0, id="timeout then failure"),
    ],
)
def test_a_pod_s_mount_is_unmounted_iff_it_may_be_there_and_the_device_always(
    node: TestNode, disk_script: Script, errors: list[BaseException], state: Presence, unmounts: int
) -> None:
    disk_script.fail("mount", *errors)
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    for _ in errors[1:]:
        node.advance(0.5)
    volume = node.world.actual.get(NAME)
    assert volume is not None
    mounted = volume.mounts.get("u1")
    assert (mounted.state if mounted else Presence.NO) is state
    node.delete("u1")
    assert disk_script.count("unmount") == unmounts
    assert disk_script.count("unmount_device") == 1
    assert node.world.actual.get(NAME) is None
    assert node.host.files.names(node.host.paths.state / "mounts") == ()


@pytest.mark.parametrize("error", [TIMEOUT, FAILURE], ids=["timeout", "failure"])
def test_a_failed_repeat_never_makes_less_of_a_mounted_volume(
    node: TestNode, disk_script: Script, error: BaseException
) -> None:
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    volume = node.world.actual.get(NAME)
    assert volume is not None
    disk_script.fail("mount", error)
    node.apply(pod("other", claim_of("data", "d1"), uid="u2"))
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert volume.device is Presence.YES
    assert volume.mounts["u1"].state is Presence.YES
    node.delete("u1")
    node.delete("u2")
    assert disk_script.count("unmount_device") == 1


def test_an_attachment_that_may_be_there_is_detached(node: TestNode, disk_script: Script) -> None:
    disk_script.fail("attach", TIMEOUT)
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert disk_script.calls == ["attach"]
    node.delete("u1")
    assert disk_script.calls == ["attach", "detach"]
    assert node.world.actual.get(NAME) is None


def test_an_attachment_that_failed_cleanly_is_forgotten(node: TestNode, disk_script: Script) -> None:
    disk_script.fail("attach", FAILURE)
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    node.delete("u1")
    assert disk_script.calls == ["attach"]
    assert node.host.files.names(node.host.paths.state / "volumes") == ()


@pytest.mark.parametrize("error", [TIMEOUT, FAILURE, ValueError("a bug")], ids=["timeout", "failure", "bug"])
def test_a_failed_unmount_leaves_the_mount_uncertain_and_is_tried_again(
    node: TestNode, disk_script: Script, error: BaseException
) -> None:
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    disk_script.fail("unmount", error)
    node.delete("u1")
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert volume.mounts["u1"].state is Presence.UNCERTAIN
    assert disk_script.count("unmount_device") == 0
    node.advance(0.5)
    assert disk_script.calls[4:] == ["unmount", "unmount", "unmount_device", "detach"]


def test_a_mount_that_failed_cleanly_after_a_failed_unmount_stays_uncertain(
    node: TestNode, disk_script: Script
) -> None:
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    disk_script.fail("unmount", FAILURE)
    node.delete("u1")
    disk_script.fail("mount", FAILURE)
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    volume = node.world.actual.get(NAME)
    assert volume is not None
    assert volume.mounts["u1"].state is Presence.UNCERTAIN
    node.advance(0.5)
    assert node.is_mounted("web")


def test_a_volume_that_is_not_mounted_on_the_node_never_counts_as_vanished_there(
    node: TestNode, disk_script: Script
) -> None:
    """A type need not mount anything there: a driver may only prepare its device."""
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    for _ in range(2):
        node.advance(60)
        node.mounts_changed()
        assert disk_script.calls == MAKING
        assert node.warnings() == ()
        node.start()
        node.sources_ready()
