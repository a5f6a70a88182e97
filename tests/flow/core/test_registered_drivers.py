"""Drivers of `csi` that register and vanish: who is told, what is listed, and who wakes."""

import logging
from dataclasses import replace
from typing import Any

import pytest

from tests.flow.core.probes import Plain, Script, plain
from volmgr.config import Config
from volmgr.errors import TransientError
from volmgr.messages import DriverDeclared, DriversSearched
from volmgr.plugin import CsiSource, DriverInfo, Handles, Searched, driver_awaited
from volmgr.report.installed import plugins_report
from volmgr.report.pods import ready
from volmgr.report.why import why
from volmgr.report.world import ServerReading
from volmgr.testing import FakeHost
from volmgr.testing.node import TestNode, plugins_of, pod

DISK = DriverInfo(
    name="disk.example.com",
    node_id="i-1",
    topology={"zone": "a"},
    limit=8,
    version="1.2",
    endpoint="/run/disk.sock",
    capabilities=("STAGE_UNSTAGE_VOLUME",),
    since=1_000_000.0,
)


def reasons(node: TestNode) -> list[str]:
    """Give what was said of drivers."""
    return [event.reason for event in node.world.events.after(0) if event.reason.startswith("Driver")]


def test_the_cluster_is_told_when_a_driver_registers_changes_and_vanishes(node: TestNode) -> None:
    node.declare(DISK)
    assert node.entries == {DISK.name: DISK}
    fewer = replace(DISK, limit=3)
    node.declare(fewer)
    assert node.entries == {DISK.name: fewer}
    assert reasons(node) == ["DriverRegistered"]
    node.withdraw(DISK.name)
    assert node.entries == {}
    assert reasons(node) == ["DriverRegistered", "DriverVanished"]


def test_one_that_registers_again_is_an_event_and_one_that_says_the_same_again_is_nothing(node: TestNode) -> None:
    node.declare(DISK)
    node.entries.clear()
    node.declare(DISK)
    assert (node.entries, reasons(node)) == ({}, ["DriverRegistered"])
    node.declare(replace(DISK, since=DISK.since + 60))
    assert reasons(node) == ["DriverRegistered", "DriverRegistered"]


def test_one_that_never_registered_does_not_vanish(node: TestNode) -> None:
    node.withdraw(DISK.name)
    assert reasons(node) == []


def test_a_class_that_is_installed_as_the_driver_wins_and_that_is_said(plain_script: Script) -> None:
    class Installed(Plain):
        name = "example.com/installed"
        handles = (Handles("csi", driver=DISK.name),)

    node = TestNode(FakeHost(), plugins_of(Installed(plain_script)))
    node.declare(DISK)
    assert (node.entries, node.world.drivers, reasons(node)) == ({}, {}, ["DriverRefused"])
    assert "disk.example.com at /run/disk.sock is not used: test-installed" in node.warnings()[0]
    assert node.warnings()[0].endswith("serves that driver; uninstall one of them")


def test_who_waits_for_a_driver_goes_on_the_moment_that_it_registers(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", *[TransientError("it is not there", waits_for=driver_awaited(DISK.name))] * 2)
    node.apply(pod("web", plain("data")))
    assert (plain_script.count("mount"), node.is_mounted("web")) == (1, False)
    node.declare(replace(DISK, name="other.example.com"))
    assert plain_script.count("mount") == 1
    node.declare(DISK)
    assert plain_script.count("mount") == 2
    node.declare(replace(DISK, since=DISK.since + 1))
    assert node.is_mounted("web")


def test_who_misses_a_driver_that_registers_meanwhile_goes_on_at_once(node: TestNode, plain_script: Script) -> None:
    plain_script.fail("mount", TransientError("it is not there", waits_for=driver_awaited(DISK.name)))
    plain_script.on_act = lambda: node.reconciler.post(DriverDeclared(DISK))
    node.apply(pod("web", plain("data")))
    assert (plain_script.count("mount"), node.is_mounted("web")) == (2, True)


def test_a_pod_that_was_there_first_is_mounted_the_moment_its_driver_comes(
    node: TestNode, plain_script: Script
) -> None:
    text = f"waiting for driver {DISK.name} (never seen on this node)"
    plain_script.fail("mount", *[TransientError(text, waits_for=driver_awaited(DISK.name))] * 100)
    node.apply(pod("web", plain("data")))
    node.advance(10)
    (found,) = why(node.world, "web")
    assert text in found.text
    tries, now = plain_script.count("mount"), node.now
    assert tries <= 10
    plain_script.plans.clear()
    node.declare(DISK)
    assert (node.is_mounted("web"), plain_script.count("mount"), node.now) == (True, tries + 1, now)


def test_a_node_takes_no_pods_before_the_drivers_that_it_must_have_are_there(plain_script: Script) -> None:
    class Installed(Plain):
        name = "example.com/installed"
        handles = (Handles("csi", driver="installed.example.com"),)

    required = Config(required_drivers=(DISK.name, "installed.example.com"))
    node = TestNode(FakeHost(), plugins_of(Installed(plain_script), Plain(plain_script)), required)
    never = "never seen on this node since volmgrd started"
    assert [each for each in node.world.unready if "driver" in each] == [
        f"waiting for driver disk.example.com ({never}), which required_drivers names"
    ]
    node.sources_ready()
    node.apply(pod("web", plain("data")))
    assert (node.is_mounted("web"), node.world.not_ready_because, ready(node.world).ready) == (True, (), False)
    node.declare(DISK)
    assert ready(node.world).ready
    node.withdraw(DISK.name)
    (reason,) = ready(node.world).reasons
    assert reason.startswith("waiting for driver disk.example.com (not registered since 1970-01-12T13:46:40.000Z)")
    node.declare(DISK)
    assert ready(node.world).ready


def test_what_is_listed_is_what_the_driver_says_and_why_the_cluster_is_not_told(node: TestNode) -> None:
    node.declare(DISK)
    node.declare(DriverInfo(name="bare.example.com", node_id="n", since=1.0))
    node.world.reading = ServerReading(server="https://s", driver_problems={DISK.name: "its zone is wrong"})
    bare, disk = plugins_report(node.world).drivers
    assert (bare.name, bare.limit, bare.topology, bare.problem) == ("bare.example.com", None, {}, "")
    assert (disk.name, disk.node_id, disk.topology, disk.limit) == (DISK.name, "i-1", {"zone": "a"}, 8)
    assert (disk.version, disk.endpoint, disk.capabilities) == ("1.2", "/run/disk.sock", ("STAGE_UNSTAGE_VOLUME",))
    assert (disk.since, disk.problem) == ("1970-01-12T13:46:40.000Z", "its zone is wrong")


class Sockets(Plain):
    """A type that serves drivers of `csi`."""

    name = "example.com/sockets"
    handles = (Handles("csi", source=CsiSource),)


def inline(driver: str) -> dict[str, Any]:
    return {"name": "data", "csi": {"driver": driver}}


def test_nothing_is_asked_for_of_a_driver_before_it_was_looked_for_once_and_others_do_not_wait(
    plain_script: Script,
) -> None:
    node = TestNode(FakeHost(), plugins_of(Sockets(plain_script), Plain(Script())))
    node.reconciler.post(DriversSearched(Searched(field="csi", looking=True)))
    node.apply(pod("web", inline(DISK.name), uid="u1"))
    node.apply(pod("late", inline("other.example.com"), uid="u2"))
    node.apply(pod("plain", plain("data"), uid="u3"))
    assert (node.is_mounted("plain"), plain_script.count("mount")) == (True, 0)
    assert "waits for drivers of csi to be looked for: volmgrd has only started" in why(node.world, "web")[0].text
    node.declare(DISK)
    assert (node.is_mounted("web"), plain_script.count("mount")) == (True, 1)
    node.reconciler.post(DriversSearched(Searched(field="csi")))
    node.settle()
    assert plain_script.count("mount") == 2
    assert node.warnings() == ()


def test_a_wait_for_a_driver_is_logged_once_and_counted_each_time(
    node: TestNode, plain_script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    away = [TransientError("it is not there", waits_for=driver_awaited(DISK.name))] * 3
    plain_script.fail("mount", *away, TransientError("it is busy", waits_for=driver_awaited(DISK.name)), *away)
    node.apply(pod("web", plain("data")))
    node.advance(100)
    logged = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    away_text, busy_text = (f"FailedMount: mount: {text}" for text in ("it is not there", "it is busy"))
    assert logged == [away_text, busy_text, away_text]
    counts = {event.message: event.count for event in node.world.events.after(0) if event.reason == "FailedMount"}
    assert counts == {"mount: it is not there": 6, "mount: it is busy": 1}
