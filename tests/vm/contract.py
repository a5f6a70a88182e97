"""The contract suite of volume types, run in a guest against what its tests have started there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

EACH_CALL = "killed or failing or failed or failure or errors or uncertain"
"""Promises about a host that is disturbed at each of its calls in turn: on FakeHost; here that would be hours."""

_PYTEST = (sys.executable, "-m", "pytest", "-q", "--color=no", "--tb=short", "-o", "timeout=600")
_PLUGINS = ("-p", "pytest_timeout", "-p", "volmgr.testing.pytest_options", "-p", "no:cacheprovider")
_SUITE = ("--pyargs", "volmgr.testing.contract", "--volmgr-host", "real")


def assert_kept(
    plugin: str, *, chosen: str = f"not ({EACH_CALL})", environment: Mapping[str, str] | None = None
) -> None:
    """Run the suite for a type (`nfs`); `chosen` is as pytest's -k, and `environment` is what its samples read."""
    done = subprocess.run(
        [*_PYTEST, *_PLUGINS, *_SUITE, "--volmgr-plugin", plugin, "-k", chosen],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(environment or {})},
    )
    assert done.returncode == 0, done.stdout[-40000:] + done.stderr[-2000:]
