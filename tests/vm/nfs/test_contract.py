"""The contract of volume types, kept by nfs on the kernel's own client and server, over both kinds of addresses."""

from __future__ import annotations

import subprocess
import sys

import pytest

_EACH_CALL = "killed or failed or failure or uncertain or errors"
"""Promises about a host that is killed, or fails, at each call in turn: hundreds of mounts of seconds each."""


def kept(*chosen: str) -> None:
    suite = ["--pyargs", "volmgr.testing.contract", "--volmgr-plugin", "nfs", "--volmgr-host", "real", *chosen]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly", *suite]
    done = subprocess.run([*command, "-o", "timeout=600"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("server")
def test_the_promises_of_volume_types_are_kept() -> None:
    kept("-k", f"not ({_EACH_CALL})")


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.usefixtures("server")
def test_the_promises_about_kills_and_failures_at_each_call_are_kept() -> None:
    kept("-k", _EACH_CALL)
