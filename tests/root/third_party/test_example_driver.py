"""The example of a driver of `csi` that is a class keeps the contract; in a cluster it is tried by tests/kube."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.side_venv import SideVenv

DRIVER = Path(__file__).parents[2] / "kube/loop_type/driver"


@pytest.mark.parametrize("host", ["fake", "real"])
def test_it_keeps_the_contract(tmp_path: Path, host: str) -> None:
    environment = SideVenv.make(tmp_path / "venv")
    environment.install(DRIVER)
    suite = ("--pyargs", "volmgr.testing.contract", "--volmgr-plugin", "loop", "--volmgr-host", host)
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON"))}
    argv: list[str | Path] = [environment.python, "-m", "pytest", "-q", *suite, "--basetemp", tmp_path / "suite"]
    done = subprocess.run(argv, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
