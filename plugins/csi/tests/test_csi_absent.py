"""Drivers that are not there: what is said of them, and from when on."""

from __future__ import annotations

import pytest

from tests.csi.fault_driver.registration import Registration
from tests.csi.fault_driver.rules import FOREVER, Rule
from tests.csi.fault_driver.running import running_fault_driver
from tests.csi.registrar import running_registrar
from tests.csi.watched import Site, Told
from volmgr.plugin import TransientError

NAME = "fault.csi.test"


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("n"))


def test_a_socket_that_the_configuration_names_and_that_is_not_there_is_said_with_what_to_do(site: Site) -> None:
    socket = site.top / "nowhere/csi.sock"
    with site.watched(drivers={NAME: str(socket)}) as known:
        text = f"drivers of the configuration names {socket}, where there is no socket; start it, or correct the path"
        site.told.until_problem(NAME, text)
        assert text in site.told.searched.absent[NAME]
        with pytest.raises(TransientError) as refusal:
            known.making(NAME)
        assert str(refusal.value).endswith("start it, or correct the path")  # it has no registrar to start


def test_the_own_socket_of_a_driver_among_those_of_registrars_is_said_to_be_that(site: Site) -> None:
    path = site.registry / "csi.sock"
    site.registry.mkdir(parents=True)
    with running_fault_driver(site.top / "d") as driver, site.watched() as known:
        path.symlink_to(driver.socket)
        site.told.until_problem(NAME, f"{path} is the own socket of csi driver {NAME}: ")
        with pytest.raises(TransientError, match="run node-driver-registrar with it, or name it in drivers"):
            known.making(NAME)
        assert site.told.log == []


def test_a_registrar_that_names_a_path_of_its_container_is_told_so(site: Site) -> None:
    inside = "/csi-of-the-container/csi.sock"
    registrar = Registration(name=NAME, endpoint=inside)
    with site.watched(), running_registrar(site.registry / "reg.sock", site.top / "log", registrar) as running:
        site.told.until_problem(NAME, f"the registrar named {inside}, which is not there")
        assert "--kubelet-registration-path" in site.told.searched.misfits[NAME]
        site.told.until(lambda: "NotifyRegistrationStatus" in [call.method for call in running.calls()])


def test_a_path_that_a_driver_sees_elsewhere_is_looked_for_where_the_node_has_it(site: Site) -> None:
    with running_fault_driver(site.top / "d") as driver:
        registrar = Registration(name=NAME, endpoint=f"/csi-of-the-container/{driver.socket.name}")
        paths = {NAME: {str(driver.socket.parent): "/csi-of-the-container"}}
        with site.watched(paths=paths), running_registrar(site.registry / "reg.sock", site.top / "log", registrar):
            site.told.until_there(NAME)
            assert site.told.there[NAME].endpoint == str(driver.socket)


def test_a_driver_that_is_gone_is_said_to_be_absent_also_by_the_next_daemon(site: Site) -> None:
    with site.watched():
        with running_fault_driver(site.top / "d", registration=site.registry / "d.sock"):
            site.told.until_there(NAME)
            assert not site.told.searched.absent
        site.told.until(lambda: "last seen" in site.told.searched.absent.get(NAME, ""))
    site.told = Told()
    with site.watched():
        site.told.until(lambda: not site.told.searched.looking)
        assert site.told.searched.absent[NAME].endswith("; start it, and its registrar")


def test_who_registers_is_looking_until_it_has_tried_each_socket_that_lies_there(site: Site) -> None:
    with running_fault_driver(site.top / "d", registration=site.registry / "d.sock") as driver:
        driver.script(Rule(method="NodeGetInfo", gate_before="info", times=FOREVER))
        with site.watched():
            driver.until_reached("info")
            assert site.told.searched.looking
            driver.open("info")
            site.told.until(lambda: not site.told.searched.looking)
            assert site.told.log == [f"+{NAME}"]


def test_a_socket_that_hangs_keeps_nobody_waiting_for_longer_than_dialling_may_take(site: Site) -> None:
    with running_fault_driver(site.top / "d", registration=site.registry / "d.sock") as driver:
        driver.script(Rule(method="NodeGetInfo", gate_before="info", times=FOREVER))
        with site.watched(dial_timeout=0.2):
            driver.until_reached("info")
            site.told.until(lambda: not site.told.searched.looking)
            assert site.told.log == []
            driver.open("info")
