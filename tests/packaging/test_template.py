"""The plugin template: what it makes with no, each and all abilities is clean, typed and keeps the contract."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email import message_from_string
from functools import cache
from pathlib import Path
from typing import Any

import copier
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.side_venv import SideVenv
from volmgr.cli.app import cli
from volmgr.cli.new_plugin import ABILITIES

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "plugin_template"
CHOICES: dict[str, tuple[str, ...]] = {"none": (), **{each: (each,) for each in ABILITIES}, "all": ABILITIES}


@dataclass(frozen=True)
class Rendering:
    """One package that the template made, with what its wheel installs."""

    place: Path

    @classmethod
    def of(cls, abilities: tuple[str, ...], place: Path) -> Rendering:
        """Render, build the wheel, and unpack it beside: a pure one is installed so."""
        copier.run_copy(str(TEMPLATE), place, {"abilities": list(abilities)}, defaults=True, quiet=True)
        rendering = cls(place)
        how = ("--quiet", "--offline", "--no-build-isolation", "--wheel", "--python", sys.executable)
        dist = rendering.installed.with_name(f"{place.name}-dist")
        run(sys.executable, "-m", "uv", "build", *how, "--out-dir", dist, place, cwd=place)
        (wheel,) = dist.glob("*.whl")
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(rendering.installed)
        return rendering

    @property
    def installed(self) -> Path:
        """Where its wheel is unpacked."""
        return self.place.parent.parent / "installed" / self.place.name

    @property
    def pyproject(self) -> dict[str, Any]:
        """Its settings."""
        return tomllib.loads((self.place / "pyproject.toml").read_text())

    @property
    def project(self) -> dict[str, Any]:
        """What its pyproject.toml says of the package."""
        project: dict[str, Any] = self.pyproject["project"]
        return project

    def run(self, *command: str | Path) -> str:
        """Run a command in it, as its author would."""
        environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTHONPATH": str(self.installed)}
        return run(*command, cwd=self.place, env=environment)


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Rendering]:
    top = tmp_path_factory.mktemp("template")

    @cache
    def made(choice: str) -> Rendering:
        return Rendering.of(CHOICES[choice], top / "packages" / f"with-{choice}")

    return made


@pytest.fixture(scope="module")
def all_renderings(rendered: Callable[[str], Rendering]) -> list[Rendering]:
    return [rendered(choice) for choice in CHOICES]


@pytest.fixture(params=CHOICES)
def rendering(request: pytest.FixtureRequest, rendered: Callable[[str], Rendering]) -> Rendering:
    return rendered(request.param)


def new(*words: str) -> Result:
    return CliRunner().invoke(cli, ["plugins", "new", *words])


def files(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def test_each_wheel_is_typed_and_carries_its_licence_and_readme(all_renderings: list[Rendering]) -> None:
    for each in all_renderings:
        (info,) = each.installed.glob("*.dist-info")
        (package,) = (path for path in each.installed.iterdir() if path != info)
        metadata = message_from_string((info / "METADATA").read_text())
        assert (package / "py.typed").is_file()
        assert b"Apache License" in (info / "licenses/LICENSE").read_bytes()
        assert metadata["License-Expression"] == "Apache-2.0"
        assert str(metadata.get_payload()) == (each.place / "README.md").read_text()


def test_ruff_has_nothing_to_say_by_its_own_settings(all_renderings: list[Rendering]) -> None:
    top = all_renderings[0].place.parent
    for words in (("check",), ("format", "--check")):
        run(sys.executable, "-m", "ruff", *words, "--no-cache", ".", cwd=top)


def test_mypy_has_nothing_to_say_by_its_own_settings(all_renderings: list[Rendering], tmp_path: Path) -> None:
    first = all_renderings[0]
    assert all(each.pyproject["tool"]["mypy"] == first.pyproject["tool"]["mypy"] for each in all_renderings)
    paths = [each.place / name for each in all_renderings for name in first.pyproject["tool"]["mypy"]["files"]]
    typings = ":".join(str(path) for path in (ROOT / "typings", *(each.place / "src" for each in all_renderings)))
    how = ("--config-file", first.place / "pyproject.toml", "--cache-dir", tmp_path)
    run(sys.executable, "-m", "mypy", *how, *paths, cwd=tmp_path, env={**os.environ, "MYPYPATH": typings})


def test_basedpyright_has_nothing_to_say_by_its_own_settings(all_renderings: list[Rendering]) -> None:
    top, settings = all_renderings[0].place.parent, all_renderings[0].pyproject["tool"]["basedpyright"]
    assert all(each.pyproject["tool"]["basedpyright"] == settings for each in all_renderings)
    names = [each.place.name for each in all_renderings]
    together = {
        **settings,
        "include": [f"{name}/{part}" for name in names for part in settings["include"]],
        "executionEnvironments": [{"root": name, "extraPaths": [f"{name}/src"]} for name in names],
    }
    (top / "pyrightconfig.json").write_text(json.dumps(together))
    run(sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, cwd=top)


@pytest.mark.timeout(300)
def test_its_tests_pass_and_it_keeps_the_contract_in_memory(rendering: Rendering) -> None:
    hermetic = ("-q", "-p", "no:cacheprovider")
    said = rendering.run(sys.executable, "-m", "pytest", *hermetic, "tests", "--pyargs", "volmgr.testing.contract")
    assert " passed" in said
    assert "skipped" not in said


@pytest.mark.root
@pytest.mark.timeout(600)  # each host call of a type that formats disks is killed once
def test_it_keeps_the_contract_on_the_kernel(rendering: Rendering) -> None:
    suite = ("--pyargs", "volmgr.testing.contract", "--volmgr-host", "real")
    said = rendering.run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *suite)
    assert " passed" in said
    assert "skipped" not in said


@pytest.mark.root  # a network namespace of its own
def test_an_installed_volmgr_begins_a_type_that_can_be_built_and_installed(tmp_path: Path) -> None:
    venv = SideVenv.make(tmp_path / "venv")
    venv.install(ROOT / "core")
    alone = ("unshare", "--net", "env", "--chdir", tmp_path, "PATH=")  # neither network nor git
    options = ("--field", "scratch", "--type", "storage.example/scratch", "--ability", "measure", "-o", "json")
    said = run(*alone, venv.python, "-m", "volmgr.cli", "plugins", "new", "my-volume", *options, cwd=tmp_path)
    assert json.loads(said) == {"path": str(tmp_path / "my-volume")}

    venv.install(tmp_path / "my-volume")
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\n"
        "kind: Pod\n"
        "metadata: {name: reader}\n"
        "spec:\n"
        "  containers: [{name: main, volumeMounts: [{name: data, mountPath: /data}]}]\n"
        "  volumes: [{name: data, scratch: {size: 1Mi}}]\n"
    )
    assert "ok: Pod default/reader" in run(venv.python, "-m", "volmgr.cli", "check", "pod.yaml", cwd=tmp_path)
    suite = ("--pyargs", "volmgr.testing.contract", "--volmgr-plugin", "storage.example/scratch", "-k", "sanely")
    assert "1 passed" in run(venv.python, "-m", "pytest", "-q", *suite, cwd=tmp_path)


def test_copier_and_volmgr_make_the_same_of_the_same_answers(tmp_path: Path) -> None:
    words = ("copy", "--quiet", "--defaults", "--data", "abilities=[block, expand]", str(TEMPLATE), "a/my-volume")
    run(sys.executable, "-m", "copier", *words, cwd=tmp_path)
    done = new(str(tmp_path / "b/my-volume"), "--ability", "block", "--ability", "expand")
    assert done.exit_code == 0, done.output
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_what_is_there_already_is_kept(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    done = new(str(tmp_path))
    assert done.exit_code == 1
    assert "is there and not empty; name a directory that does not exist yet" in done.output
    assert files(tmp_path) == {"README.md": b"mine"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--name", "My Volume"), "write lower-case words with dashes between them"),
        (("--name", "volmgr"), "that is the core's name"),
        (("--field", "my-volume"), "write one word of at most 24 letters in camelCase"),
        (("--field", "mount"), "another word: the class of that name is volmgr's own"),
        (("--type", "scratch"), "write a domain of yours and a name"),
    ],
)
def test_an_answer_that_cannot_be_is_refused_and_nothing_is_made(
    tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    done = new(str(tmp_path / "my-volume"), *words)
    assert done.exit_code == 1
    assert problem in " ".join(done.output.split())
    assert not (tmp_path / "my-volume").exists()


def test_without_copier_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "copier", None)
    done = new(str(tmp_path / "my-volume"))
    assert done.exit_code == 1
    assert "pip install 'volmgr[new]'" in done.output


def test_the_abilities_of_the_command_are_those_of_the_template() -> None:
    questions = yaml.safe_load((TEMPLATE / "copier.yml").read_text())
    assert tuple(questions["abilities"]["choices"].values()) == ABILITIES


def test_no_class_can_have_the_name_of_one_that_its_package_imports(all_renderings: list[Rendering]) -> None:
    taken = yaml.safe_load((TEMPLATE / "copier.yml").read_text())["taken"]["default"]
    imported = {
        alias.name
        for each in all_renderings
        for file in each.place.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name[0].isupper() and alias.name != "DEFAULT_TYPE" and not alias.name.startswith("With")
    }
    assert {f"{name[0].lower()}{name[1:]}" for name in imported} == set(yaml.safe_load(taken))


def test_its_licence_is_ours() -> None:
    assert (TEMPLATE / "project/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_its_workflow_runs_what_its_readme_says(all_renderings: list[Rendering]) -> None:
    for each in all_renderings:
        steps = yaml.safe_load((each.place / ".github/workflows/check.yml").read_text())["jobs"]["check"]["steps"]
        told = " ".join(step.get("run", "") for step in steps)
        block = (each.place / "README.md").read_text().split("```console\n")[1].split("```")[0]
        commands = [line.removeprefix("$ ") for line in block.splitlines()]
        assert [command for command in commands if command not in told] == []
