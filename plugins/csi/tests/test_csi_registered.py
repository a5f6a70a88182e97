"""Drivers that are registered: they start again, are asked anew, are named by the configuration, and are remembered."""

from __future__ import annotations

import json

import pytest

from tests.csi.fault_driver.profile import NODE
from tests.csi.fault_driver.registration import Registration
from tests.csi.fault_driver.rules import FOREVER, Rule
from tests.csi.fault_driver.running import running_fault_driver, running_fault_process
from tests.csi.registrar import running_registrar
from tests.csi.watched import Site
from volmgr.plugin import TransientError
from volmgr_csi.driver.connection import CallError
from volmgr_csi.driver.drivers import drivers_of
from volmgr_csi.driver.methods import NODE_INFO
from volmgr_csi.v1 import csi_pb2 as csi

NAME = "fault.csi.test"


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("n"))


def test_a_driver_that_starts_again_is_asked_anew_though_its_registrar_says_nothing(site: Site) -> None:
    top = site.top / "d"
    registration = Registration(name=NAME, endpoint=str(top / "csi.sock"))
    with (
        running_registrar(site.registry / "reg.sock", site.top / "log", registration) as registrar,
        site.watched() as known,
    ):
        with running_fault_driver(top, node=()):
            site.told.until_there(NAME)
            first = known.making(NAME)
            assert not first.abilities.stage
        with pytest.raises(TransientError, match=r"nobody listens at .*csi\.sock") as error:
            known.making(NAME)
        assert error.value.waits_for == f"csi driver {NAME}"
        declared = len(site.told.log)
        with running_fault_driver(top, node=NODE):
            site.told.until(lambda: len(site.told.log) > declared)
            assert known.making(NAME).abilities.stage
            assert known.making(NAME).info.since > first.info.since  # who waits for it is told
            assert known.making(NAME).connection is first.connection
        assert [call.method for call in registrar.calls()] == ["GetInfo", "NotifyRegistrationStatus"]
        assert set(site.told.log) == {f"+{NAME}"}


def test_nothing_is_made_with_what_the_driver_could_do_before_it_started_again(site: Site) -> None:
    top = site.top / "d"
    registration = Registration(name=NAME, endpoint=str(top / "csi.sock"))
    with (
        running_registrar(site.registry / "reg.sock", site.top / "log", registration),
        site.watched() as known,
        running_fault_process(top, registration=site.top / "unused.sock") as driver,
    ):
        site.told.until_there(NAME)
        driver.kill()
        driver.start(Rule(method="NodeGetCapabilities", gate_before="asked", times=FOREVER))
        driver.until_reached("asked")
        with pytest.raises(TransientError, match="has started again, and is being asked what it can do") as error:
            known.making(NAME)
        assert error.value.waits_for == f"csi driver {NAME}"
        assert known.unmaking(NAME).name == NAME
        declared = len(site.told.log)
        driver.open("asked")
        site.told.until(lambda: len(site.told.log) > declared)
        assert known.making(NAME).abilities.stage


def test_a_driver_that_crashed_is_waited_for_and_its_dead_socket_harms_nobody(site: Site) -> None:
    top = site.top / "d"
    registration = Registration(name=NAME, endpoint=str(top / "csi.sock"))
    with (
        running_registrar(site.registry / "reg.sock", site.top / "log", registration),
        site.watched() as known,
        running_fault_process(top, registration=site.top / "unused.sock") as driver,
    ):
        site.told.until_there(NAME)
        known.making(NAME).connection.call(NODE_INFO, csi.NodeGetInfoRequest(), 60.0)
        driver.kill()
        for making in (known.making, known.unmaking):
            with pytest.raises(TransientError, match="nobody listens at"):
                making(NAME)
        declared = len(site.told.log)
        driver.start()
        site.told.until(lambda: len(site.told.log) > declared)
        known.making(NAME).connection.call(NODE_INFO, csi.NodeGetInfoRequest(), 60.0)


def test_a_call_that_loses_its_driver_has_it_asked_anew_once_it_answers(site: Site) -> None:
    with (
        site.watched() as known,
        running_fault_driver(site.top / "d", registration=site.registry / "reg.sock") as driver,
    ):
        site.told.until_there(NAME)
        asked = len(driver.calls("NodeGetInfo"))
        driver.script(Rule(method="NodeGetInfo", code="UNAVAILABLE", times=2))
        known.refresh(NAME)
        site.told.until(lambda: len(driver.calls("NodeGetInfo")) == asked + 3)
        site.told.until(lambda: len(site.told.log) == 2)


def test_a_limit_that_changed_is_told_when_somebody_asks(site: Site) -> None:
    with (
        site.watched() as known,
        running_fault_driver(site.top / "d", registration=site.registry / "reg.sock", max_volumes=9) as driver,
    ):
        site.told.until_there(NAME)
        before = site.told.there[NAME]
        driver.script(Rule(method="NodeGetInfo", answer={"maxVolumesPerNode": "3"}))
        known.refresh(NAME)
        site.told.until(lambda: site.told.there[NAME].limit == 3)
        assert (before.limit, before.since) == (9, site.told.there[NAME].since)


def test_a_driver_is_asked_as_often_as_its_csi_driver_wishes(site: Site) -> None:
    with (
        site.watched() as known,
        running_fault_driver(site.top / "d", registration=site.registry / "reg.sock") as driver,
    ):
        site.told.until_there(NAME)
        known.refresh_every(NAME, 0.01)
        driver.until_called("NodeGetInfo", 4)
        known.refresh_every(NAME, 0.0)
        assert known.period(NAME) == 0.0


def test_a_driver_of_the_configuration_needs_no_registrar(site: Site) -> None:
    top = site.top / "not/yet/there"
    with site.watched(drivers={NAME: str(top / "csi.sock")}) as known:
        with pytest.raises(TransientError, match="never seen on this node"):
            known.making(NAME)
        for _ in range(2):
            with running_fault_driver(top, registration=site.top / "unused.sock"):
                site.told.until_there(NAME)
                assert known.making(NAME).abilities.stage
            site.told.until_there()
            with pytest.raises(TransientError, match="last seen"):
                known.making(NAME)


def test_a_driver_of_the_configuration_may_lie_behind_links(site: Site) -> None:
    real, link = site.top / "real", site.top / "link"
    link.symlink_to(real)
    with site.watched(drivers={NAME: str(link / "csi.sock")}):
        with running_fault_driver(real, registration=site.top / "unused.sock"):
            site.told.until_there(NAME)
        site.told.until_there()
        with running_fault_driver(site.top / "other", registration=site.top / "unused.sock", node_id="other"):
            (site.top / "new").symlink_to(site.top / "other")
            (site.top / "new").rename(link)
            site.told.until(lambda: NAME in site.told.there and site.told.there[NAME].node_id == "other")


def test_a_driver_of_the_configuration_must_be_the_one_that_is_named(site: Site) -> None:
    with running_fault_driver(site.top / "d") as driver, site.watched(drivers={"a.test": str(driver.socket)}) as known:
        site.told.until_problem("a.test", f"says that it is csi driver '{NAME}', and not 'a.test'; correct drivers")
        with pytest.raises(TransientError, match="its registration failed"):
            known.making("a.test")
        assert site.told.log == []


def test_a_driver_that_registers_takes_the_place_of_one_that_the_configuration_names(site: Site) -> None:
    with running_fault_driver(site.top / "a") as plain, site.watched(drivers={NAME: str(plain.socket)}):
        site.told.until_there(NAME)
        with running_fault_driver(site.top / "b", registration=site.registry / "reg.sock", node_id="other"):
            site.told.until(lambda: site.told.there[NAME].node_id == "other")
        site.told.until(lambda: NAME in site.told.there and site.told.there[NAME].node_id == "machine-1")


def test_a_driver_of_another_name_than_its_registrar_says_is_called_all_the_same(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    registration = Registration(name="a.test", endpoint=str(site.top / "d/csi.sock"))
    with (
        running_fault_driver(site.top / "d"),
        running_registrar(site.registry / "reg.sock", site.top / "log", registration),
        site.watched(),
    ):
        site.told.until_there("a.test")
        (line,) = [line for line in caplog.messages if "says that it is" in line]
        assert line.endswith(
            "csi driver 'fault.csi.test', and not 'a.test', as which it registers; it is called all the same"
        )


def test_after_a_restart_a_driver_whose_registrar_is_gone_still_unmounts(site: Site) -> None:
    with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock") as driver:
        with site.watched():
            site.told.until_there(NAME)
        driver.registration.unlink()
        with site.watched() as known:
            with pytest.raises(TransientError, match=rf"last seen 2.*, at {driver.socket}"):
                known.making(NAME)
            found = known.unmaking(NAME)
            assert (found.retired, found.abilities.stage, found.info.node_id) == (True, True, "machine-1")
            assert "CREATE_DELETE_VOLUME" in found.controller
            assert found.connection.call(NODE_INFO, csi.NodeGetInfoRequest(), 60.0).node_id == "machine-1"


def test_a_driver_that_serves_the_socket_of_one_that_is_gone_is_not_taken_for_it(site: Site) -> None:
    top = site.top / "d"
    with running_fault_driver(top, registration=site.registry / "reg.sock"), site.watched():
        site.told.until_there(NAME)
    with running_fault_driver(top, registration=site.top / "unused.sock", name="b.test"), site.watched() as known:
        connection = known.unmaking(NAME).connection
        for _ in range(2):
            with pytest.raises(CallError, match=r"is served by csi driver 'b\.test' now") as error:
                connection.call(NODE_INFO, csi.NodeGetInfoRequest(), 60.0)
            assert not error.value.is_final


def test_what_is_remembered_has_no_secret_and_may_be_damaged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    path = site.root / "volmgr/csi/drivers.json"
    with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock") as driver, site.watched():
        site.told.until_there(NAME)
        site.told.until(path.exists)
        document = json.loads(path.read_text())
        (entry,) = document["drivers"]
        assert entry.pop("at") > 1.7e9
        assert document["format"] == 1
        assert entry == {
            "name": NAME,
            "endpoint": str(driver.socket),
            "node_id": "machine-1",
            "abilities": ["stage", "expand", "stats"],
            "controller": ["CREATE_DELETE_VOLUME", "EXPAND_VOLUME", "LIST_VOLUMES"],
        }
    for damaged in (
        "",
        "[]",
        '{"format": 2}',
        '{"format": 1, "drivers": [{"name": "x"}]}',
        '{"format": 1, "drivers": 3}',
    ):
        path.write_text(damaged)
        with site.watched() as known, pytest.raises(TransientError, match="never seen on this node"):
            known.unmaking(NAME)
        assert f"{path} is not read" in caplog.messages[-1]


def test_a_pod_may_wait_for_a_driver_that_is_installed_later(site: Site) -> None:
    with site.watched() as known:
        assert drivers_of(site.host) is known
        with pytest.raises(TransientError, match=rf"driver name {NAME} not found .* never seen on this node") as error:
            known.making(NAME)
        assert error.value.waits_for == f"csi driver {NAME}"
        with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock"):
            site.told.until_there(NAME)
            assert known.making(NAME).name == NAME


def test_a_channel_closes_once_no_call_has_run_for_a_while(site: Site) -> None:
    with (
        site.watched(channel_idle=0.01) as known,
        running_fault_driver(site.top / "d", registration=site.registry / "reg.sock"),
    ):
        site.told.until_there(NAME)
        connection = known.making(NAME).connection
        site.told.until(lambda: connection.close_if_idle(3600.0) is None)
        connection.call(NODE_INFO, csi.NodeGetInfoRequest(), 60.0)
        site.told.until(lambda: connection.close_if_idle(3600.0) is None)
