"""Draining a node: everything goes, and who waits for that hears of it at once."""

import pytest

from tests.flow.core.probes import Disk, Plain, ProbeSource, Script, claim_of, plain, storage
from volmgr.desk import NODE
from volmgr.errors import OperationError
from volmgr.plugin import CSI_FIELD, DriverInfo, Handles
from volmgr.report.drain import Drained, drained
from volmgr.report.why import why
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod
from volmgr_hostpath.plugin import HostPath


def test_who_drains_hears_of_the_last_volume_without_waiting_any_longer(node: TestNode) -> None:
    node.apply(pod("web", {"name": "a", "plainProbe": {"disk": "a"}}))
    waiter = node.wait(NODE, lambda world, _selector: len(world.actual) == 0)
    assert not waiter.done.is_set()

    node.reconciler.drain()
    node.settle()

    assert waiter.done.is_set()


@pytest.fixture
def unread(host: FakeHost, plain_script: Script, disk_script: Script) -> TestNode:
    """A node that was started again and has not reached its API server; Pod `web` has a file system and a disk."""
    node = TestNode(host, plugins_of(Plain(plain_script), Disk(disk_script)), sources=("api", "kubernetes"))
    node.sources_ready()
    node.serve(*storage("d1"), pod("web", plain("a"), claim_of("d", "d1"), uid="u1"))
    assert node.is_mounted("web")
    node.start()
    node.settle()
    node.sources_ready("api")
    assert len(node.world.actual) == 2
    return node


def test_a_node_that_has_not_reached_its_server_lets_go_of_what_accepted_pods_have(unread: TestNode) -> None:
    unread.reconciler.drain()
    unread.settle()
    assert drained(unread.world) == Drained()
    assert "u1" in unread.world.pods
    unread.start()
    unread.settle()
    assert unread.is_mounted("web")  # the Pod is still wanted


def test_what_is_of_no_accepted_pod_stays_until_every_source_was_read(unread: TestNode) -> None:
    unread.host.files.remove_file(unread.host.paths.state / "pods" / "u1.json")
    unread.start()
    unread.settle()
    unread.reconciler.drain()
    unread.settle()
    found = drained(unread.world)
    assert len(found.left) == 2
    assert "Pod u1, which no source has so far" in found.reasons[0]
    assert "waits for every source to be read whole (source api: " in found.reasons[0]
    unread.sources_ready()
    assert drained(unread.world) == Drained()


def test_a_held_pod_keeps_what_it_has_and_who_holds_it_is_named(unread: TestNode) -> None:
    hold = unread.hold("u1", 4711)
    unread.reconciler.drain()
    unread.settle()
    assert [line.partition(": ")[2] for line in drained(unread.world).reasons] == [
        "Pod default/web is held by PID 4711",
        "Pod default/web is held by PID 4711",
    ]
    unread.release(hold)
    assert drained(unread.world) == Drained()


def test_what_fails_to_go_is_named_with_its_error(unread: TestNode, plain_script: Script, disk_script: Script) -> None:
    plain_script.fail("unmount", OperationError("target is busy"))
    disk_script.fail("unmount_device", OperationError("device is busy"))
    unread.reconciler.drain()
    unread.settle()
    device, mount = drained(unread.world).reasons
    assert device.endswith(": unmount_device failed: device is busy")
    assert "Pod default/web: volume a (plainProbe): " in mount
    assert "target is busy" in mount
    unread.advance(10)
    assert drained(unread.world) == Drained()


def test_containers_that_ran_when_their_pod_was_last_read_keep_its_volumes(unread: TestNode) -> None:
    running: dict[str, object] = {
        "phase": "Running",
        "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": "2027-01-15T08:00:00Z"}}}],
    }
    unread.serve(pod("web", plain("a"), claim_of("d", "d1"), uid="u1", status=running))
    unread.start()
    unread.settle()
    unread.reconciler.drain()
    unread.settle()
    assert len(unread.world.actual) == 2
    assert drained(unread.world).reasons[0].endswith("containers of Pod default/web still run: main")


# --- drivers of csi that are Pods of this node ---


class Csi(Plain):
    """All drivers of csi."""

    name = "kubernetes.io/csi"
    handles = (Handles(CSI_FIELD, source=ProbeSource),)


DRIVER = "disk.example.com"
APPS = [f"app-{number}" for number in range(5)]


def of_driver(name: str = "data", driver: str = DRIVER) -> dict[str, object]:
    return {"name": name, "csi": {"driver": driver, "disk": name}}


class DriverSite:
    """A node with a driver in a Pod, reached by a directory of the node, and Pods with its volumes."""

    def __init__(self, host: FakeHost, endpoint: str = "plugins/disk/csi.sock") -> None:
        self.csi, self.plain = Script(), Script()
        self.node = TestNode(host, plugins_of(Csi(self.csi), Plain(self.plain), HostPath()))
        self.node.sources_ready()
        socket = host.paths.root / endpoint
        host.mkdir(socket.parent)
        self.node.declare(DriverInfo(name=DRIVER, node_id="n1", endpoint=str(socket)))
        place = {"name": "plugin-dir", "hostPath": {"path": str(host.paths.root / "plugins/disk")}}
        self.node.apply(pod("driver", place, plain("settings"), uid="u-driver"))
        for name in APPS:
            self.node.apply(pod(name, of_driver(), uid=f"u-{name}"))
            assert self.node.is_mounted(name)

    def drain(self) -> None:
        self.node.reconciler.drain()
        self.node.settle()

    def left(self) -> set[str]:
        """Give the Pods that have anything left."""
        return {uid for volume in self.node.world.actual for uid in volume.mounts}


def test_a_pod_that_is_a_driver_goes_after_the_last_volume_of_that(host: FakeHost) -> None:
    site = DriverSite(host)
    for script in (site.csi, site.plain):
        script.forget()
    order: list[str] = []
    site.csi.on_act = lambda: order.append("a volume of the driver")
    site.plain.on_act = lambda: order.append("what the driver has")
    site.csi.fail("unmount", *[OperationError("busy")] * 3)
    site.drain()
    assert site.plain.calls == []
    assert "u-driver" in site.left()
    site.node.advance(10)
    assert site.left() == set()
    assert order[-1] == "what the driver has"
    assert order.count("what the driver has") == 1
    assert drained(site.node.world) == Drained()


def test_what_is_left_names_the_volumes_and_the_driver_that_still_serves_them(host: FakeHost) -> None:
    site = DriverSite(host)
    site.csi.fail("unmount", *[OperationError("busy")] * 1000)
    site.drain()
    site.node.advance(30)
    found = drained(site.node.world)
    assert len(found.left) == len(APPS) + 2
    reasons = [line.partition(": ")[2] for line in found.reasons]
    serves = "Pod default/driver serves disk.example.com, of which volumes are left: those go first"
    assert reasons.count(serves) == 2
    assert sum("busy" in line for line in reasons) == len(APPS)
    (report,) = why(site.node.world, "driver")
    assert "waits for volumes of disk.example.com, which its Pod serves, to go first" in report.text


def test_a_held_app_keeps_its_driver_and_the_end_of_its_hold_lets_both_go(host: FakeHost) -> None:
    site = DriverSite(host)
    hold = site.node.hold("u-app-3", 4711)
    site.drain()
    assert site.left() == {"u-app-3", "u-driver"}
    site.node.release(hold)
    assert site.left() == set()


def test_drivers_that_use_each_other_keep_nobody(host: FakeHost) -> None:
    site = DriverSite(host)
    other = host.paths.root / "plugins/other"
    host.mkdir(other)
    site.node.declare(DriverInfo(name="other.example.com", node_id="n1", endpoint=str(other / "csi.sock")))
    place = {"name": "plugin-dir", "hostPath": {"path": str(other)}}
    site.node.apply(pod("other", place, of_driver(), uid="u-other"))
    site.node.apply(pod("both", of_driver("one"), of_driver("two", "other.example.com"), uid="u-both"))
    site.drain()
    assert site.left() == set()


@pytest.mark.parametrize("endpoint", ["elsewhere/csi.sock", "plugins/disk-2/csi.sock"])
def test_a_pod_by_which_no_driver_is_reached_waits_for_nothing(host: FakeHost, endpoint: str) -> None:
    site = DriverSite(host, endpoint)
    site.csi.fail("unmount", *[OperationError("busy")] * 1000)
    site.drain()
    assert site.left() == {f"u-{name}" for name in APPS}


def test_without_a_drain_a_driver_s_pod_goes_when_it_is_deleted(host: FakeHost) -> None:
    site = DriverSite(host)
    site.node.delete("u-driver")
    assert site.left() == {f"u-{name}" for name in APPS}
