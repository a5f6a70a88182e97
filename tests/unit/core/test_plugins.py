"""Loading packages, isolating broken ones, and dispatching a volume to exactly one type."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from threading import Event
from typing import Any, cast

import pytest

from tests.flow.core.probes import Disk, Plain, Script
from tests.unit.core.packages import Site, site, type_source
from volmgr import manifest
from volmgr.discovery import load
from volmgr.errors import PluginError, UnservedError
from volmgr.model.pod import Pod, PodSpec
from volmgr.model.schema import SchemaError
from volmgr.plugin import Facets, Handles, ObjectMeta, Searched, VolumePlugin, VolumeSpec, Where
from volmgr.plugins import Plugins, read_settings
from volmgr.testing import FakeHost
from volmgr.volume_type import Origin

ORIGIN = Origin("test", "0", "test")
POD = Pod(metadata=ObjectMeta(name="p"), spec=PodSpec())


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as here:
        here.install("acme-good", type_source(), "Good")
        yield here


def broken(plugins: Plugins) -> dict[str, str]:
    """Give the problem of each broken distribution."""
    return {each.origin.distribution: each.problem for each in plugins.broken}


def test_a_package_that_names_a_class_serves_its_field(packages: Site) -> None:
    plugins = packages.load()
    found = plugins.find("good")
    assert found.name == "example.com/good"
    assert str(found.origin).startswith("acme-good 1.0 (it = site_module_")
    assert plugins.broken == []


@pytest.mark.parametrize(
    ("source", "attribute", "problem"),
    [
        ("import no_such_module_at_all", "X", "ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("raise ImportError('needs libfoo')", "X", "ImportError: needs libfoo"),
        ("assert 1 == 2, 'a check of mine'", "X", "PluginError: import ended with AssertionError: a check of mine"),
        ("import sys; sys.exit('no licence')", "X", "PluginError: import ended with SystemExit: no licence"),
        ("1 / 0", "X", "ZeroDivisionError: division by zero"),
        ("def broken(:", "X", "SyntaxError"),
        ("", "Missing", "AttributeError"),
        ("Thing = 42", "Thing", "PluginError: 42 is neither a VolumePlugin subclass nor a module"),
        (
            type_source() + "    api_version = 99\n",
            "Good",
            "PluginError: Good is written for plugin API 99, this volmgr has 1; upgrade volmgr",
        ),
        (
            type_source() + "    api_version = 0\n",
            "Good",
            "PluginError: Good is written for plugin API 0, this volmgr has 1; upgrade its package",
        ),
        (
            "from volmgr.plugin import *\nclass Nameless(VolumePlugin[None]): handles = (Handles('x'),)",
            "Nameless",
            "PluginError: Nameless must set name and handles",
        ),
        (
            "from volmgr.plugin import *\nclass Bad(VolumePlugin[None]):\n def mout(self, request, host): ...",
            "Bad",
            "PluginError: Bad.mout() is no part of the plugin interface; did you mean mount()?",
        ),
        (
            type_source() + "    def __init__(self): raise RuntimeError('no')\n",
            "Good",
            "RuntimeError: no",
        ),
        (
            type_source() + "    def __init__(self): raise SystemExit(3)\n",
            "Good",
            "SystemExit: 3",
        ),
    ],
    ids=[
        "missing dependency",
        "ImportError",
        "AssertionError",
        "SystemExit",
        "any exception",
        "syntax error",
        "missing attribute",
        "neither class nor module",
        "later API version",
        "earlier API version",
        "no name",
        "misspelt method",
        "constructor fails",
        "constructor exits",
    ],
)
def test_a_broken_package_is_named_with_its_traceback_and_the_others_work(
    packages: Site, source: str, attribute: str, problem: str
) -> None:
    packages.install("acme-broken", source.replace("example.com/good", "example.com/other"), attribute)
    plugins = packages.load()
    assert list(broken(plugins)) == ["acme-broken"]
    assert broken(plugins)["acme-broken"].startswith(problem)
    lines = plugins.broken[0].traceback.splitlines()
    assert problem.rpartition(": ")[2] in lines[-1]
    assert not [line for line in lines if "stevedore" in line or "importlib" in line or "volmgr/plugins.py" in line]
    assert plugins.find("good").name == "example.com/good"


def test_the_traceback_of_a_broken_package_begins_in_it_and_shows_all_that_follows(packages: Site) -> None:
    source = "def load():\n    import json\n    return json.loads('{')\nX = load()"
    module = packages.install("acme-broken", source, "X")
    text = packages.load().broken[0].traceback
    lines = [line for line in text.splitlines() if line.startswith("  File ")]
    assert [module in line for line in lines[:2]] == [True, True]
    assert "json/__init__.py" in lines[2]
    assert text.splitlines()[-1].startswith("json.decoder.JSONDecodeError: ")


def test_of_a_failed_check_in_a_package_the_check_itself_is_shown(packages: Site) -> None:
    module = packages.install("acme-broken", "assert 1 == 2, 'a check of mine'", "X")
    text = packages.load().broken[0].traceback
    assert [module in line for line in text.splitlines() if line.startswith("  File ")] == [True]
    assert "AssertionError: a check of mine" in text


def test_a_field_that_a_broken_package_may_serve_is_not_told_to_be_installed(packages: Site) -> None:
    packages.install("acme-ledger", "import no_such_module_at_all", "X")
    plugins = packages.load()
    (origin,) = [str(each.origin) for each in plugins.broken]
    document = {"metadata": {"name": "web"}, "kind": "Pod", "apiVersion": "v1"}

    def refusal(field: str) -> str:
        text = json.dumps({**document, "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "v", field: {}}]}})
        parsed = manifest.parse(text.encode(), "", plugins)
        return str(parsed.errors[0])

    broken_too = f"{origin}, which may serve it, is installed but broken: see volmgr plugins"
    assert broken_too in refusal("ledger")
    assert broken_too in refusal("zzzz")
    assert "did you mean emptyDir?" in refusal("emptyDirr")

    pv = b'{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"ledger": {}}}'
    assert broken_too in str(manifest.parse(pv, "", plugins).errors[0])


def test_two_hundred_packages_of_others_are_not_imported_and_cost_no_150_ms(packages: Site) -> None:
    modules = [
        packages.install(f"other-{number}", "raise SystemExit('imported')", group="somebody.elses")
        for number in range(200)
    ]
    packages.install("acme-broken", "import no_such_module_at_all", "X")
    seconds: list[float] = []
    for _ in range(3):
        before = time.process_time()
        plugins = load()
        seconds.append(time.process_time() - before)
        assert plugins.find("good").name == "example.com/good"
        assert list(broken(plugins)) == ["acme-broken"]
    assert set(modules).isdisjoint(sys.modules)
    assert min(seconds) < 0.150


def test_two_packages_of_one_name_are_refused_naming_both_and_so_is_a_third(packages: Site) -> None:
    packages.install("acme-other", type_source(field="other"), "Good")
    packages.install("acme-third", type_source(), "Good")
    plugins = packages.load()
    assert set(broken(plugins)) == {"acme-good", "acme-other", "acme-third"}
    assert "example.com/good" not in plugins.types
    for problem in broken(plugins).values():
        assert "example.com/good is brought by both acme-good 1.0 " in problem
        assert "acme-other 1.0" in problem
    for field in ("good", "other"):
        with pytest.raises(PluginError, match=r"claimed by acme-good 1\.0 .* and acme-other .* and acme-third .*") as e:
            plugins.find(field)
        assert not isinstance(e.value, UnservedError)


def test_two_packages_of_one_field_conflict_there_and_nowhere_else(packages: Site) -> None:
    second = type_source("Second", "example.com/second").replace(
        '(Handles("good"),)', '(Handles("good"), Handles("b"))'
    )
    packages.install("acme-second", second, "Second")
    plugins = packages.load()
    with pytest.raises(PluginError, match=r"'good' is claimed by acme-good .* and acme-second .*; uninstall one"):
        plugins.find("good")
    assert plugins.find("b").name == "example.com/second"
    assert plugins.broken == []


def test_a_module_may_bring_types(packages: Site) -> None:
    source = (
        type_source("Other", "example.com/other", "other")
        + """
@hookimpl
def volmgr_volume_plugins():
    return [Other]
"""
    )
    packages.install("acme-module", source)
    assert packages.load().find("other").name == "example.com/other"


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        ("@hookimpl\ndef volmgr_mount(request, host): return None", "is no wrapper: it would replace the volume type"),
        ("@hookimpl(wrapper=True)\ndef volmgr_mout(request, host): yield", "unknown hook 'volmgr_mout'"),
        ("@hookimpl(wrapper=True)\ndef volmgr_mount(request, ghost): yield", "ghost"),
        ("@hookimpl(wrapper=True)\ndef volmgr_mount(request, host): return None", "no generator"),
        ("@hookimpl\ndef volmgr_holds(pod): return None", "pod"),
        ("@hookimpl\ndef volmgr_volume_plugins(): raise KeyError('x')", "KeyError"),
    ],
    ids=["no wrapper", "unknown hook", "unknown argument", "wrapper without yield", "wrong argument", "hook raises"],
)
def test_a_module_with_a_wrong_hook_is_broken_alone(packages: Site, hook: str, problem: str) -> None:
    packages.install("acme-wrong", f"from volmgr.plugin import hookimpl\n{hook}\n")
    packages.install(
        "acme-zzz", "from volmgr.plugin import hookimpl\n@hookimpl\ndef volmgr_holds(pod_uid): return 'me'"
    )
    plugins = packages.load()
    assert list(broken(plugins)) == ["acme-wrong"]
    expected = "generator" if problem == "no generator" else problem
    assert expected in broken(plugins)["acme-wrong"]
    assert plugins.find("good").name == "example.com/good"
    assert plugins.holders("u1") == "me"


def test_a_package_that_fails_to_say_who_holds_a_pod_counts_as_a_holder(packages: Site) -> None:
    source = "from volmgr.plugin import hookimpl\n@hookimpl\ndef volmgr_holds(pod_uid): raise OSError('socket')"
    packages.install("acme-runtime", source)
    holders = packages.load().holders("u1")
    assert holders.startswith("unknown: site_module_")
    assert " failed to answer: socket; " in holders
    assert holders.endswith("repair or uninstall its package, then run volmgr plugins reload")


def test_holders_are_known_by_packages_that_say_so_and_not_by_every_module(packages: Site) -> None:
    source = "from volmgr.plugin import hookimpl\n@hookimpl\ndef volmgr_{}: return {}"
    packages.install("acme-types", source.format("volume_plugins()", "[]"))
    plugins = packages.load()
    assert plugins.modules
    assert (plugins.know_holders, plugins.holders("u1")) == (False, "")
    packages.install("acme-runtime", source.format("holds(pod_uid)", "'me'"))
    plugins = packages.load()
    assert (plugins.know_holders, plugins.holders("u1")) == (True, "me")


def test_what_watches_for_holders_is_a_service_that_may_answer_itself(packages: Site) -> None:
    source = """
    from volmgr.plugin import hookimpl
    class Runtime:
        name = "runtime"
        def __init__(self, recheck): self.recheck = recheck
        @hookimpl
        def volmgr_holds(self, pod_uid):
            self.recheck(pod_uid)
            return "me"
    @hookimpl
    def volmgr_hold_watchers(recheck): return [Runtime(recheck)]
    """
    packages.install("acme-runtime", dedent(source))
    failing = "from volmgr.plugin import hookimpl\n@hookimpl\ndef volmgr_hold_watchers(host): raise OSError('socket')"
    packages.install("acme-wrong", failing)
    plugins = packages.load()
    rechecked: list[str] = []
    nothing = cast("Any", None)  # nobody here registers drivers or offers manifests
    found = plugins.services(lambda _origin: nothing, lambda _name: nothing, rechecked.append, FakeHost())
    assert [service.name for service in found] == ["runtime"]
    assert broken(plugins) == {"acme-wrong": "OSError: socket"}
    assert (plugins.know_holders, plugins.holders("u1"), rechecked) == (True, "me", ["u1"])


def test_a_package_that_fails_to_hear_of_an_operation_is_not_felt(packages: Site) -> None:
    source = """
    from volmgr.plugin import hookimpl
    @hookimpl
    def volmgr_operation_finished(volume, outcome): raise OSError("socket")
    @hookimpl
    def volmgr_attach_limit_reached(driver): raise OSError("socket")
    """
    packages.install("acme-audit", source)
    plugins = packages.load()
    plugins.finished("v", "mount", "u1", "done", 0.1)
    plugins.limit_reached("x", FakeHost())


def test_a_field_nobody_serves_names_the_package_that_would() -> None:
    plugins = Plugins()
    with pytest.raises(UnservedError, match=r"no installed package serves volume type 'nfs'; install volmgr-nfs, then"):
        plugins.find("nfs")
    with pytest.raises(UnservedError, match=r"'csi' with driver 'x'; install volmgr-csi"):
        plugins.find("csi", "x")
    with pytest.raises(UnservedError, match=r"'hostpath'; did you mean 'hostPath'\?"):
        plugins.find("hostpath")


def test_a_field_whose_package_is_broken_says_so(packages: Site) -> None:
    packages.install("volmgr-nfs", "1 / 0", "Nfs")
    plugins = packages.load()
    with pytest.raises(UnservedError, match=r"volmgr-nfs 1\.0 .* is installed but broken: ZeroDivisionError"):
        plugins.find("nfs")


class Driver(VolumePlugin[None]):
    """Serves one CSI driver."""

    name = "example.com/driver"
    handles: tuple[Handles, ...] = (Handles("csi", driver="x.example.com"), Handles("tape", where=Where.PV))


class Tape(Driver):
    """A driver of many."""

    def __init__(self, name: str) -> None:
        self.name = f"example.com/{name}"
        self.handles = (Handles("csi", driver=name),)


class AnyCsi(VolumePlugin[None]):
    """Serves every CSI driver."""

    name = "kubernetes.io/csi"
    handles = (Handles("csi"),)


def test_a_class_for_one_driver_comes_before_the_one_for_all() -> None:
    plugins = Plugins()
    plugins.add(AnyCsi(), ORIGIN)
    plugins.add(Driver(), ORIGIN)
    assert plugins.find("csi", "x.example.com").name == "example.com/driver"
    assert plugins.find("csi", "y.example.com").name == "kubernetes.io/csi"
    assert plugins.find("csi").name == "kubernetes.io/csi"


def test_a_field_of_persistent_volumes_is_not_served_in_pods() -> None:
    plugins = Plugins()
    plugins.add(Driver(), ORIGIN)
    assert plugins.find("tape", where=Where.PV).name == "example.com/driver"
    with pytest.raises(
        UnservedError, match=r"^volume type 'tape' is one of PersistentVolumes only; write a Persistent"
    ):
        plugins.find("tape")


def test_who_asks_for_a_driver_in_vain_is_told_where_it_was_looked_for_and_what_is_near() -> None:
    plugins = Plugins()
    plugins.add(Driver(), ORIGIN)
    misfits = {"v.org/disk": "v~disk is not executable"}
    plugins.searched["csi"] = Searched(field="csi", places=("/a", "/b"), misfits=misfits, problem="nothing is watched")
    asked = {
        "v.org/disk": "looked in /a, /b; nothing is watched; v~disk is not executable",
        "w.org/disk": "looked in /a, /b; nothing is watched; v~disk is not executable",
        "y.example.com": "looked in /a, /b; nothing is watched; there is a driver 'x.example.com'",
        "nobody.org/zz": "looked in /a, /b; nothing is watched; install its driver there",
    }
    for driver, told in asked.items():
        with pytest.raises(UnservedError) as error:
            plugins.find("csi", driver)
        assert str(error.value) == f"nothing serves volume type 'csi' with driver {driver!r}: {told}"


def test_a_module_says_what_the_configuration_may_say(packages: Site) -> None:
    source = """
    from dataclasses import dataclass, field
    from volmgr.plugin import hookimpl
    @dataclass(frozen=True)
    class Settings:
        place: str = field(default="/here", metadata={"name": "place"})
    @hookimpl
    def volmgr_settings(): return {"example.com/module": Settings}
    """
    packages.install("acme-module", source)
    plugins = packages.load()
    assert plugins.broken == []
    (settings,) = read_settings(plugins, {"example.com/module": {"place": "/there"}})
    assert repr(settings).endswith("Settings(place='/there')")
    with pytest.raises(SchemaError, match=r"plugins\.example\.com/module\.plaice"):
        read_settings(plugins, {"example.com/module": {"plaice": "/there"}})


def test_a_retired_driver_serves_nothing_new_and_stays_known() -> None:
    plugins = Plugins()
    plugins.add(Driver(), ORIGIN)
    plugins.retire("example.com/driver")
    with pytest.raises(UnservedError):
        plugins.find("csi", "x.example.com")
    assert plugins.types["example.com/driver"].retired
    plugins.replace_driver(Driver(), ORIGIN)
    assert not plugins.find("csi", "x.example.com").retired


@pytest.fixture
def eager() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager")
def test_manifests_are_read_while_drivers_come_and_go() -> None:
    plugins = Plugins()
    gone = Event()

    def come_and_go() -> None:
        try:
            for number in range(400):
                plugins.replace_driver(Tape(f"d{number % 50}"), ORIGIN)
                plugins.retire(f"example.com/d{(number + 25) % 50}")
        finally:
            gone.set()

    with ThreadPoolExecutor(1) as others:
        coming = others.submit(come_and_go)
        while not gone.is_set():
            assert not plugins.known("strange")
            with pytest.raises(UnservedError, match="no installed package serves volume type 'strange'"):
                plugins.find("strange")
            assert all(name.startswith("d") for name in plugins.drivers_of("csi"))
        coming.result()


def test_a_pure_method_that_raises_names_the_package() -> None:
    def fail() -> None:
        raise ZeroDivisionError("oops")

    plugins = Plugins()
    plugins.add(Disk(Script(pure=fail)), ORIGIN)
    spec: VolumeSpec[object] = VolumeSpec(name="v", type="diskProbe", source=None)
    with pytest.raises(PluginError, match=r"facets\(\) of test 0 \(test\) failed: ZeroDivisionError: oops"):
        plugins.types[Disk.name].ask("facets", spec, {})


@pytest.mark.parametrize(
    ("method", "script", "wanted"),
    [
        ("facets", Script(facets=None), "Facets"),  # type: ignore[arg-type]
        ("references", Script(references=None), "tuple"),  # type: ignore[arg-type]
        ("endpoint", Script(endpoint=7), "str"),  # type: ignore[arg-type]
    ],
)
def test_a_pure_method_that_gives_something_else_names_the_package(method: str, script: Script, wanted: str) -> None:
    plugins = Plugins()
    plugins.add(Plain(script), ORIGIN)
    spec: VolumeSpec[object] = VolumeSpec(name="v", type="plainProbe", source=None)
    calls: dict[str, tuple[object, ...]] = {"facets": (spec, {}), "references": (spec, POD), "endpoint": (spec,)}
    with pytest.raises(PluginError, match=rf"{method}\(\) of test 0 \(test\) gave .* instead of {wanted}"):
        plugins.types[Plain.name].ask(method, *calls[method])


def test_the_fields_of_installed_types_are_known() -> None:
    plugins = Plugins()
    plugins.add(Plain(Script(facets=Facets())), ORIGIN)
    assert plugins.known("plainProbe")
    assert not plugins.known("nfs")
    assert plugins.fields() == {"plainProbe"}
