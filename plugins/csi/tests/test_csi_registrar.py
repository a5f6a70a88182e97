"""Drivers register by real sockets, real inotify and real gRPC: each way to come and go, and every failure between."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.csi.fault_driver.calls import CallLog
from tests.csi.fault_driver.profile import CONTROLLER, NODE, Profile
from tests.csi.fault_driver.registration import Registration, registration_services
from tests.csi.fault_driver.rules import FOREVER, Rule, Script
from tests.csi.fault_driver.running import Records, running_fault_driver
from tests.csi.fault_driver.server import Service, csi_services, works_of
from tests.csi.fault_driver.volumes import Volumes
from tests.csi.registrar import running_registrar
from tests.csi.watched import Site
from tests.eventually import PATIENCE
from volmgr.plugin import OperationError, TransientError, watch_directories

if TYPE_CHECKING:
    from volmgr.plugin import Watches

NAME = "fault.csi.test"
LONG_AGO = 1_000_000_000


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("n"))


def notified(driver: Records) -> list[Mapping[str, Any]]:
    """Give what its registrar was told."""
    return [call.request for call in driver.registrations() if call.method == "NotifyRegistrationStatus"]


def test_a_driver_registers_by_its_registrar_and_is_asked_what_it_is_and_can_do(site: Site) -> None:
    topology = {"topology.csi.test/zone": "a"}
    with (
        site.watched() as known,
        running_fault_driver(
            site.top / "d", registration=site.registry / "d-reg.sock", topology=topology, max_volumes=7
        ) as driver,
    ):
        site.told.until_there(NAME)
        info = site.told.there[NAME]
        assert (info.node_id, info.limit, info.version, dict(info.topology)) == ("machine-1", 7, "1.0.0", topology)
        assert info.endpoint == str(driver.socket)
        assert info.capabilities == tuple(
            sorted({*NODE, *CONTROLLER, "CONTROLLER_SERVICE", "VOLUME_ACCESSIBILITY_CONSTRAINTS"})
        )
        found = known.making(NAME)
        assert found.abilities.stage
        assert found.abilities.stats
        assert found.abilities.expand
        assert not found.abilities.mount_group
        assert found.controller == frozenset(CONTROLLER)
        site.told.until(lambda: notified(driver) == [{"pluginRegistered": True}])
        assert site.told.log == [f"+{NAME}"]


def test_a_socket_that_was_there_before_and_one_in_a_nested_directory_register(site: Site) -> None:
    with (
        running_fault_driver(site.top / "a", registration=site.registry / "old/reg.sock", name="a.test"),
        site.watched(),
    ):
        site.told.until_there("a.test")
        assert site.registry.stat().st_mode & 0o777 == 0o755
        with running_fault_driver(site.top / "b", registration=site.registry / "new/deep/reg.sock", name="b.test"):
            site.told.until_there("a.test", "b.test")
        site.told.until_there("a.test")


def test_hidden_sockets_files_and_sockets_elsewhere_are_never_asked(site: Site) -> None:
    elsewhere = site.root / "plugins/foo"
    with (
        running_fault_driver(elsewhere) as foreign,
        running_fault_driver(site.top / "h", registration=site.registry / ".reg.sock", name="h.test") as hidden,
        running_fault_driver(site.top / "i", registration=site.registry / ".in/reg.sock", name="i.test") as inside,
        site.watched(),
        running_fault_driver(site.top / "b", registration=site.registry / "reg.sock", name="b.test"),
    ):
        (site.registry / "file.sock").write_text("no socket")
        site.told.until_there("b.test")
        with running_fault_driver(site.top / "c", registration=site.registry / "later.sock", name="c.test"):
            site.told.until_there("b.test", "c.test")
        assert [driver.registrations() for driver in (foreign, hidden, inside)] == [[], [], []]
        assert foreign.calls() == []
        assert site.told.searched.misfits == {}


def test_a_socket_that_registers_nothing_is_left_alone_with_one_line_until_another_is_bound_there(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = site.registry / "csi.sock"
    with site.watched():
        site.told.until(site.registry.is_dir)
        log = site.top / "log"
        server = Service(Script(), CallLog(log), {}, may_crash=False).served_at(path, csi_services())
        site.told.until_problem(str(path), "nothing registers by it")
        path.chmod(0o700)
        path.rename(site.registry / "other.sock")
        (site.registry / "other.sock").rename(path)
        with running_fault_driver(site.top / "a", registration=site.registry / "a.sock", name="a.test"):
            site.told.until_there("a.test")
        assert [line for line in caplog.messages if str(path) in line] == [
            f"csi: registration by {path}: it serves no pluginregistration.Registration: nothing registers by it"
        ]
        path.unlink()
        with running_fault_driver(site.top / "b", registration=path, name="b.test"):
            site.told.until_there("b.test")
        server.stop(grace=None).wait()


def test_what_registers_something_else_is_somebody_else_s_and_hears_nothing(site: Site) -> None:
    path = site.registry / "gpu.sock"
    gpu = Registration(name="example.com/gpu", endpoint="gpu.sock", kind="DevicePlugin")
    with site.watched(), running_registrar(path, site.top / "log", gpu) as registrar:
        site.told.until_problem(str(path), "it registers 'example.com/gpu', which is a DevicePlugin")
        with running_fault_driver(site.top / "a", registration=site.registry / "a.sock", name="a.test"):
            site.told.until_there("a.test")
        assert [call.method for call in registrar.calls()] == ["GetInfo"]


def dead_socket(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def test_a_dead_socket_is_ignored_until_another_is_bound_there_and_that_registers_at_once(site: Site) -> None:
    path = site.registry / "d-reg.sock"
    dead_socket(path)
    os.utime(path, (LONG_AGO, LONG_AGO))  # of before the reboot
    with site.watched():
        site.told.until_problem(str(path), "cannot connect: Connection refused")
        with running_fault_driver(site.top / "d", registration=path):
            site.told.until_there(NAME)
            assert not site.told.searched.misfits


def test_a_socket_to_which_something_happened_is_tried_again(site: Site) -> None:
    path = site.registry / "d-reg.sock"
    dead_socket(path)
    os.utime(path, (LONG_AGO, LONG_AGO))
    with site.watched():
        site.told.until_problem(str(path), "cannot connect: Connection refused")
        path.unlink()
        with running_fault_driver(site.top / "d", registration=site.top / "elsewhere.sock"):
            path.symlink_to(site.top / "elsewhere.sock")
            site.told.until_there(NAME)


def test_who_binds_and_listens_later_is_knocked_at_until_then(site: Site) -> None:
    with site.watched(), socket.socket(socket.AF_UNIX) as bound:
        site.told.until(site.registry.is_dir)
        bound.settimeout(PATIENCE)
        bound.bind(str(site.registry / "reg.sock"))
        with running_fault_driver(site.top / "d", registration=site.registry / "d.sock"):
            site.told.until_there(NAME)  # so the first one was seen, too, and refused
        bound.listen()
        stranger, _ = bound.accept()
        stranger.close()


def test_who_fails_to_say_what_it_registers_is_asked_again_until_it_works(site: Site) -> None:
    info = Registration(name=NAME, endpoint=str(site.top / "d/csi.sock"))
    with (
        running_fault_driver(site.top / "d"),
        running_registrar(site.registry / "reg.sock", site.top / "log", info) as registrar,
    ):
        registrar.script(Rule(method="GetInfo", code="UNAVAILABLE", times=2))
        with site.watched():
            site.told.until_there(NAME)
            site.told.until(lambda: len(registrar.calls()) == 4)
            assert [(call.method, call.code) for call in registrar.calls()] == [
                ("GetInfo", "UNAVAILABLE"),
                ("GetInfo", "UNAVAILABLE"),
                ("GetInfo", "OK"),
                ("NotifyRegistrationStatus", "OK"),
            ]


def test_a_driver_that_cannot_say_what_it_is_for_the_node_is_refused_and_tried_again(site: Site) -> None:
    with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock") as driver:
        driver.script(
            Rule(method="NodeGetInfo", code="INTERNAL", message="no metadata"),
            Rule(method="NodeGetInfo", answer={"nodeId": ""}),
        )
        with site.watched():
            site.told.until_there(NAME)
            site.told.until(lambda: len(notified(driver)) == 3)
            first, second, third = notified(driver)
            assert first["error"] == f"NodeGetInfo of csi driver {NAME} failed: INTERNAL: no metadata"
            assert "gives the node no id" in second["error"]
            assert third == {"pluginRegistered": True}
            assert site.told.log == [f"+{NAME}"]


def test_what_kubelet_does_not_ask_for_keeps_no_driver_out_and_is_asked_again(site: Site) -> None:
    with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock") as driver:
        driver.script(
            Rule(method="GetPluginInfo", code="INTERNAL"),
            Rule(method="GetPluginCapabilities", code="DEADLINE_EXCEEDED"),
            Rule(method="NodeGetCapabilities", code="UNAVAILABLE"),
        )
        with site.watched() as known:
            site.told.until(lambda: (found := known.find(NAME)) is not None and found.controller)
            assert [each["pluginRegistered"] for each in notified(driver)] == [True]
            assert known.making(NAME).info.version == "1.0.0"
            assert site.told.log == [f"+{NAME}", f"+{NAME}"]


def test_a_driver_that_knows_none_of_the_optional_calls_registers(site: Site) -> None:
    with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock") as driver:
        for method in ("GetPluginInfo", "GetPluginCapabilities", "NodeGetCapabilities", "ControllerGetCapabilities"):
            driver.script(Rule(method=method, code="UNIMPLEMENTED", times=FOREVER))
        with site.watched() as known:
            site.told.until_there(NAME)
            assert known.making(NAME).info.capabilities == ()
            assert not known.making(NAME).abilities.stage


def test_a_registrar_that_does_not_take_the_good_news_is_registered_again(site: Site) -> None:
    info = Registration(name=NAME, endpoint=str(site.top / "d/csi.sock"))
    with (
        running_fault_driver(site.top / "d"),
        running_registrar(site.registry / "reg.sock", site.top / "log", info) as registrar,
    ):
        registrar.script(Rule(method="NotifyRegistrationStatus", code="INTERNAL"))
        with site.watched():
            site.told.until(lambda: site.told.log == [f"+{NAME}", f"-{NAME}", f"+{NAME}"])


def test_one_that_hangs_delays_no_other(site: Site) -> None:
    info = Registration(name="slow.test", endpoint=str(site.top / "a/csi.sock"))
    with (
        running_fault_driver(site.top / "a", name="a.test", registration=site.registry / "a.sock") as hanging,
        running_registrar(site.registry / "b.sock", site.top / "log", info) as slow,
        socket.socket(socket.AF_UNIX) as mute,
    ):
        mute.bind(str(site.registry / "mute.sock"))
        mute.listen()
        hanging.script(Rule(method="NodeGetInfo", gate_before="never"))
        slow.script(Rule(method="GetInfo", gate_before="never"))
        with site.watched():
            hanging.until_reached("never")
            slow.rules.until_reached("never")
            with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock"):
                site.told.until_there(NAME)


def test_a_socket_that_is_replaced_registers_anew_and_is_there_all_the_time(site: Site) -> None:
    path = site.registry / "reg.sock"
    with site.watched() as known, running_fault_driver(site.top / "a", registration=path):
        site.told.until_there(NAME)
        with running_fault_driver(site.top / "b", registration=site.top / "b.sock", node_id="other") as other:
            other.registration.rename(path)
            site.told.until(lambda: site.told.there[NAME].node_id == "other")
            assert site.told.log == [f"+{NAME}", f"+{NAME}"]
            assert known.making(NAME).connection.socket == str(other.socket)


def test_a_socket_that_is_replaced_by_one_that_is_refused_takes_its_driver_away(site: Site) -> None:
    path = site.registry / "reg.sock"
    with site.watched(), running_fault_driver(site.top / "a", registration=path):
        site.told.until_there(NAME)
        with running_fault_driver(site.top / "b", registration=site.top / "b.sock", versions=("2.0.0",)) as other:
            other.registration.rename(path)
            site.told.until_there()
            site.told.until_problem(NAME, "supports 2.0.0 of CSI and no 1.x")
            assert notified(other)[0]["error"] == "it supports 2.0.0 of CSI and no 1.x, which is needed"


def test_a_driver_whose_socket_vanished_unmounts_as_long_as_it_answers(site: Site) -> None:
    with site.watched() as known:
        with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock") as driver:
            site.told.until_there(NAME)
            driver.registration.unlink()
            site.told.until_there()
            with pytest.raises(TransientError, match=rf"{NAME} not found .* last seen 2.*, at {driver.socket}"):
                known.making(NAME)
            assert known.unmaking(NAME).retired
            assert site.told.log == [f"+{NAME}", f"-{NAME}"]
        with pytest.raises(TransientError, match="last seen") as error:
            known.unmaking(NAME)
        assert error.value.waits_for == f"csi driver {NAME}"


@pytest.mark.parametrize(
    ("registration", "why"),
    [
        (Registration(name="../../etc", endpoint=""), "must be a DNS subdomain"),
        (Registration(name="", endpoint=""), "must be a DNS subdomain"),
        (Registration(name="x" * 64, endpoint=""), "at most 63 characters"),
        (Registration(name="a.test", endpoint="", versions=()), "names no version of CSI"),
        (Registration(name="a.test", endpoint="", versions=("0.3.0",)), "supports 0.3.0 of CSI and no 1.x"),
        (Registration(name="a.test", endpoint="csi.sock"), "endpoint 'csi.sock' of csi driver a.test must be absolute"),
    ],
)
def test_what_may_not_register_is_told_why(site: Site, registration: Registration, why: str) -> None:
    with site.watched(), running_registrar(site.registry / "reg.sock", site.top / "log", registration) as registrar:
        site.told.until(lambda: len(registrar.calls()) >= 2)
        told = registrar.calls()[1]
        assert told.method == "NotifyRegistrationStatus"
        assert "pluginRegistered" not in told.request
        assert why in told.request["error"]
        assert site.told.log == []


def test_a_second_socket_of_the_same_name_is_refused_and_registers_once_the_first_has_left(site: Site) -> None:
    second = running_fault_driver(site.top / "b", registration=site.registry / "b.sock", node_id="other")
    with site.watched(), ExitStack() as stack:
        with running_fault_driver(site.top / "a", registration=site.registry / "a.sock"):
            site.told.until_there(NAME)
            driver = stack.enter_context(second)
            site.told.until_problem(NAME, f"is registered already, by {site.registry / 'a.sock'}")
            assert "is registered already" in notified(driver)[0]["error"]
            assert site.told.there[NAME].node_id == "machine-1"
        site.told.until(lambda: NAME in site.told.there and site.told.there[NAME].node_id == "other")
        stack.close()
        site.told.until_there()


def test_a_second_socket_of_the_same_name_takes_over_with_a_higher_version(site: Site) -> None:
    high = running_fault_driver(
        site.top / "b", registration=site.registry / "b.sock", node_id="other", versions=("v1.12.0", "0.3.0")
    )
    with site.watched(), ExitStack() as stack:
        with running_fault_driver(site.top / "a", registration=site.registry / "a.sock"):
            site.told.until_there(NAME)
            stack.enter_context(high)
            site.told.until(lambda: site.told.there[NAME].node_id == "other")
        with running_fault_driver(site.top / "c", registration=site.registry / "c.sock", name="c.test"):
            site.told.until_there(NAME, "c.test")  # the first has left before, which changed nothing
        assert site.told.log[:2] == [f"+{NAME}", f"+{NAME}"]


def test_a_driver_without_an_endpoint_serves_the_registration_socket_itself(site: Site) -> None:
    path = site.registry / "both.sock"
    site.registry.mkdir(parents=True)
    profile = Profile(name="both.test")
    works = dict(works_of(profile, Volumes(site.top)))
    works |= Registration(name="both.test", endpoint="").works()
    service = Service(Script(), CallLog(site.top / "log"), works, may_crash=False)
    with site.watched():
        server = service.served_at(path, {**csi_services(), **registration_services()})
        site.told.until_there("both.test")
        assert site.told.there["both.test"].endpoint == str(path)
        server.stop(grace=None).wait()
        site.told.until_there()


def test_the_directory_is_removed_and_made_again(site: Site) -> None:
    with site.watched():
        for number in range(3):
            with running_fault_driver(site.top / f"{number}", registration=site.registry / "reg.sock"):
                site.told.until_there(NAME)
                shutil.rmtree(site.registry)  # noqa: TID251 - somebody else does
                site.told.until_there()
                site.told.until(site.registry.is_dir)


def test_the_directory_may_be_a_link(site: Site) -> None:
    real = site.top / "real"
    real.mkdir()
    site.root.mkdir()
    site.registry.symlink_to(real)
    other = site.top / "other"
    with site.watched():
        with running_fault_driver(site.top / "a", registration=real / "reg.sock"):
            site.told.until_there(NAME)
        site.told.until_there()
        with running_fault_driver(site.top / "b", registration=other / "reg.sock", name="b.test"):
            (site.top / "link").symlink_to(other)
            (site.top / "link").rename(site.registry)
            site.told.until_there("b.test")


def test_a_directory_that_cannot_be_made_is_reported_and_watched_once_it_can(site: Site) -> None:
    site.root.mkdir()
    site.registry.write_text("in the way")
    with site.watched():
        site.told.until(lambda: "cannot be made (File exists)" in site.told.searched.problem)
        site.registry.unlink()
        with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock"):
            site.told.until_there(NAME)
            assert not site.told.searched.problem


def test_where_inotify_is_exhausted_sockets_register_all_the_same_and_are_watched_once_it_can_be(site: Site) -> None:
    exhausted = threading.Event()
    exhausted.set()

    def open_watches() -> Watches:
        if exhausted.is_set():
            message = "cannot watch directories: no inotify instance is left"
            raise OperationError(message)
        return watch_directories()

    with (
        running_fault_driver(site.top / "d", registration=site.registry / "reg.sock"),
        site.watched(open_watches, watch_retry=0.05),
    ):
        site.told.until_there(NAME)
        site.told.until(lambda: "no inotify instance is left" in site.told.searched.problem)
        exhausted.clear()
        site.told.until(lambda: not site.told.searched.problem)


def test_after_lost_events_everything_is_looked_at(site: Site) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with site.watched():
        site.told.until(site.registry.is_dir)
        site.told.may_go_on.clear()
        dead_socket(site.registry / "dead.sock")
        os.utime(site.registry / "dead.sock", (LONG_AGO, LONG_AGO))
        site.told.until(lambda: site.told.searched.misfits)  # who reports it stands still from there on
        back, forth = site.registry / "back", site.registry / "forth"
        back.touch()
        for _ in range(limit // 4 + 1):
            back.rename(forth)
            forth.rename(back)
        with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock"):
            site.told.may_go_on.set()
            site.told.until_there(NAME)
