"""Each volume type alone beside the core: wheels of this tree in an environment that has nothing else of it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TYPES = [path.parent.name for path in sorted(ROOT.glob("plugins/*/pyproject.toml")) if path.parent.name != "cri"]
"""Without what is no volume type: its tests install its wheel."""
IN_THE_VM = {"cephfs", "fc", "iscsi", "nfs"}
"""Whose servers and clients this kernel has not: `tests/vm/` keeps their promises on the real ones."""
EXTRAS = {"projected": "testing,tokens"}
"""What the README of a type tells to install beside it."""


def uv(*arguments: str | Path) -> str:
    """Run the pinned uv."""
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wheel(package: Path, directory: Path) -> Path:
    """Build the wheel of a package, as for publishing, without a network."""
    offline = ("--offline", "--no-build-isolation", "--wheel", "--python", sys.executable)
    uv("build", *offline, "--out-dir", directory, package)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the core."""
    return wheel(ROOT / "core", tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory, core: Path) -> Path:
    """An environment of the core with no type, which has byte code of what the suite needs: each type's begins so."""
    venv = tmp_path_factory.mktemp("begun") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    install(venv, f"volmgr[testing] @ {core.as_uri()}")
    command = [*suite(venv, "volmgr.testing.loopdisk:LoopDisk"), "--collect-only"]
    subprocess.run(command, check=True, capture_output=True, cwd=venv.parent, env=environment())
    return venv


@pytest.fixture
def venv(tmp_path: Path, core: Path, begun: Path, name: str) -> Path:
    """An environment of the core and one type, dependencies as they are locked."""
    venv = tmp_path / "venv"
    shutil.copytree(begun, venv, symlinks=True, copy_function=os.link)
    plugin = wheel(ROOT / "plugins" / name, tmp_path / "wheel")
    install(venv, f"volmgr[{EXTRAS.get(name, 'testing')}] @ {core.as_uri()}", plugin)
    return venv


def install(venv: Path, *wanted: str | Path) -> None:
    """Install packages and what they need, as it is locked."""
    pins = Path(sys.prefix) / "requirements.txt"  # scripts/bootstrap.py leaves it there
    uv("pip", "install", "--python", venv, "--constraint", pins, *wanted)


def suite(venv: Path, plugin: str) -> list[str]:
    """Give the command line of the contract suite."""
    pytest_argv = [str(venv / "bin/python"), "-m", "pytest", "-q", "--pyargs"]
    return [*pytest_argv, "volmgr.testing.contract", "--volmgr-plugin", plugin]


def environment() -> dict[str, str]:
    """Give this process's environment without what is said to Python and pytest."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON"))}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TYPES)
def test_a_type_alone_beside_the_core_keeps_its_promises_on_each_host(venv: Path, tmp_path: Path, name: str) -> None:
    installed = uv("pip", "freeze", "--python", venv).split()
    assert {each for each in installed if each.startswith("volmgr")} == {"volmgr", f"volmgr-{name}"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for host in ("fake",) if name in IN_THE_VM else ("fake", "real"):
        command = ["unshare", "--mount", "--propagation", "private", *suite(venv, name), "--volmgr-host", host]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=elsewhere, env=environment())
        assert done.returncode == 0, done.stdout + done.stderr
        assert "skipped" not in done.stdout
