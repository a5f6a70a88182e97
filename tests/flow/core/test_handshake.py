"""Where a controller attaches: what a node tells it, what it says, and what is mounted, waits or stays meanwhile."""

from __future__ import annotations

from cProfile import Profile
from dataclasses import replace

import pytest

from tests.flow.core.probes import DISK_FACETS, Disk, Plain, Script, claim_of, plain, storage
from volmgr.actual import ActualVolume, PodMount
from volmgr.config import Config
from volmgr.errors import OperationError
from volmgr.messages import NodeMissing, NodeStatusRead, Reconstructed
from volmgr.model.meta import ObjectMeta
from volmgr.model.objects import MANAGED, AttachedVolume, Node
from volmgr.model.quantity import Quantity
from volmgr.model.volume import Attachable, Facets, Presence
from volmgr.report.pods import ready
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

DISK = "example.com/disk/d1"
OTHER = "example.com/disk/d2"
MOUNTED = ["wait_for_attach", "mount_device", "mount"]
NOT_YET = f"volume {DISK} is not yet in node's status"


@pytest.fixture
def config() -> Config:
    return Config(controller_attach=True, node_name="n1")


@pytest.fixture
def node(host: FakeHost, plain_script: Script, disk_script: Script, config: Config) -> TestNode:
    """A node whose volumes a controller attaches, and whose status was not read yet."""
    node = TestNode(host, plugins_of(Plain(plain_script), Disk(disk_script)), config)
    node.sources_ready()
    node.put_file("storage.yaml", *storage("d1"), *storage("d2"))
    return node


def status(
    attached: dict[str, str],
    in_use: tuple[str, ...] = (),
    *,
    reports: int | None = None,
    managed: bool = True,
    memory: str = "1Gi",
) -> NodeStatusRead:
    """Give a node status."""
    return NodeStatusRead(
        Node(
            metadata=ObjectMeta(name="n1", annotations={MANAGED: "true"} if managed else {}),
            allocatable={"memory": Quantity.parse(memory)},
            volumes_attached=tuple(AttachedVolume(name=name, device_path=path) for name, path in attached.items()),
            volumes_in_use=in_use,
        ),
        reports,
    )


def hear(node: TestNode, message: NodeStatusRead | NodeMissing | Reconstructed) -> None:
    """Let the node hear of something."""
    node.reconciler.post(message)
    node.settle()


def web(node: TestNode, name: str = "web", disk: str = "d1") -> None:
    """Let a Pod want a disk."""
    node.apply(pod(name, claim_of("data", disk), uid=f"u-{name}"))


def text_of(node: TestNode, name: str = "web") -> str:
    (report,) = why(node.world, name)
    return report.text


# --- what is mounted when ---


def test_a_disk_that_is_reported_and_attached_is_waited_for_and_mounted_and_never_attached_by_the_node(
    node: TestNode, disk_script: Script
) -> None:
    web(node)
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    assert disk_script.calls == MOUNTED
    assert disk_script.last("wait_for_attach").device_path == "/dev/sda"


def test_a_disk_that_is_not_reported_in_use_waits_without_a_call_or_an_event(
    node: TestNode, disk_script: Script
) -> None:
    web(node)
    hear(node, status({DISK: "/dev/sda"}))
    node.advance(122)
    assert [event.reason for event in node.world.events.after(0)] == []
    node.advance(600)
    assert disk_script.calls == []
    assert [text for text in node.warnings() if "timed out waiting for the condition" not in text] == []
    assert "waits until the node status reports the volume in use" in text_of(node)


def test_a_disk_that_is_reported_and_not_attached_waits_without_back_off_and_is_mounted_at_once_when_it_is(
    node: TestNode, disk_script: Script
) -> None:
    web(node)
    hear(node, status({}, (DISK,)))
    node.advance(122)
    assert node.warnings() == ()
    node.advance(600)
    assert disk_script.calls == []
    assert NOT_YET in text_of(node)
    assert [text for text in node.warnings() if "timed out waiting for the condition" not in text] == []
    assert node.reconciler.timers.next_due() is None
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    assert disk_script.calls == MOUNTED


def test_a_removed_pod_s_disk_is_unmounted_and_then_no_longer_in_use_for_its_controller_to_detach(
    node: TestNode, disk_script: Script
) -> None:
    web(node)
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    disk_script.calls.clear()
    disk_script.fail("unmount_device", OperationError("busy"))
    node.delete("u-web")
    assert disk_script.calls == ["unmount", "unmount_device"]
    assert node.in_use == [(DISK,)]
    node.advance(0.5)
    assert disk_script.calls == ["unmount", "unmount_device", "unmount_device"]
    assert node.in_use == [(DISK,), ()]
    assert node.world.actual.get(DISK) is None


# --- what is told ---


def test_what_is_in_use_is_told_sorted_and_once_from_when_it_is_wanted(node: TestNode) -> None:
    web(node, disk="d2")
    web(node, "other")
    assert node.in_use == [], "before it is known what is attached, a list would lack what is"
    hear(node, status({}))
    assert node.in_use == [(DISK, OTHER)]
    hear(node, status({DISK: "/dev/sda", OTHER: "/dev/sdb"}, (DISK, OTHER)))
    assert node.is_mounted("web")
    assert node.is_mounted("other")
    assert node.in_use == [(DISK, OTHER)]
    node.delete("u-web")
    assert node.in_use == [(DISK, OTHER), (DISK,)]


def test_that_nothing_is_in_use_is_told_once_after_a_start(node: TestNode) -> None:
    hear(node, status({}, ("example.com/disk/of-before",)))
    hear(node, status({}, ("example.com/disk/of-before",)))
    assert node.in_use == [()]


def test_a_driver_that_attaches_no_more_is_in_use_no_more_and_needs_no_status(
    node: TestNode, disk_script: Script
) -> None:
    web(node)
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    disk_script.facets = Facets(device=True)
    web(node, "other")
    assert node.is_mounted("other")
    actual = node.world.actual.get(DISK)
    assert actual is not None
    assert actual.attachable is Attachable.NO
    node.delete("u-web")
    assert node.in_use == [(DISK,), ()]
    disk_script.facets = DISK_FACETS
    hear(node, status({DISK: "/dev/sda"}, ()))
    actual = node.world.actual.get(DISK)
    assert actual is not None
    assert actual.attachable is Attachable.NO, "only an attachment makes it attachable"


# --- a status that is older than what was told ---


def test_a_status_from_before_the_last_list_reports_nothing_as_in_use(node: TestNode, disk_script: Script) -> None:
    web(node)
    hear(node, status({DISK: "/dev/sda"}, (DISK,), reports=0))
    assert disk_script.calls == MOUNTED
    node.delete("u-web")
    assert node.in_use == [(DISK,), ()]
    disk_script.calls.clear()
    web(node)
    assert node.in_use == [(DISK,), (), (DISK,)]
    for late in (0, 1, 2):  # its list of volumes in use is the right one by chance: the second one is on its way
        hear(node, status({DISK: "/dev/sda"}, (DISK,), reports=late))
        assert disk_script.calls == []
    hear(node, status({}, (DISK,), reports=3))
    assert disk_script.calls == []
    hear(node, status({DISK: "/dev/sdb"}, (DISK,), reports=3))
    assert disk_script.calls == MOUNTED


def test_a_list_that_was_told_and_shown_needs_no_other_for_a_second_pod(node: TestNode, disk_script: Script) -> None:
    web(node)
    hear(node, status({DISK: "/dev/sda"}, (DISK,), reports=0))
    hear(node, status({DISK: "/dev/sda"}, (DISK,), reports=1))
    web(node, "other")
    assert node.is_mounted("other")
    assert disk_script.calls == [*MOUNTED, "mount"]
    assert node.in_use == [(DISK,)]


# --- attached no more ---


def test_what_is_mounted_stays_when_its_status_lacks_it_and_nothing_new_is_mounted(
    node: TestNode, disk_script: Script
) -> None:
    web(node)
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    hear(node, status({}, (DISK,)))
    node.advance(600)
    assert disk_script.calls == MOUNTED
    assert node.is_mounted("web")
    web(node, "other")
    node.advance(600)
    assert disk_script.calls == MOUNTED
    assert f"volume {DISK} is no longer in node's status" in text_of(node, "other")
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    assert disk_script.calls == [*MOUNTED, "mount"]


def test_a_disk_that_was_never_mounted_is_verified_anew_when_it_is_attached_anew(
    node: TestNode, disk_script: Script
) -> None:
    disk_script.fail("mount_device", OperationError("no medium"), OperationError("no medium"))
    web(node)
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    assert disk_script.calls == ["wait_for_attach", "mount_device"]
    hear(node, status({}, (DISK,)))
    node.advance(1)
    assert disk_script.calls == ["wait_for_attach", "mount_device"]
    assert NOT_YET in text_of(node)
    hear(node, status({DISK: "/dev/sdb"}, (DISK,)))
    node.advance(1)
    assert node.is_mounted("web")
    assert disk_script.calls[2:] == ["wait_for_attach", "mount_device", "mount_device", "mount"]
    assert disk_script.last("wait_for_attach").device_path == "/dev/sdb"
    assert disk_script.last("mount_device").device_path == "/dev/sdb"


# --- who is there to attach ---


def test_a_volume_that_waits_names_the_node_that_is_missing(node: TestNode) -> None:
    web(node)
    hear(node, NodeMissing("https://10.0.0.1:6443 has no Node n1; register it"))
    assert (
        "the node status was not read yet: https://10.0.0.1:6443 has no Node n1; register it"
        in ready(node.world).reasons
    )
    line = "waits until the node status reports the volume in use: https://10.0.0.1:6443 has no Node n1; register it"
    assert line.removeprefix("waits ") in text_of(node)
    assert node.warnings() == ("https://10.0.0.1:6443 has no Node n1; register it",)
    hear(node, NodeMissing("https://10.0.0.1:6443 has no Node n1; register it"))
    assert len(node.warnings()) == 1
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    assert node.is_mounted("web")
    assert ready(node.world).ready


def test_a_volume_that_waits_names_the_annotation_that_is_missing(node: TestNode) -> None:
    web(node)
    hear(node, status({}, (DISK,), managed=False))
    assert f'{NOT_YET}: Node n1 has no annotation {MANAGED}: "true", so no controller attaches to it' in text_of(node)
    hear(node, status({}, (DISK,)))
    assert MANAGED not in text_of(node)


def test_a_node_that_goes_takes_nothing_away(node: TestNode, disk_script: Script) -> None:
    web(node)
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    hear(node, NodeMissing("there is no Node n1"))
    node.advance(600)
    assert node.is_mounted("web")
    assert disk_script.calls == MOUNTED


# --- starts ---


def reconstructed(name: str) -> ActualVolume:
    """Give a volume as it is found at a start."""
    mount = PodMount(pod_uid="u1", spec_name="pv", state=Presence.UNCERTAIN)
    return ActualVolume(
        name=name,
        plugin="example.com/disk",
        attachable=Attachable.UNKNOWN,
        attached=Presence.UNCERTAIN,
        device=Presence.UNCERTAIN,
        device_path="/dev/reconstructed",
        reconstructed=True,
    ).with_mount(mount)


@pytest.mark.parametrize("first", ["status", "volumes"])
def test_the_first_status_settles_what_was_found_whichever_is_known_first(host: FakeHost, first: str) -> None:
    node = TestNode(host, plugins_of(), Config(controller_attach=True))  # no type: nobody unmounts it meanwhile
    messages: list[NodeStatusRead | Reconstructed] = [
        status({DISK: "fake/path"}),
        Reconstructed((reconstructed(DISK), reconstructed(OTHER))),
    ]
    for message in messages if first == "status" else messages[::-1]:
        node.reconciler.post(message)
    node.reconciler.step()
    found = {volume.name: (volume.attachable, volume.device_path) for volume in node.world.actual}
    assert found == {DISK: (Attachable.YES, "fake/path"), OTHER: (Attachable.NO, "/dev/reconstructed")}
    assert node.in_use == [(DISK,)]
    hear(node, status({OTHER: "other/path"}))
    found = {volume.name: (volume.attachable, volume.device_path) for volume in node.world.actual}
    assert found == {DISK: (Attachable.YES, "fake/path"), OTHER: (Attachable.NO, "/dev/reconstructed")}


def test_while_the_status_cannot_be_read_nothing_goes_and_what_needs_it_not_is_mounted(
    node: TestNode, disk_script: Script, plain_script: Script
) -> None:
    web(node)
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    node.start()
    node.sources_ready()
    for _ in range(3):
        hear(node, NodeMissing("connection refused"))
        node.advance(60)
    web(node, "other")
    assert not node.is_mounted("other"), "nobody says that its disk is still attached"
    assert node.is_mounted("web")
    node.apply(pod("small", plain("tmp"), uid="u-small"))
    assert node.is_mounted("small")
    node.delete("u-web")
    assert disk_script.count("unmount") == plain_script.count("unmount") == 0
    assert "connection refused" in text_of(node, "u-web")
    hear(node, status({DISK: "/dev/sda"}, (DISK,)))
    assert disk_script.count("unmount") == 1


# --- later statuses ---


def test_a_status_that_changes_nothing_costs_the_same_however_many_volumes_there_are(
    host: FakeHost, plain_script: Script, config: Config
) -> None:
    node = TestNode(host, plugins_of(Plain(plain_script)), config)
    node.sources_ready()
    hear(node, status({}))

    def calls(message: NodeStatusRead) -> int:
        node.reconciler.post(message)
        with Profile() as profile:
            node.reconciler.step()
        return sum(entry.callcount for entry in profile.getstats())

    few = calls(status({"example.com/disk/x": "/dev/x"}))
    node.apply(*(pod(f"p{number}", plain("v"), uid=f"u{number}") for number in range(50)))
    many = calls(status({"example.com/disk/x": "/dev/y"}))
    assert len(node.world.actual) == 50
    assert many <= few + 10


def test_a_status_with_other_amounts_is_looked_at_by_the_pods(node: TestNode, plain_script: Script) -> None:
    node.apply(pod("web", plain("v"), uid="u1"))
    hear(node, status({}))
    looks: list[str] = []
    plain_script.pure = lambda: looks.append("facets")
    hear(node, status({}))
    assert looks == []
    hear(node, status({}, memory="2Gi"))
    assert looks == ["facets"]


def test_the_mode_says_who_attaches_unless_the_configuration_does() -> None:
    assert not Config().controller_attaches
    assert Config().in_kubernetes_mode().controller_attaches
    assert not Config(controller_attach=False).in_kubernetes_mode().controller_attaches
    assert Config(controller_attach=True).controller_attaches
    assert replace(Config(), node_name="n").in_kubernetes_mode().node_name == "n"
