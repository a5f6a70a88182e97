"""The contract suite for a driver that mounts, and for one that attaches and leaves the rest to us."""

import os
import subprocess  # noqa: TID251 - a test run of its own
import sys
from pathlib import Path

import pytest

KEYS = ("flexvolume", "contract_loopfile:LoopFile")

UNDISTURBED = "not killed and not failed and not uncertain and not errors"
"""Of a disk that a Python program attaches, a kill at each host call takes 14 minutes; in memory each is tried."""


def run(tmp_path: Path, *options: str) -> tuple[int, str]:
    command = (sys.executable, "-m", "pytest", "--pyargs", "volmgr.testing.contract", *options)
    hermetic = ("-p", "no:cacheprovider", "-p", "no:randomly", "-q", "--basetemp", str(tmp_path / "run"))
    environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        (*command, *hermetic), cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(300)
@pytest.mark.parametrize("key", KEYS)
def test_a_driver_keeps_the_promises_of_a_type_in_memory(tmp_path: Path, key: str) -> None:
    code, output = run(tmp_path, "--volmgr-plugin", key, "--volmgr-host", "fake")
    assert code == 0, output


@pytest.mark.root
@pytest.mark.timeout(600)
@pytest.mark.parametrize("key", KEYS)
def test_a_driver_keeps_the_promises_of_a_type_on_the_kernel(tmp_path: Path, key: str) -> None:
    quick = () if key == "flexvolume" else ("-k", UNDISTURBED)
    code, output = run(tmp_path, "--volmgr-plugin", key, "--volmgr-host", "real", *quick)
    assert code == 0, output
