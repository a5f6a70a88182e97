"""`volmgr plugins new` with answers that would make a package that cannot work."""

from __future__ import annotations

import ast
import keyword
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from volmgr.cli.app import cli


def new(*words: str) -> Result:
    return CliRunner().invoke(cli, ["plugins", "new", "--defaults", *words])


@pytest.mark.parametrize("name", ["class", "json", "tests"])
def test_a_package_of_one_word_has_a_module_that_shadows_nothing(tmp_path: Path, name: str) -> None:
    done = new(str(tmp_path / name))
    assert done.exit_code == 0, done.output

    (module,) = (tmp_path / name / "src").iterdir()
    assert module.name == f"{name}_volume"
    assert not keyword.iskeyword(module.name)
    for path in (tmp_path / name).rglob("*.py"):
        ast.parse(path.read_text())


@pytest.mark.parametrize("field", ["name", "capacity", "persistentVolumeClaim"])
def test_a_field_that_means_something_else_in_a_manifest_is_refused(tmp_path: Path, field: str) -> None:
    done = new(str(tmp_path / "my-volume"), "--field", field)
    assert done.exit_code == 1
    assert "another word: in a manifest that one means something else" in " ".join(done.output.split())


def test_a_refused_answer_is_named_by_its_option(tmp_path: Path) -> None:
    done = new(str(tmp_path / "My Volume"))
    assert done.exit_code == 1
    assert f"nothing was made of {tmp_path}/My Volume: --name: write lower-case words" in done.output
