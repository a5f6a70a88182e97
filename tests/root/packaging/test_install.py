"""What `pip install` of some of the packages gives: a daemon that can do these and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.live_node import LiveNode

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of a fresh environment with the core and emptyDir, dependencies as they are locked."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    pins = Path(sys.prefix) / "requirements.txt"  # scripts/bootstrap.py leaves it there
    uv: list[str | Path] = [
        sys.executable,
        "-m",
        "uv",
        "--quiet",
        "pip",
        "install",
        "--python",
        venv,
        "--constraint",
        pins,
    ]
    subprocess.run([*uv, ROOT / "core", ROOT / "plugins" / "emptydir"], check=True)
    return venv / "bin" / "python"


def test_a_daemon_knows_what_is_installed_and_names_what_is_not(python: Path, tmp_path: Path) -> None:
    with LiveNode(python, tmp_path) as node:
        assert [line.split()[0] for line in node.tell("plugins").splitlines()] == ["TYPE", "kubernetes.io/empty-dir"]
        node.put("empty", {"emptyDir": {}})
        node.tell("wait", "empty")
        node.put("host", {"hostPath": {"path": "/etc"}})
        node.await_why("host", "install volmgr-hostpath")
        assert node.run("wait", "host", "--timeout", "0s").returncode == 1
