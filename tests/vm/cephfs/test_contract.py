"""The contract of volume types, on a real cluster: both clients, a Secret and a secret file, read-only and not."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow  # hundreds of mounts, which take seconds each in an emulated machine
@pytest.mark.timeout(3000)
@pytest.mark.usefixtures("ceph")
def test_cephfs_keeps_the_contract_of_volume_types() -> None:
    suite = ["--pyargs", "volmgr.testing.contract", "--volmgr-plugin", "cephfs", "--volmgr-host", "real"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--color=no", "--tb=short"]
    # Each host call of an operation is disturbed in turn on a host in memory; here that would be hours of mounts.
    chosen = ["-k", "not killed and not failing and not failed and not errors and not uncertain"]
    done = subprocess.run([*command, *suite, *chosen, "-o", "timeout=600"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
