"""The contract suite for a driver that attaches and leaves the rest to us.

For one that mounts, it is run in tests/root/packaging, as for every type.
"""

import os
import subprocess  # noqa: TID251 - a test run of its own
import sys
from pathlib import Path

import pytest

ATTACHES = ("--volmgr-plugin", "contract_loopfile:LoopFile")
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
def test_a_driver_keeps_the_promises_of_a_type_in_memory(tmp_path: Path) -> None:
    code, output = run(tmp_path, *ATTACHES, "--volmgr-host", "fake")
    assert code == 0, output


@pytest.mark.root
@pytest.mark.timeout(600)
def test_a_driver_keeps_the_promises_of_a_type_on_the_kernel(tmp_path: Path) -> None:
    code, output = run(tmp_path, *ATTACHES, "--volmgr-host", "real", "-k", UNDISTURBED)
    assert code == 0, output
