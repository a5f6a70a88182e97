"""Node's mounts that are on disk, and of which no Pod's directory and no record says anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.flow.core.probes import Disk, ProbeSource, Script, claim_of, storage
from volmgr.model.volume import Facets, Presence
from volmgr.plugin import FoundDevice, Handles, Host, OperationError, VolumeSpec, Where
from volmgr.report.orphans import orphans_report
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

NAME = "example.com/disk/d1"


class Finder(Disk):
    """As Disk, and finds the devices of a test."""

    def __init__(self, script: Script, found: Callable[[Host], tuple[FoundDevice[ProbeSource], ...]]) -> None:
        super().__init__(script)
        self._found = found

    def devices(self, host: Host) -> tuple[FoundDevice[ProbeSource], ...]:
        return self._found(host)


class Other(Disk):
    """Serves some of the volumes that Finder finds."""

    name = "example.com/other"
    handles = (Handles("diskProbe", driver="theirs", where=Where.PV, source=ProbeSource),)


class Elsewhere(Other):
    """As Other, and has its volumes in a place of its own."""

    def device_target(self, spec: VolumeSpec[ProbeSource], host: Host) -> Path:  # noqa: ARG002 - as Disk's
        return host.paths.plugin(self.name) / "elsewhere"


def device(host: Host, driver: str | None = None, **more: Any) -> FoundDevice[ProbeSource]:  # noqa: ANN401 - fields
    spec = VolumeSpec(name="found", type="diskProbe", driver=driver, source=ProbeSource(disk="d1"))
    plugin = Other.name if driver else Disk.name
    return FoundDevice(target=host.paths.plugin(plugin) / "mounts/d1", spec=spec, **more)


@pytest.fixture
def script() -> Script:
    return Script(facets=Facets(device=True))


@pytest.fixture
def node(host: FakeHost, script: Script) -> TestNode:
    host.mkdir(host.paths.plugin(Disk.name) / "mounts/d1")
    return TestNode(host, plugins_of(Finder(script, lambda host: (device(host, selinux_label="red"),))))


def test_what_nobody_wants_is_unmounted_when_every_source_was_read(node: TestNode, script: Script) -> None:
    node.settle()
    (found,) = node.world.actual
    assert (found.name, found.device, found.device_label) == (NAME, Presence.UNCERTAIN, "red")
    assert script.calls == []
    node.sources_ready()
    assert script.calls == ["unmount_device"]
    assert script.last("unmount_device").target == node.host.paths.plugin(Disk.name) / "mounts/d1"
    assert list(node.world.actual) == []


def test_what_a_pod_wants_is_mounted_again_and_used(host: FakeHost, script: Script) -> None:
    node = TestNode(host, plugins_of(Finder(script, lambda host: (device(host),))))
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    node.sources_ready()
    assert node.is_mounted("web"), node.warnings()
    assert script.calls == ["mount_device", "mount"]


def test_a_pod_that_still_has_it_is_unmounted_first(host: FakeHost, script: Script) -> None:
    node = TestNode(host, plugins_of(Finder(script, lambda host: (device(host, pod_uids=("..", "u9", "lost+found")),))))
    node.sources_ready()
    assert script.calls == ["unmount", "unmount_device"]
    assert (script.last("unmount").pod_uid, script.last("unmount").spec_name) == ("u9", "found")
    assert list(node.world.actual) == []


def test_a_record_that_says_less_is_not_believed(host: FakeHost, script: Script) -> None:
    script.facets = Facets(attach=True, device=True)
    found: list[FoundDevice[ProbeSource]] = []
    node = TestNode(host, plugins_of(Finder(script, lambda _: tuple(found))))
    node.put_file("storage.yaml", *storage("d1"))
    script.fail("mount_device", OperationError("its disk is away"), OperationError("its disk is away"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    node.sources_ready()
    (volume,) = node.world.actual
    assert (volume.attached, volume.device) == (Presence.YES, Presence.NO)
    found.append(device(host))
    node.start()
    node.settle()
    (volume,) = node.world.actual
    assert volume.device is Presence.UNCERTAIN


def test_what_nobody_can_name_is_kept_and_listed_until_a_pod_has_it(host: FakeHost, script: Script) -> None:
    nameless = replace(device(host), spec=None, problem="its file is damaged")
    node = TestNode(host, plugins_of(Finder(script, lambda _: (nameless,))))
    node.sources_ready()
    (orphan,) = orphans_report(node.world).orphans
    assert (orphan.path, orphan.reason) == (str(nameless.target), "its file is damaged")
    assert script.calls == []
    node.put_file("storage.yaml", *storage("d1"))
    node.apply(pod("web", claim_of("data", "d1"), uid="u1"))
    assert node.is_mounted("web"), node.warnings()
    assert orphans_report(node.world).orphans == ()


def test_a_class_that_serves_a_driver_takes_what_another_type_finds_of_it(host: FakeHost, script: Script) -> None:
    theirs = Script(facets=Facets(device=True))
    finder = Finder(script, lambda host: (device(host, driver="theirs"),))
    node = TestNode(host, plugins_of(finder, Other(theirs)))
    node.sources_ready()
    assert (script.calls, theirs.calls) == ([], ["unmount_device"])


def test_what_a_class_has_elsewhere_is_kept_and_listed(host: FakeHost, script: Script) -> None:
    theirs = Script(facets=Facets(device=True))
    finder = Finder(script, lambda host: (device(host, driver="theirs"),))
    node = TestNode(host, plugins_of(finder, Elsewhere(theirs)))
    node.sources_ready()
    assert (script.calls, theirs.calls) == ([], [])
    (orphan,) = orphans_report(node.world).orphans
    assert orphan.path == str(host.paths.plugin(Other.name) / "mounts/d1")
    assert "theirs" in orphan.reason


def test_a_type_that_fails_to_look_keeps_nobody_waiting(host: FakeHost, script: Script) -> None:
    def fails(_host: Host) -> tuple[FoundDevice[ProbeSource], ...]:
        raise OperationError("it cannot be listed")

    class Another(Finder):
        name = "example.com/another"
        handles = (Handles("otherProbe", where=Where.PV, source=ProbeSource),)

    broken = Another(Script(), fails)
    node = TestNode(host, plugins_of(broken, Finder(script, lambda host: (device(host),))))
    node.sources_ready()
    assert script.calls == ["unmount_device"]
