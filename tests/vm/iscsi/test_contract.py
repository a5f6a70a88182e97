"""The promises of volume types, kept by iscsi with a real target, open-iscsi and kernel."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.vm.iscsi.site import Site
from volmgr_iscsi.contract import IQN, LUN, PORTALS

LIMIT = 280.0
"""Seconds for all of it; the guest is emulated."""


def test_iscsi_keeps_the_contract_of_volume_types(site: Site) -> None:
    target = site.lio.target(IQN, portals=[each.partition(":")[0] for each in PORTALS])
    disk = site.lio.backstore("contract")
    target.map(LUN, disk)
    suite = ("--pyargs", "volmgr.testing.contract", "--volmgr-plugin", "iscsi", "--volmgr-host", "real")
    plugins = ("-p", "pytest_timeout", "-p", "volmgr.testing.pytest_options", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--color=no", "--tb=short", *plugins, *suite, "-k", _QUICK],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "VOLMGR_ISCSI_DISK": str(disk.loop)},
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


_QUICK = "not killed and not failing and not failed and not errors and not uncertain"
"""Each host call of an operation is disturbed in turn on FakeHost; here that would be hours of logins."""
