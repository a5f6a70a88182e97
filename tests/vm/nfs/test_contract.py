"""The contract of volume types, kept by nfs on the kernel's own client and server."""

from __future__ import annotations

import subprocess
import sys

import pytest

SECONDS = 1500


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.usefixtures("server")
def test_the_contract_is_kept_on_a_real_server() -> None:
    suite = ("--pyargs", "volmgr.testing.contract", "--volmgr-plugin", "nfs", "--volmgr-host", "real")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--timeout=600", *suite],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
