"""What pip sees of the workspace: one version, the right dependencies, entry points that exist."""

import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, TypedDict, TypeGuard, cast

import pytest

from volmgr.plugin import API_VERSION, VolumePlugin

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
APART = [ROOT / "plugins/cri"]
"""Packages that are no volume types, and act on each daemon that finds them: here they are only importable."""
MEMBERS = [ROOT / "core", *PLUGINS]

Project = TypedDict(
    "Project",
    {
        "name": str,
        "version": str,
        "requires-python": str,
        "license": str,
        "dependencies": list[str],
        "entry-points": dict[str, dict[str, str]],
    },
)


def toml(path: Path) -> dict[str, object]:
    return tomllib.loads(path.read_text())


def project(member: Path) -> Project:
    return cast("Project", toml(member / "pyproject.toml")["project"])


def name_of(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement)[0].lower()


def test_every_distribution_has_the_same_version() -> None:
    versions = {member.name: project(member)["version"] for member in [ROOT, *MEMBERS]}

    assert len(set(versions.values())) == 1, versions


def test_every_distribution_says_the_same_about_python_and_licence() -> None:
    said = {(project(member)["requires-python"], project(member)["license"]) for member in MEMBERS}

    assert said == {(">=3.11", "Apache-2.0")}


def test_the_core_depends_on_what_the_design_names() -> None:
    dependencies = {name_of(requirement) for requirement in project(ROOT / "core")["dependencies"]}

    assert {"pluggy", "stevedore", "marshmallow", "pyinotify", "msgspec"} <= dependencies
    assert {"pyyaml", "click", "rich", "prometheus-client"} <= dependencies
    assert dependencies.isdisjoint({"grpcio", "kubernetes"}), "of volmgr-csi and of an extra"


def test_python_without_asyncore_gets_it_for_pyinotify() -> None:
    assert any(
        re.fullmatch(r"pyasyncore\b.*; python_version >= '3\.12'", requirement)
        for requirement in project(ROOT / "core")["dependencies"]
    )


def is_volume_type(thing: object) -> TypeGuard[type[VolumePlugin[Any]]]:
    return isinstance(thing, type) and issubclass(thing, VolumePlugin)


def types_in(package: Path) -> set[type[VolumePlugin[Any]]]:
    """Give the volume types that a package defines."""
    modules = [f"{package.name}.{path.stem}" for path in package.glob("*.py") if path.stem != "__init__"]
    defined = [each for module in modules for each in vars(importlib.import_module(module)).values()]
    return {each for each in defined if is_volume_type(each) and each.__module__.startswith(package.name)}


def said_by(cls: type, package: str) -> set[str]:
    """Give the attributes that a class has of its own package."""
    return {name for base in cls.__mro__ if base.__module__.startswith(package) for name in vars(base)}


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: cast("Path", plugin).name)
class TestVolumeType:
    def test_is_named_after_its_folder(self, plugin: Path) -> None:
        assert project(plugin)["name"] == f"volmgr-{plugin.name}"
        assert (plugin / f"src/volmgr_{plugin.name}/py.typed").exists()

    def test_needs_exactly_the_core_it_was_released_with(self, plugin: Path) -> None:
        assert f"volmgr=={project(ROOT / 'core')['version']}" in project(plugin)["dependencies"]

    def test_has_one_entry_point_of_a_kind_into_its_own_package(self, plugin: Path) -> None:
        groups = project(plugin)["entry-points"]

        assert "volmgr.plugins" in groups
        assert set(groups) <= {"volmgr.plugins", "volmgr.commands"}
        for points in groups.values():
            assert list(points) == [plugin.name]
            module = points[plugin.name].partition(":")[0]
            assert importlib.util.find_spec(module) is not None, f"{module} does not exist"

    def test_is_installed_at_the_version_of_the_checkout(self, plugin: Path) -> None:
        name = project(plugin)["name"]
        if plugin in APART:
            with pytest.raises(PackageNotFoundError):
                distribution(name)
            return
        try:
            installed = distribution(name).version
        except PackageNotFoundError:
            pytest.fail(f"{name} is not installed: run `make venv`")
        assert installed == project(plugin)["version"]

    def test_says_for_which_plugin_api_it_was_written(self, plugin: Path) -> None:
        package = f"volmgr_{plugin.name}"
        types = types_in(plugin / "src" / package)

        assert [each for each in types if "api_version" not in said_by(each, package)] == []
        assert {each.api_version for each in types} <= {API_VERSION}

    def test_is_held_to_the_layers(self, plugin: Path) -> None:
        tool = cast("dict[str, dict[str, object]]", toml(ROOT / "pyproject.toml")["tool"])
        linter = tool["importlinter"]
        package = f"volmgr_{plugin.name}"

        assert package in cast("list[str]", linter["root_packages"])
        assert any(
            package in cast("list[str]", contract["layers"])[0].split(" | ")
            for contract in cast("list[dict[str, object]]", linter["contracts"])
            if "layers" in contract
        )


def test_the_console_scripts_have_a_module_to_start() -> None:
    scripts = {
        entry.name: entry.module for entry in distribution("volmgr").entry_points if entry.group == "console_scripts"
    }

    assert scripts == {"volmgr": "volmgr.cli", "volmgrd": "volmgr.daemon"}
    assert {name for name, module in scripts.items() if importlib.util.find_spec(module) is None} == set()


def test_the_lock_names_hosts_that_resolve_nowhere() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", (ROOT / "uv.lock").read_text()))

    assert hosts == {"index.invalid", "files.invalid"}


def test_setting_a_version_sets_it_everywhere(tmp_path: Path) -> None:
    for member in [ROOT, *MEMBERS]:
        copy = tmp_path / member.relative_to(ROOT) / "pyproject.toml"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((member / "pyproject.toml").read_text())
    script = tmp_path / "scripts/set_version.py"
    script.parent.mkdir()
    script.write_text((ROOT / "scripts/set_version.py").read_text())

    subprocess.run([sys.executable, script, "9.8.7rc1"], check=True)

    for member in [ROOT, *MEMBERS]:
        changed = project(tmp_path / member.relative_to(ROOT))
        assert changed["version"] == "9.8.7rc1"
        if member in PLUGINS:
            assert "volmgr==9.8.7rc1" in changed["dependencies"]
