"""The contract suite as a third party runs it: one command, for the types of this repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TYPES = ("emptydir", "hostpath", "local")


def run(tmp_path: Path, *options: str) -> tuple[int, str]:
    command = (sys.executable, "-m", "pytest", "--pyargs", "volmgr.testing.contract", *options)
    hermetic = ("-p", "no:cacheprovider", "-p", "no:randomly", "-q", "--basetemp", str(tmp_path / "run"))
    done = subprocess.run(
        (*command, *hermetic),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("key", TYPES)
def test_a_type_keeps_its_promises_in_memory(tmp_path: Path, key: str) -> None:
    code, output = run(tmp_path, "--volmgr-plugin", key, "--volmgr-host", "fake")
    assert code == 0, output
    assert "skipped" not in output


@pytest.mark.root
@pytest.mark.parametrize("key", TYPES)
def test_a_type_keeps_its_promises_on_the_kernel(tmp_path: Path, key: str) -> None:
    code, output = run(tmp_path, "--volmgr-plugin", key, "--volmgr-host", "real")
    assert code == 0, output
    assert "skipped" not in output


@pytest.mark.parametrize("key", ["kubernetes.io/empty-dir", "volmgr_emptydir.plugin:EmptyDir"])
def test_a_type_may_be_named_in_several_ways(tmp_path: Path, key: str) -> None:
    code, output = run(tmp_path, "--volmgr-plugin", key, "-k", "test_an_unmount_needs_names_only")
    assert code == 0, output
    assert "3 passed" in output


def test_a_type_that_is_not_installed_is_an_error_that_names_those_that_are(tmp_path: Path) -> None:
    code, output = run(tmp_path, "--volmgr-plugin", "nfs4")
    assert code != 0
    assert re.search("no volume type is called 'nfs4'; installed are .*emptydir.*hostpath", output)


def test_the_suite_says_what_it_needs_to_know(tmp_path: Path) -> None:
    code, output = run(tmp_path)
    assert code != 0
    assert "say which volume type is tested: --volmgr-plugin KEY" in output


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("source=Source", "Source has no default values"),
        ("", "Type names no source in handles"),
    ],
)
def test_a_type_that_needs_samples_is_told_where_to_write_them(tmp_path: Path, source: str, problem: str) -> None:
    (tmp_path / "needy.py").write_text(
        "from dataclasses import dataclass\n"
        "from volmgr.plugin import Handles, VolumePlugin\n"
        "@dataclass(frozen=True)\n"
        "class Source:\n"
        "    server: str\n"
        "class Type(VolumePlugin[Source]):\n"
        "    name = 'example.com/needy'\n"
        f"    handles = (Handles('needy', {source}),)\n"
    )
    code, output = run(tmp_path, "--volmgr-plugin", "needy:Type")
    assert code != 0
    assert problem in output
    assert "offer samples() in needy.contract" in output
