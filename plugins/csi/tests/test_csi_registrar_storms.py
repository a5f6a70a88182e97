"""Registrations that go wrong in numbers, and registrars and drivers that say anything at all."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.csi.fault_driver.registration import Registration
from tests.csi.fault_driver.rules import FOREVER, Rule
from tests.csi.fault_driver.running import ThreadDriver, running_fault_driver, running_fault_process
from tests.csi.registrar import running_registrar
from tests.csi.watched import Site
from tests.eventually import PATIENCE, eventually

NAME = "fault.csi.test"
NO_DRIVER = Registration(name="disk.test", endpoint="", kind="DevicePlugin")
VERSIONS = (("1.0.0",), ("1.0.0",), ("1.0.0", "1.2.0"))
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


def test_a_socket_whose_name_was_taken_registers_also_if_the_other_left_before_that_was_known(site: Site) -> None:
    said = Registration(name=NAME, endpoint=str(site.top / "d/csi.sock"))
    with (
        site.watched(info_timeout=PATIENCE),
        running_fault_driver(site.top / "d") as driver,
        running_registrar(site.registry / "a.sock", site.top / "a.log", said) as first,
        running_registrar(site.top / "b.sock", site.top / "b.log", said) as second,
    ):
        site.told.until_there(NAME)
        second.script(Rule(method="GetInfo", gate_before="later"))
        second.socket.rename(site.registry / "b.sock")
        second.rules.until_reached("later")
        site.told.may_go_on.clear()
        with running_registrar(site.registry / "c.sock", site.top / "c.log", NO_DRIVER):
            site.told.until(lambda: site.told.searched.misfits)  # who reports it stands still from there on
            second.rules.open("later")
            eventually(lambda: "NotifyRegistrationStatus" in {call.method for call in second.calls()})
            first.socket.unlink()
            site.told.may_go_on.set()
            site.told.until(lambda: site.told.log == [f"+{NAME}", f"-{NAME}", f"+{NAME}"])
            assert site.told.there[NAME].endpoint == str(driver.socket)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sockets_that_come_go_and_replace_each_other_at_random_end_as_the_drivers_that_they_register(
    site: Site, seed: int
) -> None:
    dice = random.Random(seed)
    with ExitStack() as stack:
        drivers = [
            stack.enter_context(
                running_fault_driver(site.top / f"{number}", name=f"d{number % 8}.test", versions=VERSIONS[number % 3])
            )
            for number in range(16)
        ]
        stack.enter_context(site.watched())
        site.told.until(site.registry.is_dir)
        paths = [site.registry / f"{number}.sock" for number in range(200)]
        there: dict[Path, ThreadDriver] = {}
        for _ in range(1500):
            path, driver = dice.choice(paths), dice.choice(drivers)
            if path in there and (there[path] is driver or dice.random() < 0.6):
                path.unlink()
                del there[path]
            else:
                os.link(driver.registration, site.top / "new.sock")
                (site.top / "new.sock").rename(path)
                there[path] = driver
        for path in list(there)[5:]:
            path.unlink()
            del there[path]
        wanted = {(driver.name, str(driver.socket)) for driver in there.values()}
        site.told.until(
            lambda: (
                set(site.told.there) == {name for name, _ in wanted}
                and {(info.name, info.endpoint) for info in site.told.there.values()} <= wanted
            )
        )
        for path in there:
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


@pytest.fixture
def no_thread_starts() -> Iterator[Callable[[], object]]:
    """Let no thread start from here on: none finds room for its stack; gives what ends that."""
    threading.stack_size(1 << 47)
    yield partial(threading.stack_size, 0)
    threading.stack_size(0)


def test_where_no_thread_is_to_be_had_a_driver_registers_once_one_is(
    site: Site, request: pytest.FixtureRequest
) -> None:
    with running_fault_process(site.top / "d") as driver, site.watched():
        site.told.until(site.registry.is_dir)
        end: Callable[[], object] = request.getfixturevalue("no_thread_starts")
        driver.registration.rename(site.registry / "reg.sock")
        site.told.until_problem(str(site.registry / "reg.sock"), "can't start new thread; raise TasksMax")
        end()
        site.told.until_there(NAME)


def test_where_no_thread_is_to_be_had_a_driver_is_asked_anew_once_one_is(
    site: Site, request: pytest.FixtureRequest
) -> None:
    with (
        running_fault_process(site.top / "d", registration=site.registry / "reg.sock") as driver,
        site.watched() as known,
    ):
        site.told.until_there(NAME)
        driver.script(Rule(method="NodeGetInfo", answer={"maxVolumesPerNode": 7}, times=FOREVER))
        end: Callable[[], object] = request.getfixturevalue("no_thread_starts")
        known.refresh(NAME)
        (site.registry / "dead.sock").symlink_to(driver.socket)
        site.told.until_problem(str(site.registry / "dead.sock"), "can't start new thread")
        end()
        site.told.until(lambda: site.told.there[NAME].limit == 7)


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
