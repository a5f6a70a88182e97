"""The tutorial's package is extracted, built, installed beside the core, tested, and used by a Pod."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.docs.tutorial import PAGE, write_project
from tests.side_venv import SideVenv


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the tutorial shows."""
    top = tmp_path_factory.mktemp("tutorial")
    write_project(top)
    return top


@pytest.fixture(scope="module")
def venv(project: Path) -> SideVenv:
    """An environment with the tutorial's package in it."""
    venv = SideVenv.make(project / "venv")
    venv.install(project / "volmgr-note")
    return venv


def run(venv: SideVenv, *arguments: str | Path, cwd: Path) -> str:
    command = [str(venv.python), "-m", *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_own_tests_pass(venv: SideVenv, project: Path) -> None:
    assert "2 passed" in run(venv, "pytest", "-q", "volmgr-note/tests", cwd=project)


def test_it_keeps_every_promise_of_the_contract(venv: SideVenv, project: Path) -> None:
    suite = ("pytest", "-q", "--pyargs", "volmgr.testing.contract", "--volmgr-plugin", "note", "--volmgr-host", "fake")

    said = run(venv, *suite, cwd=project)

    assert " passed" in said
    assert "skipped" not in said


def test_its_manifest_is_accepted_where_the_package_is_installed(venv: SideVenv, project: Path) -> None:
    assert "ok: Pod default/reader" in run(venv, "volmgr.cli", "check", "reader.yaml", cwd=project)


def test_its_class_is_as_short_as_it_says() -> None:
    (code,) = [block.text for block in blocks(PAGE) if block.title.endswith("volmgr_note/__init__.py")]
    class_body = code[code.index("class Note(") :]

    assert len(class_body.rstrip().splitlines()) <= 36
