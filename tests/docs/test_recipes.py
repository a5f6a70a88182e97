"""The recipes are code that is right: each is imported, mypy has nothing to say in strict mode, whole types work."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks

READ_ONLY = "class Docs(VolumePlugin[DocsSource])"
SHARE = "unmount_served(request.target"
SHARE_SAMPLES = """

def samples(top: object) -> list[object]:
    from volmgr.testing import Sample

    return [Sample(source=ShareSource(server="a", path="/x"), arrange=lambda host: host.machine.serve("share", "a:/x"))]
"""
SAMPLES = """

def samples(top: Path) -> list[object]:
    from volmgr.testing import Sample

    shown = DocsSource(path=str(top))
    return [Sample(source=shown, arrange=lambda host: host.files.ensure_directory(top / "inner", 0o755))]
"""


def test_each_recipe_can_be_imported_and_is_typed(tmp_path: Path) -> None:
    pages = [ROOT / "docs/plugins" / name for name in ("recipes.md", "versioning.md")]
    codes = [block.text for page in pages for block in blocks(page) if block.language == "python"]
    assert len(codes) > 8
    for number, code in enumerate(codes):
        path = tmp_path / f"recipe_{number}.py"
        path.write_text(code)
        runpy.run_path(str(path))

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".cache", "."],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "typings")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def contract_of(tmp_path: Path, code: str, *options: str, plugin: str = "Docs") -> tuple[int, str]:
    """Hold a type in a text to the contract; gives the exit code and what was said."""
    (tmp_path / "shown.py").write_text(code)
    suite = ("--pyargs", "volmgr.testing.contract", "--volmgr-plugin", f"shown:{plugin}", *options)
    hermetic = ("-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "run"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *suite, *hermetic],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def recipe(having: str, samples: str) -> str:
    (code,) = [each.text for each in blocks(ROOT / "docs/plugins/recipes.md") if having in each.text]
    return code + samples


@pytest.mark.parametrize("host", ["fake", pytest.param("real", marks=pytest.mark.root)])
def test_the_read_only_directory_keeps_the_contract(tmp_path: Path, host: str) -> None:
    code, said = contract_of(tmp_path, recipe(READ_ONLY, SAMPLES), "--volmgr-host", host)
    assert code == 0, said


def test_a_read_only_directory_that_forgets_mounts_of_others_is_caught(tmp_path: Path) -> None:
    code, said = contract_of(tmp_path, recipe(READ_ONLY, SAMPLES).replace("unmount_below", "unmount"))
    assert code == 1
    assert "FAILED test_others.py::test_mounts_of_others_below_are_taken_away_and_never_followed" in said
    assert "1 failed" in said


def test_the_share_of_a_server_keeps_the_contract(tmp_path: Path) -> None:
    code, said = contract_of(tmp_path, recipe(SHARE, SHARE_SAMPLES), plugin="Share")
    assert code == 0, said
