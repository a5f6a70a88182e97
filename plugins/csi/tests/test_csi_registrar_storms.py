"""Registrations that go wrong in numbers, and registrars and drivers that say anything at all."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from tests.csi.fault_driver.registration import Registration
from tests.csi.fault_driver.rules import FOREVER, Rule
from tests.csi.fault_driver.running import running_fault_driver
from tests.csi.registrar import running_registrar
from tests.csi.watched import Site

NAME = "fault.csi.test"
NASTY = "\x1b[31m\n\0" + "x" * 3_000_000


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("n"))


def test_a_socket_that_registers_another_driver_takes_away_the_one_that_it_registered_before(site: Site) -> None:
    path, endpoint = site.registry / "reg.sock", str(site.top / "d/csi.sock")
    first, second = (Registration(name=name, endpoint=endpoint) for name in ("a.test", "b.test"))
    with (
        running_fault_driver(site.top / "d"),
        site.watched() as known,
        running_registrar(path, site.top / "a.log", first),
    ):
        site.told.until_there("a.test")
        with running_registrar(site.top / "b.sock", site.top / "b.log", second) as other:
            other.socket.rename(path)
            site.told.until_there("b.test")
            assert known.unmaking("a.test").retired
            path.unlink()
            site.told.until_there()


def test_a_driver_that_is_to_be_asked_anew_in_millions_of_years_keeps_no_other_out(site: Site) -> None:
    with site.watched(channel_idle=0.0) as known:
        known.refresh_every(NAME, float(1 << 62))
        with running_fault_driver(site.top / "d", registration=site.registry / "reg.sock"):
            site.told.until_there(NAME)
            with running_fault_driver(site.top / "e", name="e.test", registration=site.registry / "e.sock"):
                site.told.until_there(NAME, "e.test")
        site.told.until_there()


def test_who_stops_waits_for_no_driver_that_hangs_while_it_is_asked_anew(site: Site) -> None:
    names = [f"d{number}.test" for number in range(8)]
    with ExitStack() as stack:
        with site.watched() as known:
            drivers = [
                stack.enter_context(
                    running_fault_driver(site.top / name, name=name, registration=site.registry / f"{name}.sock")
                )
                for name in names
            ]
            site.told.until_there(*names)
            for driver in drivers:
                driver.script(Rule(method="NodeGetInfo", gate_before="never", times=FOREVER))
                known.refresh(driver.name)
                driver.until_reached("never")
        assert not [each for each in threading.enumerate() if each.name.startswith("csi driver")]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (Registration(name="a.test", endpoint="", kind=NASTY), r"which is a \x1b[31m\n\x00xxx"),
        (Registration(name="a.test", endpoint="", versions=(NASTY,)), r"it supports \x1b[31m\n\x00xxx"),
        (Registration(name=NASTY, endpoint=""), r"name '\x1b[31m\n\x00xxx"),
        (Registration(name="a.test", endpoint=NASTY), r"endpoint '\x1b[31m\n\x00xxx"),
    ],
    ids=["type", "versions", "name", "endpoint"],
)
def test_what_a_registrar_says_is_shown_in_brief_and_without_control_characters(
    site: Site, said: Registration, why: str
) -> None:
    with site.watched(), running_registrar(site.registry / "reg.sock", site.top / "log", said):
        site.told.until(lambda: site.told.searched.misfits)
        (problem,) = site.told.searched.misfits.values()
        assert why in problem
        assert problem.isprintable()
        assert len(problem) < 300


def test_a_version_that_no_number_holds_is_none(site: Site) -> None:
    said = Registration(name="a.test", endpoint="", versions=(f"1.{'9' * 5000}", "1" * 5000))
    with site.watched(), running_registrar(site.registry / "reg.sock", site.top / "log", said):
        site.told.until_problem("a.test", "of CSI and no 1.x")


def test_the_version_of_a_driver_is_shown_in_brief_and_without_control_characters(site: Site) -> None:
    with site.watched(), running_fault_driver(site.top / "d", registration=site.registry / "reg.sock") as driver:
        driver.script(Rule(method="GetPluginInfo", answer={"vendorVersion": NASTY}, times=FOREVER))
        site.told.until_there(NAME)
        version = site.told.there[NAME].version
        assert version.startswith(r"\x1b[31m\n\x00xxx")
        assert len(version) < 300
